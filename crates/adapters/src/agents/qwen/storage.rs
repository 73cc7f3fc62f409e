//! Where Qwen Code stores transcripts, and which of them a request needs.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};

use super::processes::{QWEN, id_in_argv, is_id, may_own};
use crate::transcript::folder::{list, written_since};

/// A transcript that may have to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// The parent session of a sub-agent.
    pub(super) parent: Option<String>,
    pub(super) archived: bool,
}

/// Transcripts, and the agent's notes of its processes.
#[derive(Debug, Default)]
pub(super) struct StoredFiles {
    pub(super) transcripts: Vec<TranscriptFile>,
    pub(super) notes: Vec<PathBuf>,
}

/// The folder name that the agent derives from a directory.
fn slug(cwd: &str) -> String {
    cwd.encode_utf16()
        .map(|unit| char::from_u32(u32::from(unit)).filter(char::is_ascii_alphanumeric).unwrap_or('-'))
        .collect()
}

/// Lists all files below the root.
pub(super) fn all(store: &Path, subagents: bool, harvest: &mut Harvest) -> StoredFiles {
    let mut files = StoredFiles { notes: locks(store, harvest), ..StoredFiles::default() };
    for project in list(&store.join("projects"), harvest) {
        if project.is_folder() {
            chats(&project.path.join("chats"), false, harvest, &mut files);
            chats(&project.path.join("chats/archive"), true, harvest, &mut files);
            if subagents {
                subagents_in(&project.path, harvest, &mut files);
            }
        }
    }
    files
}

fn chats(folder: &Path, archived: bool, harvest: &mut Harvest, files: &mut StoredFiles) {
    for entry in list(folder, harvest) {
        if let Some(id) = entry.name.strip_suffix(".jsonl").filter(|id| is_id(id)) {
            files.transcripts.push(TranscriptFile {
                id: id.to_owned(),
                path: entry.path,
                parent: None,
                archived,
            });
        } else if !archived && entry.name.ends_with(".runtime.json") {
            files.notes.push(entry.path);
        }
    }
}

fn subagents_in(project: &Path, harvest: &mut Harvest, files: &mut StoredFiles) {
    for session in list(&project.join("subagents"), harvest) {
        if session.is_folder() {
            subagents_of(&session.name, &session.path, harvest, files);
        }
    }
}

fn subagents_of(parent: &str, folder: &Path, harvest: &mut Harvest, files: &mut StoredFiles) {
    for entry in list(folder, harvest) {
        if let Some(agent) = entry.name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl")) {
            let parent = Some(parent.to_owned());
            files.transcripts.push(TranscriptFile {
                id: agent.to_owned(),
                path: entry.path.clone(),
                parent,
                archived: false,
            });
        }
    }
}

/// Lists the writers' locks; there is one for each session that a server has open.
fn locks(store: &Path, harvest: &mut Harvest) -> Vec<PathBuf> {
    let entries = list(&store.join("tmp/session-writer-locks"), harvest);
    entries
        .into_iter()
        .filter(|entry| entry.name.strip_suffix(".lock").is_some())
        .map(|entry| entry.path)
        .collect()
}

/// The files that live processes may be writing: the sessions that their argv or their notes name, and, for
/// processes that name none, the files that were written in their directory since they started.
pub(super) fn live(
    store: &Path,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    subagents: bool,
    harvest: &mut Harvest,
) -> StoredFiles {
    let mut files = StoredFiles { notes: locks(store, harvest), ..StoredFiles::default() };
    let mut named = BTreeSet::new();
    let mut seen = HashSet::new();
    let projects = store.join("projects");
    for process in kernel.processes.iter().filter(|process| QWEN.is(&process.head) && may_own(&process.head))
    {
        if !ours(process) {
            continue;
        }
        named.extend(id_in_argv(&process.head).map(str::to_owned));
        let Some(cwd) = process.cwd.seen() else { continue };
        let folder = projects.join(slug(&cwd.to_string_lossy())).join("chats");
        if seen.insert(folder.clone()) {
            let mut here = StoredFiles::default();
            chats(&folder, false, harvest, &mut here);
            let start = process.head.started_at;
            here.transcripts.retain(|file| named.contains(&file.id) || written_since(&file.path, start));
            here.notes.retain(|note| written_since(note, start));
            files.transcripts.extend(here.transcripts);
            files.notes.extend(here.notes);
        }
    }
    // The note may be in another folder than the process's (which changed its directory), and an id may have
    // been resumed from another directory.
    let noted = files.notes.iter().filter_map(|note| note.file_name()?.to_str()?.split('.').next());
    named.extend(noted.filter(|id| is_id(id)).map(str::to_owned));
    named.retain(|id| !files.transcripts.iter().any(|file| file.id == *id));
    if !named.is_empty() {
        for project in list(&projects, harvest) {
            for id in &named {
                let path = project.path.join("chats").join(format!("{id}.jsonl"));
                if path.symlink_metadata().is_ok() {
                    files.transcripts.push(TranscriptFile {
                        id: id.clone(),
                        path,
                        parent: None,
                        archived: false,
                    });
                }
            }
        }
    }
    if subagents {
        for file in files.transcripts.clone() {
            let project = file.path.parent().and_then(Path::parent);
            if let Some(project) = project {
                subagents_of(&file.id, &project.join("subagents").join(&file.id), harvest, &mut files);
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    #[test]
    fn folders_are_named_as_the_agent_names_them() {
        assert_eq!(super::slug("/home/dev/odd dir. ünï/Qw.x"), "-home-dev-odd-dir---n--Qw-x");
        assert_eq!(super::slug("/a😀b"), "-a--b");
    }
}
