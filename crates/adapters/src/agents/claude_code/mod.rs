//! Claude Code stores transcripts under `projects/` and its own registry of live processes under `sessions/`.

mod control;
mod entries;
mod head;
mod join;
mod marks;
mod processes;
pub mod protocol;
mod records;
mod registry;
mod reply;
mod session;
mod storage;
mod tail;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use agentctl_model::{
    Capability, Entry, Harvest, Joined, KernelView, OwnerIdentity, ProcessHead, Registration,
};

use crate::transcript::folder::harvest_of;
use crate::transcript::gather::gather;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower};
use crate::transcript::jsonl::open::read_small;
use crate::transcript::jsonl::peek::read_last;
use crate::{
    Adapter, Card, Control, Conversation, ListFiles, Reach, ReadError, Root, Scope, Stored, Trace,
    WatchTarget, ways,
};
use storage::TranscriptFile;

pub struct ClaudeCode;

static CARD: Card = Card::new("claude-code", "Claude Code")
    .programs(&["claude"])
    .home("CLAUDE_CONFIG_DIR", ".claude")
    .opened_by(&["claude", "--resume", "ID"])
    .id_marks(&["CLAUDE_CODE_SESSION_ID"])
    .marks(&[
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_PID",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
    ])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume, Capability::Fork])
    .ways(ways::CLAUDE_CODE)
    .known_good("2.1.301 – 2.1.325")
    .trace(Trace::Note);

impl Adapter for ClaudeCode {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        harvest_of(&root.path, |harvest| {
            read_registry(&root.path.join("sessions"), scope, harvest);
            let files = wanted_transcripts(&root.path.join("projects"), root, scope, harvest);
            gather(&files, scope, harvest, session::read);
        })
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::is_claude(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        let (registry, projects) = (root.path.join("sessions"), root.path.join("projects"));
        vec![WatchTarget::new(registry, 0), WatchTarget::new(projects, 1)]
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        // A session at its empty prompt has only its registry file and no messages yet.
        if is_registry_file(place) { Ok(Vec::new()) } else { read_last(place, entries::entries, limit) }
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Ok(Box::new(JsonlFollower::start(place, entries::entries, backlog)?))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        if is_registry_file(place) {
            Conversation::Nothing
        } else {
            Conversation::lines(place, entries::entries, marks::marks)
        }
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            Stored::below(&root.path, |harvest| {
                let files = storage::all(&root.path.join("projects"), true, harvest);
                files.into_iter().map(|file| (file.id, file.path)).collect()
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&ClaudeCode)
    }
}

fn is_registry_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

/// Reads every registry file. A file that does not parse may be half written, so it is read again several
/// times before it is reported as unreadable.
fn read_registry(folder: &Path, scope: &Scope<'_>, harvest: &mut Harvest) {
    let entries = match agentctl_files::entries(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return;
        }
    };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_registry_file(path)) {
        scope.progress.tick();
        match read_registration(&path) {
            Ok(Some(note)) => harvest.registrations.push(note),
            Ok(None) => {}
            // The file may name a session that has no other trace yet, so the harvest is no longer complete.
            Err(error) => harvest.left_out(format!("{}: {error}", path.display())),
        }
    }
}

fn read_registration(path: &Path) -> std::io::Result<Option<Registration>> {
    for _ in 0..4 {
        match read_small(path, 256 << 10) {
            Ok(bytes) => {
                if let Some(note) = registry::parse(&bytes, path) {
                    return Ok(Some(note));
                }
            }
            // The agent removed the file at exit or is about to rewrite it; the process table shows whether
            // the process still lives.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(3));
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "is no registry record"))
}

fn wanted_transcripts(
    projects: &Path,
    root: &Root,
    scope: &Scope<'_>,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    match scope.reach {
        Reach::All { .. } => storage::all(projects, scope.subagents, harvest),
        // Whole ids are found by file name; an id prefix needs a listing of all names.
        Reach::Ids(ids) if !scope.subagents && ids.iter().all(|id| processes::is_uuid(id)) => {
            storage::named(projects, ids, harvest)
        }
        Reach::Ids(_) => {
            let mut all = storage::all(projects, scope.subagents, harvest);
            all.retain(|file| scope.reach.names(&file.id));
            all
        }
        Reach::Live(kernel) => live_transcripts(projects, root, kernel, scope, harvest),
    }
}

/// Selects transcripts by the kernel's view: registered processes that are alive, ids in argv, and the
/// folders of processes whose session is not named anywhere.
fn live_transcripts(
    projects: &Path,
    root: &Root,
    kernel: &KernelView,
    scope: &Scope<'_>,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    let mut sessions: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut registered = BTreeSet::new();
    for note in &harvest.registrations {
        // A spare counts as registered below, so that no transcript is searched for it.
        let is_spare = note.found.as_ref().is_some_and(registry::is_spare);
        let OwnerIdentity::Process { pid, start, .. } = note.holder else { continue };
        let holder = kernel.processes.iter().find(|process| {
            process.noted_pid() == pid && process.head.process.start == start && kernel.is_ours(process)
        });
        if let Some(holder) = holder {
            registered.insert(holder.pid());
        }
        if holder.is_some() && !is_spare {
            let cwd = note.found.as_ref().and_then(|found| found.facts.cwd.clone());
            let known = sessions.entry(note.id.clone()).or_default();
            *known = known.take().or(cwd);
        }
    }
    let mut nameless = Vec::new();
    for process in &kernel.processes {
        let registered = registered.contains(&process.pid());
        if registered || processes::is_helper(&process.head) || !ClaudeCode.is_ours(root, kernel, process) {
            continue;
        }
        match processes::id_in_argv(&process.head) {
            Some(id) => {
                let cwd = || process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned());
                let known = sessions.entry(id).or_default();
                *known = known.take().or_else(cwd);
            }
            None => nameless.push(process),
        }
    }
    storage::live(projects, &sessions, &nameless, scope.subagents, harvest)
}
