//! Reads one session folder as one session, with the notes in it about its owners.

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{Facts, Found, OwnerIdentity, Parent, Registration, Relation, Turn, TurnState};
use jiff::Timestamp;

use super::head::Head;
use super::storage::{SessionFolder, note_pid};
use super::tail::Tail;
use super::usage::UsageSum;
use super::workspace::Workspace;
use crate::Scope;
use crate::join::registry_report;
use crate::transcript::gather::{Gathered, ReadSession};
use crate::transcript::jsonl::open::read_small;
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, Format, Read};

struct Events<'s> {
    session: &'s str,
}

impl<'s> Format for Events<'s> {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum<'s>;

    const EMPTY_IS_SESSION: bool = true;

    fn sum(&self, _: &Head) -> UsageSum<'s> {
        UsageSum::new(self.session)
    }
}

/// Reads one folder. `Err` names what had to be left out.
pub(super) fn read(folder: &SessionFolder, since: Option<Timestamp>, scope: &Scope<'_>) -> Gathered {
    let mut registrations = notes(folder);
    // A session that may have an owner is read however old it is.
    let since = since.filter(|_| registrations.is_empty());
    let (path, events) = (folder.events(), Events { session: &folder.id });
    let session = match read::read(&events, &path, since, scope)? {
        Read::Session(reading) => reading.into_session(folder.id.clone(), &path, |head, tail, counted| {
            let mut facts = facts(head, tail, counted);
            add_workspace(folder, &mut facts);
            facts
        }),
        Read::Passed => ReadSession::default(),
        // There was no prompt yet. The session exists as long as a process owns it.
        Read::Gone => {
            for note in &mut registrations {
                note.found = Some(at_empty_prompt(folder));
            }
            ReadSession::default()
        }
    };
    Ok(Some(ReadSession { registrations, ..session }))
}

/// The agent's own notes of the processes that own the session, including stale ones.
fn notes(folder: &SessionFolder) -> Vec<Registration> {
    let Ok(entries) = agentctl_files::entries(&folder.path) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| note_pid(entry.file_name().to_str()?, ".lock"));
    let mut real = None;
    pids.map(|pid| {
        // The kernel names open files by their real path.
        let real_path = real.get_or_insert_with(|| {
            agentctl_files::real_path(&folder.path).unwrap_or_else(|_| folder.path.clone())
        });
        let note = format!("inuse.{pid}.lock");
        Registration {
            id: folder.id.clone(),
            variant: None,
            holder: OwnerIdentity::OpenFile { pid, path: real_path.join(format!("inuse.{pid}.hold")) },
            live_report: Some(registry_report(format!("{note} names pid {pid}"))),
            place: folder.path.join(note),
            headless: false,
            found: None,
        }
    })
    .collect()
}

fn at_empty_prompt(folder: &SessionFolder) -> Found {
    let mut facts = Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() };
    add_workspace(folder, &mut facts);
    Found {
        id: folder.id.clone(),
        variant: None,
        place: folder.workspace(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    }
}

fn facts(head: Head, tail: Tail, counted: &Counted) -> Facts {
    let mut facts = Facts {
        cwd: tail.directory.cwd.or(head.cwd),
        branch: tail.directory.branch,
        stopped_at: tail.shut_down_at,
        parent: head.spawned_by.map(|id| Parent { id, relation: Relation::Subagent }),
        ..tail.latest.into_facts(head.first, counted)
    };
    facts.model = facts.model.or(tail.chosen_model).or(head.model);
    if let Some(version) = head.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    facts
}

/// Adds the contents of `workspace.yaml`: the session's current directory, and its name if that does more
/// than repeat the first prompt.
fn add_workspace(folder: &SessionFolder, facts: &mut Facts) {
    let Ok(bytes) = read_small(&folder.workspace(), 64 << 10) else { return };
    let workspace = Workspace::parse(&String::from_utf8_lossy(&bytes));
    if let Some(cwd) = workspace.cwd.as_deref().map(|cwd| clean_cut(cwd, None))
        && facts.cwd.as_ref() != Some(&cwd)
    {
        // The recorded branch belongs to another directory.
        facts.branch = None;
        facts.cwd = Some(cwd);
    }
    if facts.branch.is_none() {
        facts.branch = workspace.branch.as_deref().map(|branch| clean_cut(branch, Some(250)));
    }
    let time = |text: Option<&str>| text.and_then(|text| text.parse().ok());
    facts.started_at = time(workspace.created_at.as_deref()).or(facts.started_at);
    facts.updated_at = facts.updated_at.or_else(|| time(workspace.updated_at.as_deref()));
    let is_user_named = workspace.user_named == Some(true);
    facts.name = workspace
        .name
        .as_deref()
        .filter(|name| is_user_named || !repeats(name, facts.prompt.as_deref()))
        .map(|name| clean_cut(&one_line(name), Some(200)));
}

/// Whether the name only repeats the prompt: the agent first names a session after its first prompt.
fn repeats(name: &str, prompt: Option<&str>) -> bool {
    let name = one_line(name);
    let name = name.trim_end_matches(['…', '.']).trim_end();
    prompt.map(one_line).is_some_and(|prompt| prompt.starts_with(name) || name.starts_with(&prompt))
}
