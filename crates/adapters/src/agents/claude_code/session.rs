//! One transcript file as one session.

use agentctl_model::text::clean_cut;
use agentctl_model::{Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Turn, TurnState, Witness};
use jiff::Timestamp;
use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Map;

use super::head::Head;
use super::places::Place;
use super::tail::Tail;
use super::usage::{self, UsageSum};
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::head::scan_head_pieces;
use crate::transcript::jsonl::open::{Opened, open_regular, read_small};
use crate::transcript::jsonl::whole::{CHUNK, scan_containing};
use crate::transcript::jsonl::{ReadAt, scan_back};
use crate::transcript::memory::Counted;

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;
/// Reading both ends of a file up to this size would cost more than reading what lies between them too.
const SMALL: usize = 28 << 10;

/// Reads one transcript: `Ok(None)` if it was not written since then, or not at all so far, `Err` names what had to be left out.
pub(super) fn read(place: &Place, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let named = |error: std::io::Error| format!("{}: {error}", place.path.display());
    let opened = open_regular(&place.path).map_err(named)?;
    let old = opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since));
    if old || opened.size == 0 {
        return Ok(None);
    }
    let known = scope.recall(&place.path, &opened);
    let read = |source: &dyn ReadAt, size| read_opened(place, &opened, (source, size), known, scope);
    let whole = scope.usage && known.is_none();
    opened.read_through(if whole { CHUNK } else { SMALL }, read).map_err(named).map(Some)
}

fn read_opened(
    place: &Place,
    opened: &Opened,
    (source, size): (&dyn ReadAt, u64),
    known: Option<Counted>,
    scope: &Scope<'_>,
) -> std::io::Result<ReadSession> {
    let sidechain = place.parent.is_some();
    let mut tail = Tail::new(sidechain, scope.text_limit, scope.usage);
    let seen = scan_back(source, size, &mut tail)?;
    if tail.records == 0 {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "holds no readable record"));
    }
    let mut head = Head::new(sidechain, scope.text_limit);
    scan_head_pieces(source, size, HEAD_BUDGET, |piece| head.piece(piece))?;
    let counted = scope.counted(&place.path, opened, known, || {
        let mut sum = UsageSum::default();
        let mark = Finder::new(usage::MARK);
        let too_long = scan_containing(source, &mark, |passage| sum.passage(passage, sidechain))?;
        Ok(Counted { damaged: sum.is_damaged(seen.torn), tokens: sum.total(), too_long })
    })?;
    let damaged = tail.broken > 0 || (tail.last_broken && !seen.torn) || head.broken > 0 || counted.damaged;
    let warning = match (damaged, seen.too_long + counted.too_long) {
        (false, 0) => None,
        (false, _) => Some("has a line too long to read"),
        (true, _) => Some("has a damaged record"),
    }
    .map(|what| format!("{}: {what}", place.path.display()));
    let drift = std::mem::take(&mut tail.drift);
    let mut facts = facts(tail, head, place);
    facts.tokens = counted.tokens;
    let evidence = facts.turn.as_ref().map_or_else(
        || Evidence::new(Witness::Transcript, Fact::TurnNotSaid, facts.updated_at),
        |turn| Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last),
    );
    let found = Found {
        id: place.id.clone(),
        slot: None,
        place: place.path.clone(),
        stamp: Some(Stamp { size: opened.size, modified: opened.modified }),
        facts,
        evidence: vec![evidence],
    };
    Ok(ReadSession { found, warning, drift })
}

fn facts(tail: Tail, head: Head, place: &Place) -> Facts {
    let started_at = head.started_at();
    let mut facts = Facts {
        name: tail.title(),
        turn: Some(tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at))),
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: tail.cwd,
        branch: tail.branch,
        model: tail.model,
        started_at,
        updated_at: tail.updated_at,
        cost: tail.cost,
        ..Facts::default()
    };
    if let Some(version) = tail.version {
        facts.meta = Map::with_capacity(1).into();
        facts.meta.insert("version".to_owned(), version.into());
    }
    if let Some(parent) = &place.parent {
        let id = if parent.is_empty() { tail.session_id } else { Some(parent.clone()) };
        facts.parent = id.map(|id| Parent { id, relation: Relation::Subagent });
        describe_subagent(place, &mut facts);
    } else if let Some(parent) = head.forked_from.filter(|parent| *parent != place.id) {
        facts.parent = Some(Parent { id: parent, relation: Relation::Fork });
    }
    facts
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubagentNote {
    description: Option<String>,
    agent_type: Option<String>,
}

/// The small file beside a sub-agent's transcript says what it was started for.
fn describe_subagent(place: &Place, facts: &mut Facts) {
    let Ok(bytes) = read_small(&place.path.with_extension("meta.json"), 64 << 10) else { return };
    let Ok(note) = serde_json::from_slice::<SubagentNote>(&bytes) else { return };
    facts.name = note.description.map(|text| clean_cut(&text, Some(200))).or_else(|| facts.name.take());
    if let Some(kind) = note.agent_type {
        facts.meta.insert("agentType".to_owned(), clean_cut(&kind, Some(100)).into());
    }
}
