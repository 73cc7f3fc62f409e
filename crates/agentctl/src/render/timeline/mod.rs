//! Lanes for a person: the same in the terminal and as a picture.

mod axis;
pub(crate) mod svg;
pub(crate) mod terminal;

use agentctl_model::timeline::{Lane, Timeline};
use agentctl_model::{Road, text};

use super::sessions::short_ids;

/// What stands beside each lane: the id as it can be typed, and the name.
fn labels(timeline: &Timeline) -> Vec<(String, String)> {
    let ids = short_ids(timeline.lanes.iter().map(|lane| lane.session_id.as_str()));
    let label = |(lane, id): (&Lane, &str)| {
        let far = timeline.hosts.iter().any(|host| host.via != Road::Local && host.name == lane.host);
        let host = if far { format!("{}/", lane.host) } else { String::new() };
        let name = lane.name.as_deref().unwrap_or(&lane.adapter);
        (text::one_line(&format!("{host}{id}")), text::one_line(name))
    };
    timeline.lanes.iter().zip(ids).map(label).collect()
}
