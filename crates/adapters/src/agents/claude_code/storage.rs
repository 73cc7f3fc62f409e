//! Where Claude Code stores transcripts, and which of them a request needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, Process};

use super::processes::is_uuid;
use crate::transcript::folder::{Listed, list, written_since};
use crate::transcript::parallel;

/// A transcript that may have to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    pub(super) id: String,
    pub(super) path: PathBuf,
    /// The parent session of a sub-agent; an empty string when only the records name the parent.
    pub(super) parent: Option<String>,
}

/// The folder name that the agent derives from a directory. The agent shortens long names and appends a hash
/// that cannot be computed here.
fn slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Lists every transcript below `projects/`, with the folders read on all cores. A folder that cannot be
/// listed is left out with a warning.
pub(super) fn all(projects: &Path, subagents: bool, harvest: &mut Harvest) -> Vec<TranscriptFile> {
    let folders: Vec<Listed> = list(projects, harvest).into_iter().filter(Listed::is_folder).collect();
    let inside = parallel::map(&folders, |folder, (): &mut ()| {
        let (mut found, mut files) = (Harvest::complete(Vec::new()), Vec::new());
        in_folder(&folder.path, subagents, &mut found, &mut files);
        (files, found.warnings)
    });
    let mut files = Vec::new();
    for (mut more, warnings) in inside {
        files.append(&mut more);
        for warning in warnings {
            harvest.left_out(warning);
        }
    }
    files
}

/// Lists every transcript of one project folder.
pub(super) fn in_folder(
    folder: &Path,
    subagents: bool,
    harvest: &mut Harvest,
    files: &mut Vec<TranscriptFile>,
) {
    for entry in list(folder, harvest) {
        let Some(stem) = entry.name.strip_suffix(".jsonl") else {
            if subagents && is_uuid(&entry.name) && entry.is_folder() {
                subagents_of(&entry.name, &entry.path, harvest, files);
            }
            continue;
        };
        if is_uuid(stem) {
            files.push(TranscriptFile { id: stem.to_owned(), path: entry.path, parent: None });
        } else if let (true, Some(agent)) = (subagents, stem.strip_prefix("agent-")) {
            // Older versions store sub-agents beside their parents; only the records name the parent.
            files.push(TranscriptFile {
                id: agent.to_owned(),
                path: entry.path,
                parent: Some(String::new()),
            });
        }
    }
}

fn subagents_of(parent: &str, folder: &Path, harvest: &mut Harvest, files: &mut Vec<TranscriptFile>) {
    let inside = folder.join("subagents");
    if !inside.is_dir() {
        return;
    }
    for entry in list(&inside, harvest) {
        if let Some(agent) = entry.name.strip_prefix("agent-").and_then(|rest| rest.strip_suffix(".jsonl")) {
            files.push(TranscriptFile {
                id: agent.to_owned(),
                path: entry.path.clone(),
                parent: Some(parent.to_owned()),
            });
        }
    }
}

/// Finds the transcripts that these sessions, and processes without a known session, may be writing.
pub(super) fn named(projects: &Path, ids: &[String], harvest: &mut Harvest) -> Vec<TranscriptFile> {
    let folders = list(projects, harvest).into_iter().filter(Listed::is_folder);
    let mut files = Vec::new();
    for folder in folders {
        for id in ids {
            let path = folder.path.join(format!("{id}.jsonl"));
            match path.symlink_metadata() {
                Ok(_) => files.push(TranscriptFile { id: id.clone(), path, parent: None }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => harvest.left_out(format!("{}: {error}", path.display())),
            }
        }
    }
    files
}

/// The transcripts that these sessions, and processes without a known session, may be writing. A transcript most often lies in
/// the folder of the directory in which its process is said to be, so that each is looked for there first.
pub(super) fn live(
    projects: &Path,
    sessions: &BTreeMap<String, Option<String>>,
    nameless: &[&Process],
    subagents: bool,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    let mut files: Vec<TranscriptFile> = Vec::new();
    let mut missing = BTreeSet::new();
    for (id, cwd) in sessions {
        let path = cwd.as_ref().map(|cwd| projects.join(slug(cwd)).join(format!("{id}.jsonl")));
        match path.filter(|path| path.symlink_metadata().is_ok()) {
            Some(path) => files.push(TranscriptFile { id: id.clone(), path, parent: None }),
            None => drop(missing.insert(id.as_str())),
        }
    }
    if !missing.is_empty() {
        for folder in list(projects, harvest).into_iter().filter(Listed::is_folder) {
            missing.retain(|id| {
                let path = folder.path.join(format!("{id}.jsonl"));
                let is_there = path.symlink_metadata().is_ok();
                if is_there {
                    files.push(TranscriptFile { id: (*id).to_owned(), path, parent: None });
                }
                !is_there
            });
            if missing.is_empty() {
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
            here.retain(|file| written_since(&file.path, process.head.started_at));
            files.extend(here);
        }
    }
    if subagents {
        for file in files.clone() {
            subagents_of(&file.id, &file.path.with_extension(""), harvest, &mut files);
        }
    }
    files
}
