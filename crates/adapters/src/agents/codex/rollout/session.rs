//! Reads one rollout file as one session.

use std::io;

use agentctl_model::Facts;
use jiff::Timestamp;

use super::compressed;
use super::head::Head;
use super::spent::Spent;
use super::tail::Tail;
use super::tokens;
use crate::Scope;
use crate::agents::codex::storage::{RolloutFile, made_at};
use crate::transcript::gather::Gathered;
use crate::transcript::jsonl::ReadAt;
use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, BothEnds, Format};

struct Rollout<'s> {
    compressed: bool,
    scope: &'s Scope<'s>,
}

impl Format for Rollout<'_> {
    type Head = Head;
    type Tail = Tail;
    type Sum = Spent;

    /// The first record alone is about 20 KB, and the last turn begins further back; up to this size a single
    /// read is cheaper.
    const AT_ONCE: usize = 80 << 10;

    fn tail(&self, _: &Head) -> io::Result<Option<Tail>> {
        Ok(Some(Tail::new(self.scope.usage)))
    }

    /// The counters near the end are running totals. Only single calls need all of them.
    fn counts(&self, scope: &Scope<'_>) -> bool {
        scope.calls
    }

    fn sum(&self, _: &Head) -> Spent {
        Spent::default()
    }

    fn unpacked(&self, opened: &Opened) -> io::Result<Option<BothEnds>> {
        let decode = || compressed::decode(&opened.file, opened.size, &self.scope.progress);
        self.compressed.then(decode).transpose()
    }

    fn unpacked_whole(&self, opened: &Opened) -> io::Result<Option<Box<dyn ReadAt>>> {
        let whole = || {
            let file = opened.file.try_clone()?;
            Ok(Box::new(compressed::Unpacked::open(file, opened.size)?) as Box<dyn ReadAt>)
        };
        self.compressed.then(whole).transpose()
    }
}

/// Reads one rollout. Returns `Ok(None)` if it was not written since `since` or is still empty (the agent
/// creates the file before it writes the first record); `Err` names what had to be left out.
pub(crate) fn read(file: &RolloutFile, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let rollout = Rollout { compressed: file.compressed, scope };
    let Some(mut reading) = read::read(&rollout, &file.path, since, scope)?.into_reading() else {
        return Ok(None);
    };
    if reading.warning.is_none() && reading.head.origin.is_none() {
        // The tail stops long before the first record.
        reading.warning = Some("has no first record that can be read");
    }
    let facts = |head, tail, counted: &Counted| facts(head, tail, counted, file, scope.calls);
    Ok(Some(reading.into_session(file.id.clone(), &file.path, facts)))
}

fn facts(head: Head, mut tail: Tail, counted: &Counted, file: &RolloutFile, calls: bool) -> Facts {
    let origin = head.origin.unwrap_or_default();
    let turn = tail.turn();
    let mut facts = Facts {
        turn,
        name: origin.nickname,
        cwd: tail.cwd.or(origin.cwd),
        branch: origin.branch,
        // The id begins with its creation time.
        started_at: origin.started_at.or_else(|| made_at(&file.id)),
        tokens: if calls {
            counted.tokens
        } else {
            tokens::own(tail.total, origin.may_inherit, head.inherited)
        },
        calls: calls.then(|| counted.calls.clone()),
        parent: origin.parent.filter(|parent| parent.id != file.id),
        ..tail.latest.into_facts(head.first, counted)
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
    if file.archived {
        facts.meta.insert("archived".to_owned(), true.into());
    }
    facts
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
