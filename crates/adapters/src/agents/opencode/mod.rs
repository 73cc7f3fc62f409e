//! OpenCode: one SQLite database per user since 1.2, a tree of JSON files before.

mod control;
pub(crate) mod conversation;
pub(crate) mod join;
pub(crate) mod processes;
mod server;
pub(crate) mod storage;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, Process, ProcessHead, Stamp};

use crate::search::Records;
use crate::sqlite::excerpt::Tables;
use crate::{
    Adapter, Card, Control, Conversation, Follow, Line, Looks, MayFit, ReadError, Root, Scope, Trace,
    WatchTarget, ways,
};
use conversation::{follow, marks};
use processes::OPENCODE;
use server::http::Door;
use server::{ask, feed};
use storage::{database, survey};

pub(crate) use conversation::records::is_default_title;

pub struct OpenCode;

static CARD: Card = Card::new("opencode", "OpenCode")
    .programs(&["opencode"])
    .home_inside("XDG_DATA_HOME", ".local/share", "opencode")
    .opened_by(&["opencode", "--session", "ID"])
    .marks(&["OPENCODE", "OPENCODE_PID"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume, Capability::Fork])
    .ways(ways::OPENCODE)
    .known_good("1.1.65, 1.2.11, 1.18.33")
    .looks(Looks { open_files: true, listening: true, ..Looks::NONE })
    .trace(Trace::OpenFile)
    .can_be_asked();

impl Adapter for OpenCode {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        let data = CARD.home?.root(environ)?;
        match environ.path("OPENCODE_DB") {
            // Such a process stores its sessions only in its memory.
            Some(database) if database.as_os_str() == ":memory:" => None,
            database => Some(Root { store: database.map(|database| data.join(database)), ..Root::at(data) }),
        }
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        survey::survey(root, scope, |process| self.is_ours(process, root))
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        OPENCODE.is(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(&OPENCODE, harvest, kernel, |process| {
            kernel.is_ours(process) || self.is_ours(process, root)
        })
    }

    fn ask(&self, _root: &Root, kernel: &KernelView, joined: &mut Joined) {
        ask::ask(kernel, joined);
    }

    fn lines(&self, root: &Root, kernel: &dyn Fn() -> KernelView) -> Vec<Line> {
        let view = kernel();
        let ours =
            view.processes.iter().filter(|process| view.is_ours(process) || self.is_ours(process, root));
        let doors: BTreeSet<Door> = ours.flat_map(Door::all_of).collect();
        doors.into_iter().map(|door| Line::new(door.to_string(), feed::ServerFeed::new(door))).collect()
    }

    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        // The database and its log, and the old tree; not the snapshots of whole working directories beside them.
        let elsewhere =
            root.store.as_deref().and_then(Path::parent).map(|folder| WatchTarget::new(folder, 0));
        let tree =
            ["session", "message"].map(|part| WatchTarget::new(root.path.join("storage").join(part), 1));
        std::iter::once(WatchTarget::new(&root.path, 0)).chain(tree).chain(elsewhere).collect()
    }

    fn trace(&self, place: &Path) -> Trace {
        // The database is kept open; the files of the older tree are not.
        if database::is_tree_file(place) { Trace::Nothing } else { CARD.trace }
    }

    fn stamp(&self, place: &Path) -> Option<Stamp> {
        crate::sqlite::stamp(place)
    }

    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        follow::read_last(place, id, limit)
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Ok(Box::new(follow::Follower::start(place, id, backlog)))
    }

    fn conversation(&self, place: &Path, id: &str) -> Conversation<'_> {
        let (place, id) = (place.to_owned(), id.to_owned());
        let (again, same) = (place.clone(), id.clone());
        Conversation::Records {
            read: Box::new(move |may_fit| follow::read_all(&place, &id, may_fit).map(Records::from)),
            marks: Some(Box::new(move |since| marks::read_marks(&again, &same, since))),
        }
    }

    fn candidates(&self, place: &Path, may_fit: MayFit<'_>) -> Result<Option<HashSet<String>>, ReadError> {
        if database::is_tree_file(place) { Ok(None) } else { follow::candidates(place, may_fit).map(Some) }
    }

    fn tables(&self) -> Option<&'static Tables> {
        Some(&database::TABLES)
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&OpenCode)
    }
}

impl OpenCode {
    /// The process's own variables resolve to this root, or it has the root's database open.
    fn is_ours(&self, process: &Process, root: &Root) -> bool {
        if let Some(environ) = process.environ.seen() {
            return self.root(environ).as_ref() == Some(root);
        }
        let holds = |path: &PathBuf| match &root.store {
            Some(store) => path == store,
            None => path.parent() == Some(&root.path) && is_database(path),
        };
        process.open_files.seen().is_some_and(|files| files.iter().any(|file| holds(&file.path)))
    }
}

/// `opencode.db`, or that of a channel: `opencode-dev.db`.
fn is_database(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_suffix(".db").is_some_and(|stem| stem == "opencode" || stem.starts_with("opencode-"))
}
