//! Where Claude Code keeps transcripts, and which of them a question needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, Process};
use jiff::Timestamp;

use super::processes::is_uuid;

/// One transcript that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// The session whose sub-agent this is; empty when only its records say so.
    pub(super) parent: Option<String>,
}

/// The folder name the agent makes of a directory. Long ones are cut and get a hash we cannot know.
fn slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Every transcript below `projects/`. What cannot be listed is left out with a warning.
pub(super) fn all(projects: &Path, subagents: bool, harvest: &mut Harvest) -> Vec<Place> {
    let mut places = Vec::new();
    for folder in list(projects, harvest) {
        if folder.is_folder() {
            in_folder(&folder.path, subagents, harvest, &mut places);
        }
    }
    places
}

/// Every transcript of one project folder.
pub(super) fn in_folder(folder: &Path, subagents: bool, harvest: &mut Harvest, places: &mut Vec<Place>) {
    for entry in list(folder, harvest) {
        let Some(stem) = entry.name.strip_suffix(".jsonl") else {
            if subagents && is_uuid(&entry.name) && entry.is_folder() {
                subagents_of(&entry.name, &entry.path, harvest, places);
            }
            continue;
        };
        if is_uuid(stem) {
            places.push(Place { id: stem.to_owned(), path: entry.path, parent: None });
        } else if let (true, Some(agent)) = (subagents, stem.strip_prefix("agent-")) {
            // Older versions put sub-agents beside their parents; the records name the parent.
            places.push(Place { id: agent.to_owned(), path: entry.path, parent: Some(String::new()) });
        }
    }
}

fn subagents_of(parent: &str, folder: &Path, harvest: &mut Harvest, places: &mut Vec<Place>) {
    let inside = folder.join("subagents");
    if !inside.is_dir() {
        return;
    }
    for entry in list(&inside, harvest) {
        if let Some(agent) = entry.name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl")) {
            places.push(Place {
                id: agent.to_owned(),
                path: entry.path.clone(),
                parent: Some(parent.to_owned()),
            });
        }
    }
}

/// The transcripts that these sessions, and processes without a known session, may be writing.
pub(super) fn live(
    projects: &Path,
    ids: &BTreeSet<String>,
    cwds: &[String],
    nameless: &[&Process],
    subagents: bool,
    harvest: &mut Harvest,
) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut missing = ids.clone();
    let mut look = |folder: &Path, places: &mut Vec<Place>| {
        missing.retain(|id| {
            let path = folder.join(format!("{id}.jsonl"));
            let there = path.symlink_metadata().is_ok();
            if there {
                places.push(Place { id: id.clone(), path, parent: None });
            }
            !there
        });
        missing.is_empty()
    };
    let near: BTreeSet<PathBuf> = cwds.iter().map(|cwd| projects.join(slug(cwd))).collect();
    let found = near.iter().any(|folder| look(folder, &mut places));
    if !found && !ids.is_empty() {
        for folder in list(projects, harvest).into_iter().filter(Listed::is_folder) {
            if look(&folder.path, &mut places) {
                break;
            }
        }
    }
    for process in nameless {
        let Some(cwd) = process.cwd.seen() else { continue };
        let folder = projects.join(slug(&cwd.to_string_lossy()));
        if folder.is_dir() {
            let mut here = Vec::new();
            in_folder(&folder, false, harvest, &mut here);
            here.retain(|place| written_since(&place.path, process.head.started_at));
            places.extend(here);
        }
    }
    if subagents {
        for place in places.clone() {
            subagents_of(&place.id, &place.path.with_extension(""), harvest, &mut places);
        }
    }
    places
}

/// Whether a file was written since then; unknown counts as yes.
pub(super) fn written_since(path: &Path, since: Option<Timestamp>) -> bool {
    let (Some(since), Ok(modified)) = (since, path.metadata().and_then(|metadata| metadata.modified()))
    else {
        return true;
    };
    Timestamp::try_from(modified).map_or(true, |modified| modified >= since)
}

struct Listed {
    name: String,
    path: PathBuf,
    kind: Option<fs::FileType>,
}

impl Listed {
    fn is_folder(&self) -> bool {
        self.kind.is_some_and(|kind| kind.is_dir() || (kind.is_symlink() && self.path.is_dir()))
    }
}

/// The entries of a folder, in a stable order. A missing folder is empty; an unreadable one is left out, with its name.
fn list(folder: &Path, harvest: &mut Harvest) -> Vec<Listed> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut listed = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => listed.push(Listed {
                // A name that is no UTF-8 is not one the agent gives.
                name: entry.file_name().to_string_lossy().into_owned(),
                path: entry.path(),
                kind: entry.file_type().ok(),
            }),
            Err(error) => harvest.left_out(format!("{}: {error}", folder.display())),
        }
    }
    listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listed
}
