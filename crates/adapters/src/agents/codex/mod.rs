//! Codex writes one rollout file per thread, and the owner of a thread holds a lock for as long as it owns
//! it.

mod control;
mod join;
mod processes;
mod rollout;
mod server;
mod storage;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Coverage, Entry, Harvest, Joined, KernelView, OwnerIdentity, ProcessHead};

use crate::transcript::gather::gather;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower, ReadOnce};
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::peek::{last_entries, read_last};
use crate::{
    Adapter, Card, Control, Conversation, Line, ListFiles, Looks, Progress, Reach, ReadError, Root, Scope,
    Stored, Trace, WatchTarget, ways,
};
pub(crate) use rollout::compressed::Unpacked;
use rollout::{compressed, entries, marks, session};
use server::{ask, feed};
use storage::{RolloutFile, locks, names};

pub struct Codex;

static CARD: Card = Card::new("codex", "Codex")
    .programs(&["codex"])
    .home("CODEX_HOME", ".codex")
    .opened_by(&["codex", "resume", "ID"])
    .id_marks(&["CODEX_THREAD_ID", "CODEX_SESSION_ID"])
    .marks(&[
        "CODEX_THREAD_ID",
        "CODEX_SESSION_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_VERSION",
        "CODEX_CI",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
        "CODEX_MANAGED_BY_NPM",
        "CODEX_MANAGED_PACKAGE_ROOT",
    ])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume, Capability::Fork])
    .ways(ways::CODEX)
    .known_good("0.104.0 – 0.166.0")
    .looks(Looks { locks: true, open_files: true, ..Looks::NONE })
    .trace(Trace::OpenFile)
    .can_be_asked();

impl Adapter for Codex {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        let home = match home_of(root) {
            Ok(home) => home,
            Err(absent) => return Harvest::nothing(absent),
        };
        let mut harvest = Harvest::complete(Vec::new());
        locks::read(&home, scope, &mut harvest);
        let wanted = match scope.reach {
            Reach::All { .. } => storage::all(&home, &mut harvest),
            Reach::Ids(ids) => storage::named(&home, ids, &mut harvest),
            Reach::Live(kernel) => live_rollouts(&home, kernel, &mut harvest),
        };
        gather(&wanted, scope, &mut harvest, session::read);
        names::add_names(&home, &mut harvest);
        harvest
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::is_codex(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(&root.path, harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn ask(&self, root: &Root, kernel: &KernelView, joined: &mut Joined) {
        ask::ask_servers(&root.path, kernel, joined, |process| self.is_ours(root, kernel, process));
    }

    fn lines(&self, root: &Root, kernel: &dyn Fn() -> KernelView) -> Vec<Line> {
        let view = kernel();
        let ours = view.processes.iter().filter(|process| self.is_ours(root, &view, process));
        let sockets: BTreeSet<PathBuf> =
            ours.filter_map(|process| server::socket_of(&root.path, process)).collect();
        sockets
            .into_iter()
            .map(|socket| Line::new(socket.display().to_string(), feed::ServerFeed::new(socket)))
            .collect()
    }

    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        // Rollouts are in folders of year, month and day; the locks show who owns a thread before it has a
        // rollout.
        let (rollouts, locks) = (root.path.join("sessions"), root.path.join("thread-writer-locks"));
        vec![WatchTarget::new(rollouts, 3), WatchTarget::new(locks, 0)]
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        if locks::thread_of(place).is_some() {
            // A thread before its first turn has only its lock and no messages yet.
            Ok(Vec::new())
        } else if is_compressed(place) {
            read_compressed(place, limit).map_err(|error| ReadError::new(place, error))
        } else {
            read_last(place, entries::entries, limit)
        }
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        if is_compressed(place) {
            // The agent compresses only rollouts that it has archived, so nothing will be appended.
            return Ok(Box::new(ReadOnce(self.read(place, id, backlog)?)));
        }
        Ok(Box::new(JsonlFollower::start(place, entries::entries, backlog)?))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        if locks::thread_of(place).is_some() {
            return Conversation::Nothing;
        }
        let (path, compressed) = (place.to_owned(), is_compressed(place));
        Conversation::Lines { path, parse: entries::entries, marks: marks::marks, compressed }
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            home_of(root).map_or_else(Stored::nothing, |home| {
                let mut harvest = Harvest::complete(Vec::new());
                let files = storage::all(&home, &mut harvest);
                Stored::of(files.into_iter().map(|file| (file.id, file.path)).collect(), harvest)
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Codex)
    }
}

/// The folder of the agent, or why there is nothing to read. The kernel names open files by their real paths, so it must be
/// a real path too.
fn home_of(root: &Root) -> Result<PathBuf, Coverage> {
    let failed = |error: std::io::Error| format!("{}: {error}", root.path.display());
    let home = agentctl_files::real_path(&root.path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Coverage::NotInstalled,
        _ => Coverage::Failed { error: failed(error) },
    })?;
    agentctl_files::entries(&home).map_err(|error| Coverage::Failed { error: failed(error) })?;
    Ok(home)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

fn read_compressed(path: &Path, limit: usize) -> std::io::Result<Vec<Entry>> {
    let opened = open_regular(path)?;
    let ends = compressed::decode(&opened.file, opened.size, &Progress::default())?;
    last_entries(ends.tail.as_slice(), ends.tail.len() as u64, entries::entries, limit)
}

/// Selects rollouts by the kernel's view: threads whose lock is held, and rollouts that a process keeps open.
fn live_rollouts(home: &Path, kernel: &KernelView, harvest: &mut Harvest) -> Vec<RolloutFile> {
    let files = || kernel.processes.iter().filter_map(|process| process.open_files.seen()).flatten();
    let mut rollouts: Vec<RolloutFile> = files()
        .filter(|file| file.writable && file.path.starts_with(home))
        .filter_map(|file| RolloutFile::at(file.path.clone()))
        .collect();
    rollouts.sort();
    rollouts.dedup();
    let held = |holder: &OwnerIdentity| match (holder, kernel.locks.seen()) {
        (OwnerIdentity::Lock { device, inode }, Some(locks)) => {
            locks.iter().any(|lock| lock.device == *device && lock.inode == *inode)
        }
        // Where locks cannot be seen, any of them may be held.
        _ => true,
    };
    let missing: BTreeSet<String> = harvest
        .registrations
        .iter()
        .filter(|note| held(&note.holder) && !rollouts.iter().any(|rollout| rollout.id == note.id))
        .map(|note| note.id.clone())
        .collect();
    if !missing.is_empty() {
        let ids: Vec<String> = missing.into_iter().collect();
        rollouts.extend(storage::named(home, &ids, harvest));
    }
    rollouts
}
