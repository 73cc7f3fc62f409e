//! Where Copilot stores sessions: one folder each, with notes of the processes that own it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};

use super::processes::{COPILOT, id_in_argv, is_folder_name};
use crate::transcript::folder::list;

/// The folder of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionFolder {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

impl SessionFolder {
    pub(super) fn events(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    pub(super) fn workspace(&self) -> PathBuf {
        self.path.join("workspace.yaml")
    }
}

/// Lists every session's folder.
pub(super) fn all(state: &Path, harvest: &mut Harvest) -> Vec<SessionFolder> {
    list(state, harvest)
        .into_iter()
        .filter(|entry| is_folder_name(&entry.name) && entry.is_folder())
        .map(|entry| SessionFolder { id: entry.name, path: entry.path })
        .collect()
}

/// The sessions that live processes hold or name. Their number does not depend on how many are stored.
pub(super) fn live(
    state: &Path,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    harvest: &mut Harvest,
) -> Vec<SessionFolder> {
    let real = agentctl_files::real_path(state).unwrap_or_else(|_| state.to_owned());
    let mut ids = BTreeSet::new();
    let mut unseen = Vec::new();
    for process in kernel.processes.iter().filter(|process| COPILOT.is(&process.head)) {
        match process.open_files.seen() {
            Some(files) => ids.extend(files.iter().filter_map(|file| session_of(&file.path, &real))),
            None => unseen.push(process.pid()),
        }
        if ours(process) {
            ids.extend(id_in_argv(&process.head).map(str::to_owned));
        }
    }
    let mut folders: Vec<SessionFolder> = ids
        .into_iter()
        .map(|id| SessionFolder { path: state.join(&id), id })
        .filter(|folder| folder.path.is_dir())
        .collect();
    if !unseen.is_empty() {
        // The open files of these processes cannot be seen, so the notes of all sessions must be searched for
        // their pids.
        let noted = |folder: &SessionFolder| {
            unseen.iter().any(|pid| folder.path.join(format!("inuse.{pid}.lock")).exists())
        };
        let more: Vec<SessionFolder> = all(state, harvest).into_iter().filter(noted).collect();
        folders.extend(more.into_iter().filter(|folder| !folders.contains(folder)).collect::<Vec<_>>());
    }
    folders
}

/// The session whose folder contains this open file.
fn session_of(file: &Path, state: &Path) -> Option<String> {
    let mut inside = file.strip_prefix(state).ok()?.components();
    let id = inside.next()?.as_os_str().to_str()?;
    let file = inside.next()?.as_os_str().to_str()?;
    (note_pid(file, ".hold").is_some() && is_folder_name(id)).then(|| id.to_owned())
}

/// The pid in the name of a note, `inuse.<pid>.lock` or `inuse.<pid>.hold`.
pub(super) fn note_pid(name: &str, ending: &str) -> Option<u32> {
    name.strip_prefix("inuse.")?.strip_suffix(ending)?.parse().ok()
}
