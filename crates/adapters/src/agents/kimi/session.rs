//! Reads one session folder as one session.

use std::io;

use agentctl_model::text::clean_cut;
use agentctl_model::{Call, Facts, Found, Parent, Relation, Turn, TurnState};
use jiff::Timestamp;

use super::head::Head;
use super::state::State;
use super::storage::SessionFolder;
use super::tail::Tail;
use super::usage::UsageSum;
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::open::{open_regular, read_small};
use crate::transcript::read::{self, Format, Read, Sum};

/// The limit for a state, which names the sub-agents; hundreds of them fit.
const STATE_LIMIT: u64 = 4 << 20;

struct Records;

impl Format for Records {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum;

    const EMPTY_IS_SESSION: bool = true;

    fn sum(&self, _: &Head) -> UsageSum {
        UsageSum::default()
    }
}

/// Reads one folder: the records, and beside them the agent's state of the whole session. Each is read
/// independently of the other.
pub(super) fn read(folder: &SessionFolder, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let wire = folder.wire();
    let (mut session, has_records) = match read::read(&Records, &wire, since, scope)? {
        Read::Passed => return Ok(None),
        // The session was created, but has no messages yet.
        Read::Gone => (ReadSession { found: Some(empty(folder)), ..ReadSession::default() }, false),
        Read::Session(reading) => {
            let session = reading.into_session(folder.id.clone(), &wire, |head, tail, counted| Facts {
                cwd: head.cwd,
                ..tail.latest.into_facts(head.first, counted)
            });
            (session, true)
        }
    };
    if let Some(found) = session.found.as_mut().filter(|_| scope.calls) {
        add_subagents(folder, &mut found.facts);
    }
    let warning = match read_small(&folder.state(), STATE_LIMIT) {
        Ok(bytes) => match State::parse(&bytes) {
            Some(state) => {
                session.found.iter_mut().for_each(|found| add_state(&state, &mut found.facts));
                None
            }
            None => Some(format!("{}: holds no readable state", folder.state().display())),
        },
        // A folder with neither file is not a session.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !has_records => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("{}: {error}", folder.state().display())),
    };
    session.warning = session.warning.or(warning);
    Ok(Some(session))
}

/// The calls of the sub-agents, whose records lie beside those of the main agent.
fn add_subagents(folder: &SessionFolder, facts: &mut Facts) {
    let mut calls: Vec<Call> = facts.calls.iter().flat_map(|calls| calls.iter().cloned()).collect();
    for (agent, wire) in folder.subagents() {
        let mut sum = UsageSum::default();
        let Ok(opened) = open_regular(&wire) else { continue };
        if read::add_up(&mut sum, &opened.file).is_ok() {
            let own = sum.counted(false).calls;
            // The main agent's file may tell of them too.
            let is_new =
                |call: &&Call| !calls.iter().any(|known| known.at == call.at && known.tokens == call.tokens);
            let new: Vec<Call> = own.iter().filter(is_new).cloned().collect();
            calls.extend(new.into_iter().map(|call| Call { agent: Some(agent.as_str().into()), ..call }));
        }
    }
    facts.calls = Some(calls.into());
}

fn empty(folder: &SessionFolder) -> Found {
    let facts = Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() };
    Found {
        id: folder.id.clone(),
        variant: None,
        place: folder.wire(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    }
}

/// Adds the contents of `state.json`. A fork's records begin with its parent's, so only the state has its own
/// creation time.
fn add_state(state: &State<'_>, facts: &mut Facts) {
    facts.cwd = state.cwd().or(facts.cwd.take());
    facts.started_at = state.created_at().or(facts.started_at);
    facts.updated_at = facts.updated_at.or_else(|| state.updated_at());
    facts.name = state.name(facts.prompt.as_deref());
    facts.parent =
        state.forked_from().map(|id| Parent { id: clean_cut(id, Some(250)), relation: Relation::Fork });
    if state.is_archived() {
        facts.meta.insert("archived".to_owned(), true.into());
    }
}
