//! One rollout file as one session.

use std::io;

use agentctl_model::{Evidence, Fact, Facts, Found, Stamp, Witness};
use jiff::Timestamp;

use super::compressed;
use super::head::Head;
use super::places::{Place, made_at};
use super::tail::Tail;
use super::tokens;
use crate::Scope;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular};
use crate::transcript::jsonl::{ReadAt, Seen, scan_back};

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;
/// The first record alone is some 20 KB, and the last turn begins further back: up to this size one read is cheaper.
const SMALL: usize = 80 << 10;

/// Reads one rollout: `Ok(None)` if it was not written since then or not written at all yet (the agent makes the
/// file first and its first record later); `Err` names what had to be left out.
pub(super) fn read(place: &Place, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let named = |error: io::Error| format!("{}: {error}", place.path.display());
    let opened = match open_regular(&place.path) {
        Ok(opened) => opened,
        // Archived or deleted since the folder was listed: it will be found where it is now, or not at all.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    let untouched = opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since));
    if untouched || opened.size == 0 {
        return Ok(None);
    }
    let both = if place.compressed {
        let bytes = compressed::decode(&opened.file, opened.size, &scope.progress).map_err(named)?;
        let (head, tail) = (bytes.head(), bytes.tail());
        both_ends((&head, head.len() as u64), (&tail, tail.len() as u64), scope)
    } else {
        opened.read_through(SMALL, |source, size| both_ends((source, size), (source, size), scope))
    };
    both.and_then(|ends| session(place, &opened, ends)).map_err(named).map(Some)
}

struct Ends {
    head: Head,
    tail: Tail,
    seen: Seen,
}

fn both_ends(begin: (&dyn ReadAt, u64), end: (&dyn ReadAt, u64), scope: &Scope<'_>) -> io::Result<Ends> {
    let mut tail = Tail::new(scope.text_limit, scope.usage);
    let seen = scan_back(end.0, end.1, &mut tail)?;
    let mut head = Head::new(scope.text_limit);
    scan_head(begin.0, begin.1, HEAD_BUDGET, |line| head.line(line))?;
    Ok(Ends { head, tail, seen })
}

fn session(place: &Place, opened: &Opened, ends: Ends) -> io::Result<ReadSession> {
    let Ends { head, mut tail, seen } = ends;
    if tail.records == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "holds no readable record"));
    }
    let warning = match (tail.broken, seen.too_long) {
        // The tail stops long before the first record.
        (0, 0) if head.origin.is_none() => Some("has no first record that can be read"),
        (0, 0) => None,
        (0, _) => Some("has a line too long to read"),
        _ => Some("has a damaged record"),
    }
    .map(|what| format!("{}: {what}", place.path.display()));
    let drift = std::mem::take(&mut tail.drift);
    let facts = facts(place, head, tail);
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

fn facts(place: &Place, head: Head, mut tail: Tail) -> Facts {
    let origin = head.origin.unwrap_or_default();
    let mut facts = Facts {
        turn: tail.turn(),
        name: origin.nickname,
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: tail.cwd.or(origin.cwd),
        branch: origin.branch,
        model: tail.model,
        // The id begins with the moment it was made.
        started_at: origin.started_at.or_else(|| made_at(&place.id)),
        updated_at: tail.updated_at,
        tokens: tokens::own(tail.total, origin.is_fork, head.inherited),
        parent: origin.parent.filter(|parent| parent.id != place.id),
        ..Facts::default()
    };
    let extras = [
        ("version", origin.version),
        ("source", origin.source),
        ("originator", origin.originator),
        ("threadSource", origin.thread_source),
    ];
    for (key, value) in extras {
        if let Some(value) = value {
            facts.meta.insert(key.to_owned(), value.into());
        }
    }
    if place.archived {
        facts.meta.insert("archived".to_owned(), true.into());
    }
    facts
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
