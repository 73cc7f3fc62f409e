//! Determines which worktree a directory belongs to, from git's own files, so that a list or a lock needs no
//! subprocess.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use agentctl_files::{Question, within};

use crate::worktree::head::{LARGEST, worktree_folder};

pub(crate) static TOP: Question =
    Question { name: "top", answer: |path| top_of(&resolved(path)).map(bytes_of) };

pub(crate) static HELD: Question = Question {
    name: "held",
    answer: |path| {
        let real = resolved(path);
        Some(bytes_of(top_of(&real).unwrap_or(real)))
    },
};

pub(crate) static RESOLVED: Question =
    Question { name: "resolved", answer: |path| Some(bytes_of(resolved(path))) };

pub(crate) static REPOSITORY: Question =
    Question { name: "repository", answer: |path| repository_of(&resolved(path)).map(bytes_of) };

fn bytes_of(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Returns the top directory of the worktree around `path`: a repository's main worktree, a linked worktree or a
/// submodule. `None` outside of git.
pub fn worktree_root(path: &Path) -> Option<PathBuf> {
    within(path, &TOP).ok().flatten().map(path_of)
}

/// Returns what a session in this directory holds: the worktree around it; outside of git, or if its file system does
/// not answer, the directory alone.
pub fn held_place(path: &Path) -> PathBuf {
    within(path, &HELD).ok().flatten().map_or_else(|| path.to_owned(), path_of)
}

/// Returns the path without links, as far as it exists and can be resolved. The part that was deleted meanwhile keeps
/// its name.
pub fn real_path(path: &Path) -> PathBuf {
    within(path, &RESOLVED).ok().flatten().map_or_else(|| path.to_owned(), path_of)
}

/// Returns the top directory of the repository around `path`. A linked worktree belongs to the repository that it is a
/// worktree of. `None` outside of git.
pub fn repository_root(path: &Path) -> Option<PathBuf> {
    within(path, &REPOSITORY).ok().flatten().map(path_of)
}

fn repository_of(real: &Path) -> Option<PathBuf> {
    let top = top_of(real)?;
    let git = top.join(".git");
    if git.is_dir() {
        return Some(top);
    }
    // <repository>/.git/worktrees/<name>; a submodule has its folder in `modules` and is a repository of its own.
    let folder = worktree_folder(&git).map(|folder| resolved(&folder));
    let owner = folder.as_deref().and_then(|folder| {
        let worktrees = folder.parent().filter(|parent| parent.ends_with("worktrees"))?;
        let git = worktrees.parent()?;
        // A bare repository is its own folder.
        Some(if git.ends_with(".git") { git.parent()?.to_owned() } else { git.to_owned() })
    });
    Some(owner.unwrap_or(top))
}

fn resolved(path: &Path) -> PathBuf {
    let mut missing: Vec<OsString> = Vec::new();
    for ancestor in path.ancestors() {
        if let Ok(real) = agentctl_files::real_path(ancestor) {
            return missing.iter().rev().fold(real, |path, name| path.join(name));
        }
        missing.extend(ancestor.file_name().map(ToOwned::to_owned));
    }
    path.to_owned()
}

fn top_of(real: &Path) -> Option<PathBuf> {
    real.ancestors().find(|folder| is_top(&folder.join(".git"))).map(Path::to_owned)
}

/// Git also ignores a directory named `.git` without a HEAD and continues above.
fn is_top(git: &Path) -> bool {
    match fs::metadata(git) {
        Ok(found) if found.is_dir() => git.join("HEAD").exists(),
        Ok(found) if found.is_file() => {
            agentctl_files::read_small(git, LARGEST).is_ok_and(|text| text.starts_with(b"gitdir:"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn trees_beside_and_inside_each_other_are_told_apart_and_links_are_not() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        let repo = top.join("repo");
        fs::create_dir_all(repo.join(".git/worktrees/w")).unwrap();
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::create_dir_all(repo.join("src/deep/.git")).unwrap();
        assert_eq!(worktree_root(&repo.join("src/deep")), Some(repo.clone()), "an empty .git is nothing");
        let linked = repo.join("trees/w");
        fs::create_dir_all(linked.join("src")).unwrap();
        fs::write(linked.join(".git"), "gitdir: ../../.git/worktrees/w\n").unwrap();
        assert_eq!(
            worktree_root(&linked.join("src")),
            Some(linked.clone()),
            "a worktree inside its repository"
        );
        symlink(repo.join("src"), top.join("short")).unwrap();
        assert_eq!(worktree_root(&top.join("short")), Some(repo.clone()));
        assert_eq!(worktree_root(&top.join("short/not/yet")), Some(repo.clone()));
        for folder in [&linked.join("src"), &repo.join("src/deep"), &repo] {
            assert_eq!(repository_root(folder), Some(repo.clone()), "{}", folder.display());
        }
        assert_eq!(worktree_root(&top), None);
        assert_eq!(repository_root(&top), None);
        assert_eq!(held_place(&top.join("none/x")), top.join("none/x"));
        symlink(&top, top.join("self")).unwrap();
        assert_eq!(held_place(&top.join("self/none/x")), top.join("none/x"));
    }
}
