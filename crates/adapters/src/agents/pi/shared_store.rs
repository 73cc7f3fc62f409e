//! The store that Pi and Pi Rust share, as seen by one of the two.

use std::fs;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Harvest, Joined, KernelView, Process};

use super::file::header::{Creator, id_begins};
use super::file::session;
use super::{SETTINGS, join, storage};
use crate::transcript::gather::gather;
use crate::{Adapter, Reach, Root, Scope, Stored, WatchTarget};

/// One root of one of the two agents.
pub(crate) struct Store<'r> {
    pub(crate) creator: Creator,
    pub(crate) adapter: &'r dyn Adapter,
    pub(crate) root: &'r Root,
    /// Returns a second location, if the settings in the agent's folder name one.
    pub(crate) moved_by_settings: fn(&Path) -> Option<PathBuf>,
}

impl Store<'_> {
    pub(crate) fn survey(&self, scope: &Scope<'_>) -> Harvest {
        let folders = self.folders();
        if let Some(absent) = self.absence(&folders) {
            return Harvest::nothing(absent);
        }
        let mut harvest = Harvest::complete(Vec::new());
        let files = match scope.reach {
            // No id is requested, so there is nothing to search for.
            Reach::Ids([]) => Vec::new(),
            Reach::Ids(_) | Reach::All { .. } => {
                storage::all(&folders, self.creator, scope.subagents, &mut harvest)
            }
            Reach::Live(kernel) => storage::live(
                &folders,
                self.creator,
                kernel,
                |process| kernel.is_ours(process) || self.is_ours(process),
                &mut harvest,
            ),
        };
        self.read(&files, scope, &mut harvest);
        harvest
    }

    /// Where its conversations lie.
    pub(crate) fn stored(&self) -> Stored {
        let folders = self.folders();
        if let Some(absent) = self.absence(&folders) {
            return Stored::nothing(absent);
        }
        let mut harvest = Harvest::complete(Vec::new());
        let mut files = storage::all(&folders, self.creator, true, &mut harvest);
        // What extensions write beside the sub-agents that they start need not be a conversation, and need not be whole.
        files.retain(|file| storage::started_by(file).is_none() || session::heading(file).is_some());
        let named = |path: PathBuf| (id_begins(session::name_of(&path)).to_owned(), path);
        Stored::of(files.into_iter().map(named).collect(), harvest)
    }

    /// The agent's folder, and where its sessions lie beside it. Settings on a file system that does not answer name nothing:
    /// who watches waits for nobody.
    pub(crate) fn watch(&self) -> Vec<WatchTarget> {
        let is_silent = agentctl_files::is_folder_within(&self.root.path.join(SETTINGS)).is_err();
        let folders = if is_silent { self.root.store.iter().cloned().collect() } else { self.folders() };
        let beside = folders.into_iter().filter(|folder| !folder.starts_with(&self.root.path));
        std::iter::once(self.root.path.clone()).chain(beside).map(|path| WatchTarget::new(path, 3)).collect()
    }

    pub(crate) fn join(&self, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(self.creator, harvest, kernel, |process| kernel.is_ours(process) || self.is_ours(process))
    }

    /// The folders that may contain its sessions.
    fn folders(&self) -> Vec<PathBuf> {
        let settled = settled(self.root);
        // An environment variable takes precedence over the settings.
        let moved = self.root.store.is_none().then(|| (self.moved_by_settings)(&self.root.path)).flatten();
        let moved = moved.filter(|moved| *moved != settled);
        std::iter::once(settled).chain(moved).collect()
    }

    /// Why there is nothing to read: the agent was never used here, or its folder cannot be seen.
    fn absence(&self, folders: &[PathBuf]) -> Option<Coverage> {
        let mut reason = None;
        for folder in std::iter::once(&self.root.path).chain(folders) {
            match fs::metadata(folder) {
                Ok(_) => return None,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    let error = format!("{}: {error}", folder.display());
                    reason.get_or_insert(Coverage::Failed { error });
                }
            }
        }
        reason.or(Some(Coverage::NotInstalled))
    }

    /// Whether the process's own environment resolves to the same store.
    fn is_ours(&self, process: &Process) -> bool {
        let own = process.environ.seen().and_then(|environ| self.adapter.root(environ));
        own.is_some_and(|own| settled(&own) == settled(self.root))
    }

    fn read(&self, files: &[PathBuf], scope: &Scope<'_>, harvest: &mut Harvest) {
        gather(files, scope, harvest, |path, since, scope| session::read(path, self.creator, since, scope));
    }
}

/// The store of a root: where an environment variable moved it, or else in the agent's folder.
pub(crate) fn settled(root: &Root) -> PathBuf {
    root.store.clone().unwrap_or_else(|| root.path.join("sessions"))
}
