//! Reads one transcript file as one session.

use std::io;

use agentctl_model::text::clean_cut;
use agentctl_model::{Facts, Parent, Relation};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Map;

use super::head::Head;
use super::storage::TranscriptFile;
use super::tail::Tail;
use super::usage::UsageSum;
use crate::Scope;
use crate::transcript::gather::Gathered;
use crate::transcript::jsonl::open::read_small;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, Format};

struct Transcript {
    /// The file belongs to a sub-agent, so its own records are the side chain.
    sidechain: bool,
    /// Totals are wanted, so the file is read to its beginning anyway.
    usage: bool,
}

impl Format for Transcript {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum;

    const AT_ONCE: usize = 28 << 10;

    fn form(&self) -> u8 {
        self.sidechain.into()
    }

    fn head(&self) -> Head {
        Head::new(self.sidechain)
    }

    fn tail(&self, _: &Head) -> io::Result<Option<Tail>> {
        Ok(Some(Tail::new(self.sidechain, self.usage)))
    }

    fn sum(&self, _: &Head) -> UsageSum {
        UsageSum::new(self.sidechain)
    }
}

/// Reads one transcript. Returns `Ok(None)` if it was not written since `since` or is still empty; `Err`
/// names what had to be left out.
pub(super) fn read(file: &TranscriptFile, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let transcript = Transcript { sidechain: file.parent.is_some(), usage: scope.usage };
    let reading = read::read(&transcript, &file.path, since, scope)?.into_reading();
    Ok(reading.map(|reading| {
        reading
            .into_session(file.id.clone(), &file.path, |head, tail, counted| facts(head, tail, counted, file))
    }))
}

fn facts(mut head: Head, tail: Tail, counted: &Counted, file: &TranscriptFile) -> Facts {
    let forked_from = head.forked_from.take();
    let mut facts = Facts {
        name: tail.custom_title.or(tail.ai_title),
        cwd: tail.directory.cwd,
        branch: tail.directory.branch,
        cost: tail.cost,
        ..tail.latest.into_facts(head.first, counted)
    };
    if let Some(version) = tail.version {
        facts.meta = Map::with_capacity(1).into();
        facts.meta.insert("version".to_owned(), version.into());
    }
    if let Some(parent) = &file.parent {
        let id = if parent.is_empty() { tail.session_id } else { Some(parent.clone()) };
        facts.parent = id.map(|id| Parent { id, relation: Relation::Subagent });
        describe_subagent(file, &mut facts);
    } else if let Some(parent) = forked_from.filter(|parent| *parent != file.id) {
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

/// The small file beside a sub-agent's transcript describes why it was started.
fn describe_subagent(file: &TranscriptFile, facts: &mut Facts) {
    let Ok(bytes) = read_small(&file.path.with_extension("meta.json"), 64 << 10) else { return };
    let Ok(note) = serde_json::from_slice::<SubagentNote>(&bytes) else { return };
    facts.name = note.description.map(|text| clean_cut(&text, Some(200))).or_else(|| facts.name.take());
    if let Some(kind) = note.agent_type {
        facts.meta.insert("agentType".to_owned(), clean_cut(&kind, Some(100)).into());
    }
}
