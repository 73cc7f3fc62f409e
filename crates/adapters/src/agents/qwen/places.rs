//! Where Qwen Code keeps transcripts, and which of them a question needs.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};

use super::processes::{id_in_argv, is_id, is_qwen, may_carry};
use crate::transcript::folder::{list, written_since};

/// One transcript that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// The session whose sub-agent this is.
    pub(super) parent: Option<String>,
    pub(super) archived: bool,
}

/// Transcripts, and the agent's notes of its processes.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) transcripts: Vec<Place>,
    pub(super) notes: Vec<PathBuf>,
}

/// The folder name the agent makes of a directory.
fn slug(cwd: &str) -> String {
    cwd.encode_utf16()
        .map(|unit| char::from_u32(u32::from(unit)).filter(char::is_ascii_alphanumeric).unwrap_or('-'))
        .collect()
}

/// Everything below the root.
pub(super) fn all(store: &Path, subagents: bool, harvest: &mut Harvest) -> Places {
    let mut places = Places { notes: locks(store, harvest), ..Places::default() };
    for project in list(&store.join("projects"), harvest) {
        if project.is_folder() {
            chats(&project.path.join("chats"), false, harvest, &mut places);
            chats(&project.path.join("chats/archive"), true, harvest, &mut places);
            if subagents {
                subagents_in(&project.path, harvest, &mut places);
            }
        }
    }
    places
}

fn chats(folder: &Path, archived: bool, harvest: &mut Harvest, places: &mut Places) {
    for entry in list(folder, harvest) {
        if let Some(id) = entry.name.strip_suffix(".jsonl").filter(|id| is_id(id)) {
            places.transcripts.push(Place { id: id.to_owned(), path: entry.path, parent: None, archived });
        } else if !archived && entry.name.ends_with(".runtime.json") {
            places.notes.push(entry.path);
        }
    }
}

fn subagents_in(project: &Path, harvest: &mut Harvest, places: &mut Places) {
    for session in list(&project.join("subagents"), harvest) {
        if session.is_folder() {
            subagents_of(&session.name, &session.path, harvest, places);
        }
    }
}

fn subagents_of(parent: &str, folder: &Path, harvest: &mut Harvest, places: &mut Places) {
    for entry in list(folder, harvest) {
        if let Some(agent) = entry.name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl")) {
            let parent = Some(parent.to_owned());
            places.transcripts.push(Place {
                id: agent.to_owned(),
                path: entry.path.clone(),
                parent,
                archived: false,
            });
        }
    }
}

/// The locks of writers: there are as many as servers have sessions open.
fn locks(store: &Path, harvest: &mut Harvest) -> Vec<PathBuf> {
    let entries = list(&store.join("tmp/session-writer-locks"), harvest);
    entries
        .into_iter()
        .filter(|entry| entry.name.strip_suffix(".lock").is_some())
        .map(|entry| entry.path)
        .collect()
}

/// What live processes may be writing: the sessions that their argv or a note of theirs names, and for processes that
/// say nothing what was written in their directory since they started.
pub(super) fn live(
    store: &Path,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    subagents: bool,
    harvest: &mut Harvest,
) -> Places {
    let mut places = Places { notes: locks(store, harvest), ..Places::default() };
    let mut named = BTreeSet::new();
    let mut seen = HashSet::new();
    let projects = store.join("projects");
    for process in
        kernel.processes.iter().filter(|process| is_qwen(&process.head) && may_carry(&process.head))
    {
        if !ours(process) {
            continue;
        }
        named.extend(id_in_argv(&process.head).map(str::to_owned));
        let Some(cwd) = process.cwd.seen() else { continue };
        let folder = projects.join(slug(&cwd.to_string_lossy())).join("chats");
        if seen.insert(folder.clone()) {
            let mut here = Places::default();
            chats(&folder, false, harvest, &mut here);
            let start = process.head.started_at;
            here.transcripts.retain(|place| named.contains(&place.id) || written_since(&place.path, start));
            here.notes.retain(|note| written_since(note, start));
            places.transcripts.extend(here.transcripts);
            places.notes.extend(here.notes);
        }
    }
    // A note in another folder than the process's (it changed its directory), or an id that was resumed from elsewhere.
    let noted = places.notes.iter().filter_map(|note| note.file_name()?.to_str()?.split('.').next());
    named.extend(noted.filter(|id| is_id(id)).map(str::to_owned));
    named.retain(|id| !places.transcripts.iter().any(|place| place.id == *id));
    if !named.is_empty() {
        for project in list(&projects, harvest) {
            for id in &named {
                let path = project.path.join("chats").join(format!("{id}.jsonl"));
                if path.symlink_metadata().is_ok() {
                    places.transcripts.push(Place { id: id.clone(), path, parent: None, archived: false });
                }
            }
        }
    }
    if subagents {
        for place in places.transcripts.clone() {
            let project = place.path.parent().and_then(Path::parent);
            if let Some(project) = project {
                subagents_of(&place.id, &project.join("subagents").join(&place.id), harvest, &mut places);
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    #[test]
    fn folders_are_named_as_the_agent_names_them() {
        assert_eq!(super::slug("/home/dev/odd dir. ünï/Qw.x"), "-home-dev-odd-dir---n--Qw-x");
        assert_eq!(super::slug("/a😀b"), "-a--b");
    }
}
