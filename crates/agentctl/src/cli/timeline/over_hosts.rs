//! The times of several machines. Each machine draws its own lanes by its own clock.

use std::time::Instant;

use agentctl_daemon::timeline_pairs;
use agentctl_fleet::{Fleet, Since, TimelineQuery};
use agentctl_hosts::Ask;
use agentctl_model::timeline::{TimeWindow, Timeline};
use agentctl_model::{HostReport, Surveyed};

use crate::failure::Failure;
use crate::link::hosts::{Asked, Located, Roster};
use crate::surroundings::Surroundings;

/// Every session of these machines.
pub(crate) fn timeline(
    roster: &Roster,
    asked: &Asked,
    query: &TimelineQuery,
    fleet: &Fleet,
    surroundings: &Surroundings,
) -> Timeline {
    let empty = || nothing(query.since, fleet, surroundings);
    let mut all = if asked.local { fleet.whole_timeline(query) } else { empty() };
    // A folder that is not text cannot be asked for elsewhere, and nothing there can fit it.
    if let Some(pairs) = timeline_pairs(query) {
        let target = format!("/v1/timeline?{pairs}");
        let told = |row: &mut HostReport, there: &Timeline| {
            row.told(there.as_of, &there.sources, there.hosts.first());
        };
        let (rows, answers) = roster.ask_all(asked, std::mem::take(&mut all.hosts), Ask::get(&target), told);
        all.hosts = rows;
        for (name, there) in answers {
            add(&mut all, &name, there);
        }
    }
    all
}

/// These sessions, each on its own machine.
pub(super) fn timeline_of(
    sessions: &[Located],
    since: Since,
    fleet: &Fleet,
    surroundings: &Surroundings,
) -> Result<Timeline, Failure> {
    let began = Instant::now();
    let here: Vec<&Located> = sessions.iter().filter(|one| one.far.is_none()).collect();
    let mut all = match here.first() {
        None => nothing(since, fleet, surroundings),
        Some(first) => {
            let found: Vec<Surveyed> = here.iter().map(|one| one.found.clone()).collect();
            fleet.timeline_of(&found, since, first.sources.clone(), began)
        }
    };
    for one in sessions {
        let Some(far) = &one.far else { continue };
        let key = &one.found.key;
        let query = TimelineQuery {
            since,
            ids: vec![key.id.clone()],
            adapters: vec![key.adapter.clone()],
            root: Some(key.root.clone()),
            folders: key
                .variant
                .as_ref()
                .and(one.found.session.cwd.as_ref())
                .map(Into::into)
                .into_iter()
                .collect(),
        };
        let target = format!("/v1/timeline?{}", timeline_pairs(&query).unwrap_or_default());
        let there: Timeline = far.read(Ask::get(&target)).map_err(|why| far.refused(why))?;
        let hosts = there.hosts.clone();
        let name = far.name.to_string();
        add(&mut all, &name, there);
        for mut row in hosts {
            row.name.clone_from(&name);
            row.via = far.road.via();
            if !all.hosts.iter().any(|known| known.name == row.name) {
                all.hosts.push(row);
            }
        }
    }
    Ok(all)
}

fn nothing(since: Since, fleet: &Fleet, surroundings: &Surroundings) -> Timeline {
    let as_of = surroundings.now();
    Timeline {
        as_of,
        host: fleet.host().to_owned(),
        window: TimeWindow { since: since.start(as_of), until: as_of },
        lanes: Vec::new(),
        sources: Vec::new(),
        hosts: Vec::new(),
    }
}

/// Adds what one machine told, under the name by which it was asked.
fn add(all: &mut Timeline, name: &str, there: Timeline) {
    all.lanes.extend(there.lanes.into_iter().map(|mut lane| {
        name.clone_into(&mut lane.host);
        lane
    }));
    all.sources.extend(there.sources.into_iter().map(|mut source| {
        name.clone_into(&mut source.host);
        source
    }));
}
