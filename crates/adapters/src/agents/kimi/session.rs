//! One session folder as one session.

use std::io::{Error, ErrorKind};

use agentctl_model::text::clean_cut;
use agentctl_model::{Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Turn, TurnState, Witness};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::head::Head;
use super::places::Place;
use super::state::State;
use super::tail::Tail;
use super::usage::{self, UsageSum};
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular, read_small};
use crate::transcript::jsonl::scan_back;
use crate::transcript::jsonl::whole::scan_whole;
use crate::transcript::memory::Counted;

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;
/// A state names the sub-agents; hundreds of them are below this.
const STATE_LIMIT: u64 = 4 << 20;

/// Reads one folder: the records, and beside them what the agent keeps of the session as a whole. Each is heard without the other.
pub(super) fn read(place: &Place, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let path = place.wire();
    let named = |error: Error| format!("{}: {error}", path.display());
    let opened = match open_regular(&path) {
        Ok(opened) => Some(opened),
        // Made, and nothing was said in it yet.
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(named(error)),
    };
    let modified = opened.as_ref().and_then(|opened| opened.modified);
    if modified.is_some_and(|modified| since.is_some_and(|since| modified < since)) {
        return Ok(None);
    }
    let mut session = empty(place);
    if let Some(opened) = &opened {
        read_records(place, opened, scope, &mut session).map_err(named)?;
    }
    match read_small(&place.state(), STATE_LIMIT) {
        Ok(bytes) => match State::parse(&bytes) {
            Some(state) => add_state(&state, &mut session.found.facts),
            None => warn(&mut session, format!("{}: holds no readable state", place.state().display())),
        },
        // A folder with neither is none of a session.
        Err(error) if error.kind() == ErrorKind::NotFound && opened.is_none() => return Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => warn(&mut session, format!("{}: {error}", place.state().display())),
    }
    Ok(Some(session))
}

fn warn(session: &mut ReadSession, words: String) {
    session.warning.get_or_insert(words);
}

fn empty(place: &Place) -> ReadSession {
    let facts = Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() };
    let found = Found {
        id: place.id.clone(),
        slot: None,
        place: place.wire(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    };
    ReadSession { found, warning: None, drift: std::collections::BTreeMap::new() }
}

fn read_records(
    place: &Place,
    opened: &Opened,
    scope: &Scope<'_>,
    session: &mut ReadSession,
) -> std::io::Result<()> {
    let mut tail = Tail::new(scope.text_limit);
    let seen = scan_back(&opened.file, opened.size, &mut tail)?;
    if tail.records == 0 && opened.size > 0 {
        return Err(Error::new(ErrorKind::InvalidData, "holds no readable record"));
    }
    let mut head = Head::new(scope.text_limit);
    scan_head(&opened.file, opened.size, HEAD_BUDGET, |line| head.line(line))?;
    let wire = place.wire();
    let known = scope.recall(&wire, opened);
    let counted = scope.counted(&wire, opened, known, || {
        let marks = usage::MARKS.map(Finder::new);
        let mut sum = UsageSum::default();
        let too_long = scan_whole(&opened.file, |line| {
            if marks.iter().any(|mark| mark.find(line).is_some()) {
                sum.line(line);
            }
        })?;
        Ok(Counted { tokens: sum.total(), too_long, ..Counted::default() })
    })?;
    if tail.broken > 0 || seen.too_long > 0 || counted.too_long > 0 {
        let what = if tail.broken > 0 { "has a damaged record" } else { "has a line too long to read" };
        session.warning = Some(format!("{}: {what}", wire.display()));
    }
    session.drift = std::mem::take(&mut tail.drift);
    let turn = tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at));
    session.found.stamp = Some(Stamp { size: opened.size, modified: opened.modified });
    session.found.evidence = vec![Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last)];
    session.found.facts = Facts {
        turn: Some(turn),
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: head.cwd,
        model: tail.model,
        started_at: head.started_at,
        updated_at: tail.updated_at,
        tokens: counted.tokens,
        ..Facts::default()
    };
    Ok(())
}

/// What `state.json` adds. A fork's records begin with its parent's: only here stands when it was made itself.
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
