//! One transcript file as one session.

use std::io;

use agentctl_model::{Facts, Parent, Relation};
use jiff::Timestamp;

use super::head::Head;
use super::places::Place;
use super::tail::Tail;
use super::usage::UsageSum;
use crate::Scope;
use crate::transcript::gather::Gathered;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, Format};

struct Transcript<'s>(&'s Scope<'s>);

impl Format for Transcript<'_> {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum;

    fn head(&self) -> Head {
        Head::new(self.0.text_limit)
    }

    fn tail(&self, _: &Head) -> io::Result<Option<Tail>> {
        Ok(Some(Tail::new(self.0.text_limit)))
    }

    fn sum(&self, _: &Head, _: &Tail, _: bool) -> Option<UsageSum> {
        self.0.usage.then(UsageSum::default)
    }
}

/// Reads one transcript: `Ok(None)` if it was not written since then or is gone, `Err` names what had to be left out.
pub(super) fn read(place: &Place, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let reading = read::read(&Transcript(scope), &place.path, since, scope)?.into_reading();
    Ok(reading.map(|reading| {
        reading.into_session(place.id.clone(), &place.path, |head, tail, counted| {
            facts(head, tail, counted, place)
        })
    }))
}

fn facts(mut head: Head, tail: Tail, counted: &Counted, place: &Place) -> Facts {
    let subagent = place.parent.as_ref().map(|id| Parent { id: id.clone(), relation: Relation::Subagent });
    let parent = subagent.or(head.parent.take().filter(|parent| parent.id != place.id));
    let mut facts = Facts {
        name: tail.title,
        cwd: tail.cwd,
        branch: tail.branch,
        parent,
        ..tail.latest.into_facts(head.into_first(), counted)
    };
    if let Some(version) = tail.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    if place.archived {
        facts.meta.insert("archived".to_owned(), true.into());
    }
    facts
}
