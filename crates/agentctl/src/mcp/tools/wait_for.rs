//! `wait_for`: what `agentctl wait` does.

use std::path::PathBuf;
use std::time::Duration;

use agentctl_fleet::Purpose;
use agentctl_model::{Error, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Card, Request, Told, TypedTool};
use crate::link::hosts::full;
use crate::link::waiting::{self, Ended, State};
use crate::link::waits::{Told as Seen, Waits};
use crate::mcp::desk::{Desk, Target};
use crate::mcp::row::{SessionRow, line};
use crate::render::time;

/// Most clients give a call a minute.
const USUAL: Duration = Duration::from_secs(50);
const LONGEST: Duration = Duration::from_hours(1);
/// How often a client that wants to know is told that the wait goes on.
const TELL_INTERVAL: Duration = Duration::from_secs(2);
const MOST_IDS: usize = 100;

pub(super) struct WaitFor;

/// What to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// Full id, unique beginning of one, or exact name, on another machine HOST/ID; or a list of them.
    id: Ids,
    /// Only sessions of this agent.
    adapter: Option<String>,
    /// Only sessions that work in this folder.
    cwd: Option<PathBuf>,
    /// The states to wait for: idle or stopped. A stopped session counts as idle.
    #[serde(default)]
    until: Vec<State>,
    /// One of the sessions is enough.
    #[serde(default)]
    any: bool,
    /// Give up after this time: 50s; at most 1h. A wait that is given up is no error.
    timeout: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Ids {
    One(String),
    Several(Vec<String>),
}

/// How the wait ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    /// The time was up before all were there; ask again.
    timed_out: bool,
    /// Whether no turn that was waited for ended badly.
    went_well: bool,
    /// Sessions in the state that was waited for, as they came into it.
    reached: Vec<SessionRow>,
    /// Sessions that are not, as last seen.
    pending: Vec<SessionRow>,
    /// Ids of sessions whose records were deleted meanwhile.
    gone: Vec<String>,
}

impl TypedTool for WaitFor {
    const CARD: Card = Card {
        name: "wait_for",
        title: "Wait for sessions",
        about: "Waits until sessions are idle or stopped, or in another state (`until`), and says how their turn ended. \
                Returns when the time is up, too: then call it again. Add `waiting` to `until` to hear of a session that \
                needs an answer.",
        needs: None,
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let timeout = takes.timeout.as_deref().map(time::parse_duration).transpose().map_err(Error::usage)?;
        let timeout = timeout.unwrap_or(USUAL).min(LONGEST);
        let ids = match takes.id {
            Ids::One(id) => vec![id],
            Ids::Several(ids) if ids.is_empty() => return Err(Error::usage("`id` names no session")),
            Ids::Several(ids) => ids,
        };
        if ids.len() > MOST_IDS {
            return Err(Error::usage(format!("at most {MOST_IDS} sessions can be waited for at once")));
        }
        let link = desk.link()?;
        let found = {
            let _look = desk.look();
            let find = |id: String| {
                let target = Target { id, adapter: takes.adapter.clone(), cwd: takes.cwd.clone() };
                desk.find(&target, Purpose::Read, &link)
            };
            ids.into_iter().map(find).collect::<Result<Vec<_>, Error>>()?
        };
        let mut wait = Waits::new(found, &State::until(&takes.until), takes.any);
        let mut told = None;
        let ended = waiting::until_over(
            &mut wait,
            &link.fleet,
            Some(timeout),
            &desk.surroundings(),
            |wait, waited| {
                wait.take_news().iter().for_each(|words| request.tell(words));
                if told.is_none_or(|told| waited >= told + TELL_INTERVAL) {
                    told = Some(waited);
                    let states = wait.open();
                    let states = states.iter().map(|one| {
                        let id = text::one_line(&one.session.id);
                        format!("{} {}", id.chars().take(8).collect::<String>(), one.session.status.as_str())
                    });
                    let states = states.collect::<Vec<_>>().join(", ");
                    request.tell(&format!("waiting {}: {states}", time::short(waited)));
                }
                request.is_over()
            },
        );
        let timed_out = ended == Ended::TimedOut;
        let headline = match (timed_out, wait.went_well()) {
            (true, _) => "the time is up; not all are there yet",
            (false, true) => "done",
            (false, false) => "done, but a turn failed, died or was interrupted",
        };
        let id = |one: &Seen<'_>| full(one.far, &one.session.id);
        let rows = |sessions: Vec<Seen<'_>>| {
            sessions.iter().map(|one| SessionRow::of(id(one), one.session)).collect::<Vec<_>>()
        };
        let all = [wait.reached(), wait.open()].concat();
        let body = all.iter().map(|one| line(&id(one), one.session)).collect::<Vec<_>>().join("\n");
        let data = Gives {
            timed_out,
            went_well: wait.went_well(),
            reached: rows(wait.reached()),
            pending: rows(wait.open()),
            gone: wait.gone().into_iter().map(|(far, key)| full(far, &key.id)).collect(),
        };
        Ok(Told { data, headline: headline.to_owned(), body })
    }
}
