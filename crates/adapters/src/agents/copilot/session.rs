//! One session folder as one session, and the notes in it about who carries it.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{
    Evidence, Fact, Facts, Found, OwnerIdentity, Parent, Registration, Relation, Stamp, Turn, TurnState,
    Witness,
};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::head::Head;
use super::places::{Place, note_pid};
use super::tail::Tail;
use super::usage::{self, UsageSum};
use super::workspace::Workspace;
use crate::Scope;
use crate::join::said_by_registry;
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular, read_small};
use crate::transcript::jsonl::scan_back;
use crate::transcript::jsonl::whole::lines_containing;
use crate::transcript::memory::Counted;

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;

/// One session that was read, with what was odd about it.
#[derive(Default)]
pub(super) struct ReadSession {
    /// `None` for a folder without a conversation.
    pub(super) found: Option<Found>,
    pub(super) registrations: Vec<Registration>,
    pub(super) warnings: Vec<String>,
    pub(super) drift: BTreeMap<String, u64>,
}

/// Reads one folder. `Err` names what had to be left out.
pub(super) fn read(
    place: &Place,
    since: Option<Timestamp>,
    scope: &Scope<'_>,
) -> Result<ReadSession, String> {
    let mut session = ReadSession { registrations: notes(place), ..ReadSession::default() };
    let path = place.events();
    let opened = match open_regular(&path) {
        Ok(opened) => opened,
        // Nothing was asked yet. The session is there as long as somebody carries it.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            for note in &mut session.registrations {
                note.found = Some(at_empty_prompt(place));
            }
            return Ok(session);
        }
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let untouched = opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since));
    if !untouched || !session.registrations.is_empty() {
        read_events(place, &opened, scope, &mut session)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(session)
}

/// The agent's own notes of the processes that carry the session, stale ones included.
fn notes(place: &Place) -> Vec<Registration> {
    let Ok(entries) = agentctl_files::entries(&place.folder) else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| note_pid(entry.file_name().to_str()?, ".lock"));
    let mut real = None;
    pids.map(|pid| {
        // The kernel names open files by their real path.
        let folder = real.get_or_insert_with(|| {
            agentctl_files::real_path(&place.folder).unwrap_or_else(|_| place.folder.clone())
        });
        let note = format!("inuse.{pid}.lock");
        Registration {
            id: place.id.clone(),
            slot: None,
            holder: OwnerIdentity::OpenFile { pid, path: folder.join(format!("inuse.{pid}.hold")) },
            testimony: Some(said_by_registry(format!("{note} names pid {pid}"))),
            place: place.folder.join(note),
            headless: false,
            found: None,
        }
    })
    .collect()
}

fn at_empty_prompt(place: &Place) -> Found {
    let mut facts = Facts { turn: Some(Turn::new(TurnState::NotBegun, None)), ..Facts::default() };
    add_workspace(place, &mut facts);
    Found {
        id: place.id.clone(),
        slot: None,
        place: place.workspace(),
        stamp: None,
        facts,
        evidence: Vec::new(),
    }
}

fn read_events(
    place: &Place,
    opened: &Opened,
    scope: &Scope<'_>,
    session: &mut ReadSession,
) -> std::io::Result<()> {
    let mut tail = Tail::new(scope.text_limit);
    let seen = scan_back(&opened.file, opened.size, &mut tail)?;
    if tail.records == 0 && opened.size > 0 {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "holds no readable event"));
    }
    let mut head = Head::new(scope.text_limit);
    scan_head(&opened.file, opened.size, HEAD_BUDGET, |line| head.line(line))?;
    let known = scope.recall(&place.events(), opened);
    let counted = scope.counted(&place.events(), opened, known, || {
        let mut sum = UsageSum::new(&place.id);
        lines_containing(&opened.file, &Finder::new(usage::MARK), |line| sum.line(line))?;
        Ok(Counted { tokens: sum.total(), ..Counted::default() })
    })?;
    if tail.broken > 0 || seen.too_long > 0 {
        let what = if tail.broken > 0 { "has a damaged event" } else { "has a line too long to read" };
        session.warnings.push(format!("{}: {what}", place.events().display()));
    }
    session.drift = std::mem::take(&mut tail.drift);
    let mut facts = facts(tail, head);
    facts.tokens = counted.tokens;
    add_workspace(place, &mut facts);
    let evidence = facts
        .turn
        .as_ref()
        .map(|turn| Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last));
    session.found = Some(Found {
        id: place.id.clone(),
        slot: None,
        place: place.events(),
        stamp: Some(Stamp { size: opened.size, modified: opened.modified }),
        facts,
        evidence: evidence.into_iter().collect(),
    });
    Ok(())
}

fn facts(tail: Tail, head: Head) -> Facts {
    let mut facts = Facts {
        model: tail.model().or(head.model),
        turn: Some(tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at))),
        prompt: head.prompt,
        last_message: tail.last_message,
        cwd: tail.cwd.or(head.cwd),
        branch: tail.branch,
        started_at: head.started_at,
        updated_at: tail.updated_at,
        stopped_at: tail.shut_down_at,
        parent: head.spawned_by.map(|id| Parent { id, relation: Relation::Subagent }),
        ..Facts::default()
    };
    if let Some(version) = head.version {
        facts.meta.insert("version".to_owned(), version.into());
    }
    facts
}

/// What `workspace.yaml` adds: where the session is now, and its name if that is more than the first prompt again.
fn add_workspace(place: &Place, facts: &mut Facts) {
    let Ok(bytes) = read_small(&place.workspace(), 64 << 10) else { return };
    let workspace = Workspace::parse(&String::from_utf8_lossy(&bytes));
    if let Some(cwd) = workspace.get("cwd").map(|cwd| clean_cut(cwd, None))
        && facts.cwd.as_ref() != Some(&cwd)
    {
        // The branch was recorded for another directory.
        facts.branch = None;
        facts.cwd = Some(cwd);
    }
    if facts.branch.is_none() {
        facts.branch = workspace.get("branch").map(|branch| clean_cut(branch, Some(250)));
    }
    let time = |key: &str| workspace.get(key).and_then(|text| text.parse().ok());
    facts.started_at = time("created_at").or(facts.started_at);
    facts.updated_at = facts.updated_at.or_else(|| time("updated_at"));
    facts.name = workspace
        .get("name")
        .filter(|name| workspace.is_user_named() || !repeats(name, facts.prompt.as_deref()))
        .map(|name| clean_cut(&one_line(name), Some(200)));
}

/// The agent begins by calling a session after its first prompt.
fn repeats(name: &str, prompt: Option<&str>) -> bool {
    let name = one_line(name);
    let name = name.trim_end_matches(['…', '.']).trim_end();
    prompt.map(one_line).is_some_and(|prompt| prompt.starts_with(name) || name.starts_with(&prompt))
}
