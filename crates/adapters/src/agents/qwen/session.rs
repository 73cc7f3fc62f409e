//! Reads one transcript file as one session.

use agentctl_model::{Facts, Parent, Relation};
use jiff::Timestamp;

use super::head::Head;
use super::storage::TranscriptFile;
use super::tail::Tail;
use super::usage::UsageSum;
use crate::Scope;
use crate::transcript::gather::Gathered;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, Format};

struct Transcript;

impl Format for Transcript {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum;

    fn sum(&self, _: &Head) -> UsageSum {
        UsageSum::default()
    }
}

/// Reads one transcript. Returns `Ok(None)` if it was not written since `since` or no longer exists; `Err`
/// names what had to be left out.
pub(super) fn read(file: &TranscriptFile, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let reading = read::read(&Transcript, &file.path, since, scope)?.into_reading();
    Ok(reading.map(|reading| {
        reading
            .into_session(file.id.clone(), &file.path, |head, tail, counted| facts(head, tail, counted, file))
    }))
}

fn facts(mut head: Head, tail: Tail, counted: &Counted, file: &TranscriptFile) -> Facts {
    let subagent = file.parent.as_ref().map(|id| Parent { id: id.clone(), relation: Relation::Subagent });
    let parent = subagent.or(head.parent.take().filter(|parent| parent.id != file.id));
    let mut facts = Facts {
        name: tail.title,
        cwd: tail.directory.cwd,
        branch: tail.directory.branch,
        parent,
        ..tail.latest.into_facts(head.first, counted)
    };
    if let Some(version) = tail.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    if file.archived {
        facts.meta.insert("archived".to_owned(), true.into());
    }
    facts
}
