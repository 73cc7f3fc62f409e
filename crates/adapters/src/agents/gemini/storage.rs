//! Where Gemini CLI stores session files, and which of them a request needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};
use jiff::Timestamp;

use super::processes::{GEMINI, id_in_argv, may_own};
use super::projects::Projects;
use crate::Reach;
use crate::transcript::folder::{list, written_since};

/// A file that may have to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TranscriptFile {
    pub(super) path: PathBuf,
    /// The project folder that contains it.
    pub(super) project: PathBuf,
    /// The parent session of a sub-agent.
    pub(super) parent: Option<String>,
}

impl TranscriptFile {
    /// What the id of its session begins with.
    pub(super) fn id_begins(&self) -> String {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        short_id(name).or_else(|| name.strip_suffix(".jsonl")).unwrap_or_default().to_owned()
    }
}

/// The files of one project folder that may belong to one of these sessions.
fn chats(
    project: &Path,
    subagents: bool,
    wanted: impl Fn(&str) -> bool,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    let mut files = Vec::new();
    for entry in list(&project.join("chats"), harvest) {
        let transcript = |path: PathBuf, parent| TranscriptFile { path, project: project.to_owned(), parent };
        if let Some(short) = short_id(&entry.name) {
            if wanted(short) {
                files.push(transcript(entry.path, None));
            }
        } else if subagents && entry.is_folder() {
            for file in list(&entry.path, harvest) {
                if file.name.strip_suffix(".jsonl").is_some_and(&wanted) {
                    files.push(transcript(file.path, Some(entry.name.clone())));
                }
            }
        }
    }
    files
}

/// The length of the minute in a file name such as `session-2026-11-15T07-05-a20ed6f9.jsonl`.
const MINUTE: usize = "2026-11-15T07-05-".len();

/// The minute in the name of a file that may contain this session.
pub(super) fn minute(name: &str, id: &str) -> Option<Timestamp> {
    short_id(name).filter(|named| may_hold(named, id))?;
    let (day, time) = name.strip_prefix("session-")?.get(..MINUTE - 1)?.split_once('T')?;
    format!("{day}T{}:00Z", time.replace('-', ":")).parse().ok()
}

/// The id prefix in a file name.
fn short_id(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".jsonl").or_else(|| name.strip_suffix(".json"))?;
    stem.strip_prefix("session-")?.get(MINUTE..)
}

/// Whether a file with this id prefix in its name may contain the session.
fn may_hold(named: &str, id: &str) -> bool {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let mut both = named.chars().zip(id.chars().map(safe)).take(8);
    both.all(|(a, b)| a == b)
}

/// Lists all files, or those that may contain one of the requested sessions.
pub(super) fn stored(
    root: &Path,
    reach: &Reach<'_>,
    subagents: bool,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    let wanted = |named: &str| match reach {
        Reach::Ids(ids) => ids.iter().any(|id| may_hold(named, id)),
        Reach::Live(_) | Reach::All { .. } => true,
    };
    let mut files = Vec::new();
    for project in list(&root.join("tmp"), harvest) {
        if project.is_folder() {
            files.extend(chats(&project.path, subagents, wanted, harvest));
        }
    }
    files
}

/// The files that live processes may be writing: in the folder of their directory, the files of the ids in
/// their argv and all files written since they started.
pub(super) fn live(
    root: &Path,
    projects: &Projects,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    subagents: bool,
    harvest: &mut Harvest,
) -> Vec<TranscriptFile> {
    let mut by_cwd: BTreeMap<String, (Vec<String>, Vec<Option<Timestamp>>)> = BTreeMap::new();
    for process in
        kernel.processes.iter().filter(|process| GEMINI.is(&process.head) && may_own(&process.head))
    {
        let Some(cwd) = process.cwd.seen().filter(|_| ours(process)) else { continue };
        let (ids, starts) = by_cwd.entry(cwd.to_string_lossy().into_owned()).or_default();
        ids.extend(id_in_argv(&process.head).map(str::to_owned));
        starts.push(process.head.started_at);
    }
    let mut files = Vec::new();
    for (cwd, (ids, starts)) in by_cwd {
        // An unknown start counts as the earliest.
        let earliest = starts.into_iter().min().flatten();
        for folder in projects.folders(root, &cwd, harvest) {
            let mut here = chats(&folder, subagents, |_| true, harvest);
            here.retain(|file| {
                let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let named = short_id(name).is_some_and(|short| ids.iter().any(|id| may_hold(short, id)));
                named || written_since(&file.path, earliest)
            });
            files.extend(here);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_begin_the_id() {
        assert_eq!(short_id("session-2026-11-15T07-05-a20ed6f9.jsonl"), Some("a20ed6f9"));
        assert_eq!(short_id("session-2026-11-15T07-05-not-a-uu.json"), Some("not-a-uu"));
        let named = |id| minute("session-2026-11-15T07-05-a20ed6f9.jsonl", id);
        assert_eq!(named("a20ed6f9-0000"), "2026-11-15T07:05:00Z".parse().ok());
        assert_eq!(named("b20ed6f9-0000"), None);
        assert_eq!(short_id("logs.json"), None);
        assert!(may_hold("a20ed6f9", "a20ed6f9-b0f7-468b-857c-a322eb991234"));
        assert!(may_hold("a20ed6f9", "a20"), "a typed prefix");
        assert!(!may_hold("a20ed6f9", "b"));
        assert!(may_hold("a_b", "a/b"));
    }
}
