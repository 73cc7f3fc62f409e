//! Where Kimi Code stores sessions: `sessions/<workspace>/<session>/`, with one folder of sessions per
//! working directory.
//!
//! `session_index.jsonl` names every session too, but it only ever grows, and its paths are those of the
//! machine where it was written. The folders themselves are authoritative, and reading only live sessions
//! from them is a bounded read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};
use jiff::Timestamp;
use serde::Deserialize;

use super::processes::possible_owners;
use crate::Reach;
use crate::transcript::folder::{Listed, list, written_since};
use crate::transcript::jsonl::open::read_small;

/// The limit for the list of working directories; thousands of them fit.
const WORKSPACES_LIMIT: u64 = 16 << 20;

/// The folder of one session, which is named after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionFolder {
    pub(super) id: String,
    pub(super) path: PathBuf,
}

impl SessionFolder {
    fn of(entry: Listed) -> Self {
        Self { id: entry.name, path: entry.path }
    }

    /// The records of the main agent; those of its sub-agents are stored beside them.
    pub(super) fn wire(&self) -> PathBuf {
        self.path.join("agents/main/wire.jsonl")
    }

    /// The sub-agents by name, each with its records.
    pub(super) fn subagents(&self) -> Vec<(String, PathBuf)> {
        let Ok(entries) = agentctl_files::entries(&self.path.join("agents")) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_id(name) && name != "main").collect();
        names.sort_unstable();
        let wire = |name: String| {
            let wire = self.path.join("agents").join(&name).join("wire.jsonl");
            (name, wire)
        };
        names.into_iter().map(wire).collect()
    }

    pub(super) fn state(&self) -> PathBuf {
        self.path.join("state.json")
    }
}

/// Whether this is an id, which is a plain folder name; no other id from a record is accepted.
pub(super) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() < 256 && text.bytes().all(plain) && !text.starts_with('-')
}

/// The folders of workspaces. Names that begin with a dot are the agent's own bookkeeping.
fn workspaces(root: &Path, harvest: &mut Harvest) -> Vec<Listed> {
    let mut folders = list(&root.join("sessions"), harvest);
    folders.retain(|entry| !entry.name.starts_with('.') && entry.is_folder());
    folders
}

fn sessions_in(workspace: &Path, harvest: &mut Harvest) -> Vec<SessionFolder> {
    let entries = list(workspace, harvest).into_iter();
    entries.filter(|entry| is_id(&entry.name) && entry.is_folder()).map(SessionFolder::of).collect()
}

/// Lists all sessions, or those that are requested by name.
pub(super) fn stored(root: &Path, reach: &Reach<'_>, harvest: &mut Harvest) -> Vec<SessionFolder> {
    let mut folders = Vec::new();
    for workspace in workspaces(root, harvest) {
        let sessions = sessions_in(&workspace.path, harvest);
        folders.extend(sessions.into_iter().filter(|folder| reach.names(&folder.id)));
    }
    folders
}

/// The sessions that live processes may own: those in their directories that were written since they started,
/// and those they were launched for.
pub(super) fn live(
    root: &Path,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    harvest: &mut Harvest,
) -> Vec<SessionFolder> {
    let mut earliest: BTreeMap<String, Option<Timestamp>> = BTreeMap::new();
    let mut launched: BTreeSet<&str> = BTreeSet::new();
    for process in possible_owners(kernel, ours) {
        launched.extend(kernel.launched_for(process));
        if let Some(cwd) = process.cwd.seen() {
            // An unknown start counts as the earliest, and `None` sorts first.
            let start = process.head.started_at;
            earliest
                .entry(cwd.to_string_lossy().into_owned())
                .and_modify(|known| *known = (*known).min(start))
                .or_insert(start);
        }
    }
    if earliest.is_empty() && launched.is_empty() {
        return Vec::new();
    }
    let directories = Directories::read(root);
    let mut folders = Vec::new();
    for workspace in workspaces(root, harvest) {
        let since = match directories.of(&workspace.name) {
            Some(directory) => earliest.get(directory).copied(),
            // The directory of this folder is unknown, so it may contain the sessions of any process.
            None => earliest.values().min().copied(),
        };
        if since.is_none() && launched.is_empty() {
            continue;
        }
        let may_be_carried = |folder: &SessionFolder| {
            launched.contains(folder.id.as_str())
                || since.is_some_and(|since| {
                    written_since(&folder.wire(), since) || written_since(&folder.state(), since)
                })
        };
        folders.extend(sessions_in(&workspace.path, harvest).into_iter().filter(may_be_carried));
    }
    folders
}

/// `workspaces.json`: which folder belongs to which directory.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Directories {
    workspaces: BTreeMap<String, Workspace>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Workspace {
    root: Option<String>,
}

impl Directories {
    /// An unreadable file names no directories, which costs time but changes no answer.
    fn read(root: &Path) -> Self {
        let bytes = read_small(&root.join("workspaces.json"), WORKSPACES_LIMIT).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn of(&self, folder: &str) -> Option<&str> {
        self.workspaces.get(folder)?.root.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_plain_name() {
        assert!(is_id("session_42c216d2-ca3c-444b-b81d-7a8b525ee45c"));
        for odd in ["", "..", "a/b", "-p", ".index-dirty", "a b", "a\u{1b}"] {
            assert!(!is_id(odd), "{odd:?}");
        }
    }
}
