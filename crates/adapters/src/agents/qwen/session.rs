//! One transcript file as one session.

use agentctl_model::{Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Turn, TurnState, Witness};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::head::Head;
use super::places::Place;
use super::tail::Tail;
use super::usage::{self, UsageSum};
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular};
use crate::transcript::jsonl::scan_back;
use crate::transcript::jsonl::whole::lines_containing;
use crate::transcript::memory::Counted;

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;

/// Reads one transcript: `Ok(None)` if it was not written since then or is gone, `Err` names what had to be left out.
pub(super) fn read(place: &Place, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let named = |error: std::io::Error| format!("{}: {error}", place.path.display());
    let opened = match open_regular(&place.path) {
        Ok(opened) => opened,
        // Deleted or archived since it was listed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    if opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since)) {
        return Ok(None);
    }
    read_opened(place, &opened, scope).map_err(named)
}

fn read_opened(place: &Place, opened: &Opened, scope: &Scope<'_>) -> std::io::Result<Option<ReadSession>> {
    let mut tail = Tail::new(scope.text_limit);
    let seen = scan_back(&opened.file, opened.size, &mut tail)?;
    if tail.records == 0 {
        if opened.size == 0 {
            // Made, and nothing written yet: not a session so far.
            return Ok(None);
        }
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "holds no readable record"));
    }
    let mut head = Head::new(scope.text_limit);
    scan_head(&opened.file, opened.size, HEAD_BUDGET, |line| head.line(line))?;
    let known = scope.recall(&place.path, opened);
    let counted = scope.counted(&place.path, opened, known, || {
        let mut sum = UsageSum::default();
        lines_containing(&opened.file, &Finder::new(usage::MARK), |line| sum.line(line))?;
        Ok(Counted { tokens: sum.total(), ..Counted::default() })
    })?;
    let warning = match (tail.broken, seen.too_long) {
        (0, 0) => None,
        (0, _) => Some("has a line too long to read"),
        _ => Some("has a damaged record"),
    }
    .map(|what| format!("{}: {what}", place.path.display()));
    let drift = std::mem::take(&mut tail.drift);
    let mut facts = facts(tail, head, place);
    facts.tokens = counted.tokens;
    let evidence = facts
        .turn
        .as_ref()
        .map(|turn| Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last));
    let found = Found {
        id: place.id.clone(),
        slot: None,
        place: place.path.clone(),
        stamp: Some(Stamp { size: opened.size, modified: opened.modified }),
        facts,
        evidence: evidence.into_iter().collect(),
    };
    Ok(Some(ReadSession { found, warning, drift }))
}

fn facts(tail: Tail, head: Head, place: &Place) -> Facts {
    let subagent = place.parent.as_ref().map(|id| Parent { id: id.clone(), relation: Relation::Subagent });
    let started_at = head.started_at();
    let mut facts = Facts {
        name: tail.title,
        turn: Some(tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at))),
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: tail.cwd,
        branch: tail.branch,
        model: tail.model,
        started_at,
        updated_at: tail.updated_at,
        parent: subagent.or_else(|| head.parent.filter(|parent| parent.id != place.id)),
        ..Facts::default()
    };
    if let Some(version) = tail.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    if place.archived {
        facts.meta.insert("archived".to_owned(), true.into());
    }
    facts
}
