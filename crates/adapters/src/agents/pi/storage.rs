//! Where session files are stored, and which of them a request needs.
//!
//! A store contains folders named after working directories; a store that the user moved contains the files
//! directly. The folder names are lossy and never decoded: the header names the directory.
//!
//! Pi keeps no sub-agents itself. Extensions start further Pis, and let them write into a folder that is named like the
//! file of the session that started them, without its ending: their files are sub-agents of that session. What else
//! extensions write there has no header and is no session.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use agentctl_model::{Harvest, KernelView, Process};
use jiff::Timestamp;

use super::file::header::{Creator, creator_by_name, id_in_name};
use super::processes::{Family, agents, marks};
use crate::transcript::folder::{Listed, list, written_since};

/// The folder name that Pi derives from a directory.
pub(super) fn slug(cwd: &str) -> String {
    let relative = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
    format!("--{}--", relative.replace(['/', '\\', ':'], "-"))
}

/// How many folders deep the files of sub-agents are searched: a run of a sub-agent's sub-agent is six below its session.
const DEEPEST: u8 = 6;

/// Lists every file in the stores that may be a session of this agent, and with `subagents` of what it started.
pub(super) fn all(
    stores: &[PathBuf],
    creator: Creator,
    subagents: bool,
    harvest: &mut Harvest,
) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for store in stores {
        for entry in list(store, harvest) {
            if entry.name.starts_with("--") && entry.name.ends_with("--") && entry.is_folder() {
                for inner in list(&entry.path, harvest) {
                    take(inner, creator, subagents, harvest, &mut files);
                }
            } else {
                take(entry, creator, subagents, harvest, &mut files);
            }
        }
    }
    if stores.len() > 1 {
        // One store may be inside the other.
        files.sort_unstable();
        files.dedup();
    }
    files
}

fn take(entry: Listed, creator: Creator, subagents: bool, harvest: &mut Harvest, files: &mut Vec<PathBuf>) {
    if may_be(&entry.name, creator) {
        files.push(entry.path);
    } else if subagents && creator == Creator::Node && is_of_session(&entry.name) && entry.is_folder() {
        below(&entry.path, DEEPEST, harvest, files);
    } else if creator == Creator::Rust
        && has_ending(&entry.name, "sqlite")
        && entry.name != "session-index.sqlite"
    {
        harvest.left_out(format!("{}: sessions kept in SQLite are not read", entry.path.display()));
    }
}

/// Whether a folder of this name belongs to the session in the file beside it.
fn is_of_session(folder: &str) -> bool {
    id_in_name(&format!("{folder}.jsonl")).is_some()
}

/// The session that started the one in this file, by the folder that the file is in. The innermost is its own.
pub(super) fn started_by(file: &Path) -> Option<String> {
    let folders = file.ancestors().skip(1).filter_map(Path::file_name).filter_map(|name| name.to_str());
    folders.map(|name| format!("{name}.jsonl")).find_map(|name| id_in_name(&name).map(str::to_owned))
}

fn below(folder: &Path, deep: u8, harvest: &mut Harvest, files: &mut Vec<PathBuf>) {
    for entry in list(folder, harvest) {
        if may_be(&entry.name, Creator::Node) {
            files.push(entry.path);
        } else if deep > 0 && entry.is_folder() {
            below(&entry.path, deep - 1, harvest, files);
        }
    }
}

fn has_ending(name: &str, ending: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == ending)
}

/// Whether a file of this name may belong to this agent: a name in the other agent's form belongs to the
/// other agent, and a name that a user chose may belong to either.
fn may_be(name: &str, creator: Creator) -> bool {
    has_ending(name, "jsonl") && creator_by_name(name).is_none_or(|by| by == creator)
}

/// The files that the processes of this root may be writing: those that their marks name, and those in the
/// folders of their directories that were written since they started. Only for a process with no such file
/// (it stores no session, or was given a file from elsewhere) is the whole store searched, by the times of
/// the files.
pub(super) fn live(
    stores: &[PathBuf],
    creator: Creator,
    kernel: &KernelView,
    ours: impl Fn(&Process) -> bool,
    harvest: &mut Harvest,
) -> Vec<PathBuf> {
    let (marks, family) = (marks(kernel), Family::of(kernel));
    let mut files = BTreeSet::new();
    let mut homeless: Vec<Option<Timestamp>> = Vec::new();
    // Many processes may share a folder, and all share the store.
    let mut listed: HashMap<PathBuf, Vec<Listed>> = HashMap::new();
    for (process, kind) in agents(kernel) {
        let mark = marks.get(&process.pid());
        let named = mark.and_then(|mark| mark.file.clone());
        files.extend(named.filter(|file| stores.iter().any(|store| file.starts_with(store))));
        if !ours(process) {
            continue;
        }
        let folders = process.cwd.seen().map(|cwd| slug(&cwd.to_string_lossy()));
        let folders = stores
            .iter()
            .flat_map(|store| [folders.as_ref().map(|slug| store.join(slug)), Some(store.clone())]);
        let before = files.len();
        // When a session is resumed, its last write may be older than this process.
        let marked = mark.and_then(|mark| mark.id.as_deref());
        let is_marked = |entry: &Listed| marked.is_some_and(|id| id_in_name(&entry.name) == Some(id));
        for folder in folders.flatten() {
            let entries = listed.entry(folder).or_insert_with_key(|folder| {
                list(folder, harvest).into_iter().filter(|entry| may_be(&entry.name, creator)).collect()
            });
            let wanted = entries
                .iter()
                .filter(|entry| is_marked(entry) || written_since(&entry.path, process.head.started_at));
            files.extend(wanted.map(|entry| entry.path.clone()));
        }
        let alone = mark.is_none() && kind == creator && family.agent_above(process).is_none();
        if alone && files.len() == before {
            homeless.push(process.head.started_at);
        }
    }
    // An unknown start counts as the earliest.
    if let Some(since) = homeless.into_iter().min() {
        let everywhere = all(stores, creator, false, &mut Harvest::complete(Vec::new()));
        files.extend(everywhere.into_iter().filter(|path| written_since(path, since)));
    }
    files.retain(|file| may_be(super::file::session::name_of(file), creator));
    files.into_iter().collect()
}

/// Expands a path as a user writes it, with `~` for the home that contains `agent_folder` (`~/.pi/agent`).
pub(super) fn expand(written: &str, agent_folder: &Path) -> Option<PathBuf> {
    let home = || agent_folder.ends_with(".pi/agent").then(|| agent_folder.ancestors().nth(2)).flatten();
    match written.strip_prefix('~') {
        Some("") => home().map(Path::to_owned),
        Some(rest) => home().map(|home| home.join(rest.trim_start_matches('/'))),
        None => Some(PathBuf::from(written)).filter(|path| path.is_absolute()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_become_folders_as_pi_names_them() {
        assert_eq!(slug("/home/dev/w/a-b/c"), "--home-dev-w-a-b-c--");
        assert_eq!(slug("/home/dev/w/my proj.v1 (x)"), "--home-dev-w-my proj.v1 (x)--");
        assert_eq!(slug("/"), "----");
        assert_eq!(slug("/a:b\\c"), "--a-b-c--");
    }

    #[test]
    fn a_file_in_the_folder_of_a_session_was_started_by_it() {
        let session = "/s/--w--/2026-11-15T06-53-06-724Z_aaaa";
        assert_eq!(started_by(Path::new(&format!("{session}.jsonl"))), None);
        assert_eq!(started_by(Path::new(&format!("{session}/r1/run-0/session.jsonl"))), Some("aaaa".into()));
        let inner = format!("{session}/forks/2026-11-15T07-00-00-000Z_bbbb/r2/run-0/session.jsonl");
        assert_eq!(started_by(Path::new(&inner)), Some("bbbb".into()), "the innermost");
    }

    #[test]
    fn a_tilde_is_the_home_of_the_agent_folder() {
        let agent = Path::new("/h/dev/.pi/agent");
        assert_eq!(expand("~/s", agent), Some("/h/dev/s".into()));
        assert_eq!(expand("/abs", agent), Some("/abs".into()));
        assert_eq!(expand("relative", agent), None, "it means another folder in every directory");
        assert_eq!(expand("~/s", Path::new("/elsewhere")), None);
    }
}
