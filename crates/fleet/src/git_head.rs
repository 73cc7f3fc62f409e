//! The branch of a directory, read from git's own files: no subprocess for a list.

use std::fs;
use std::path::{Path, PathBuf};

/// The branch checked out in the repository or worktree around `cwd`; `None` when detached or outside.
pub(crate) fn branch_of(cwd: &Path) -> Option<String> {
    let git = cwd.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let folder = if git.is_dir() { git } else { worktree_folder(&git)? };
    let head = fs::read_to_string(folder.join("HEAD")).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(agentctl_model::text::clean)
}

/// A worktree's `.git` is a file that names the real folder.
fn worktree_folder(file: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(file).ok()?;
    let target = PathBuf::from(text.trim().strip_prefix("gitdir: ")?);
    Some(if target.is_absolute() { target } else { file.parent()?.join(target) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_worktrees_and_detached_heads() {
        let top = tempfile::tempdir().unwrap();
        let repo = top.path().join("repo");
        fs::create_dir_all(repo.join(".git/worktrees/w")).unwrap();
        fs::create_dir_all(repo.join("src/deep")).unwrap();
        fs::write(repo.join(".git/HEAD"), "ref: refs/heads/feat/x\n").unwrap();
        assert_eq!(branch_of(&repo.join("src/deep")).as_deref(), Some("feat/x"));
        let tree = top.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), "gitdir: ../repo/.git/worktrees/w\n").unwrap();
        fs::write(repo.join(".git/worktrees/w/HEAD"), "0123456789\n").unwrap();
        assert_eq!(branch_of(&tree), None, "detached");
        fs::write(repo.join(".git/worktrees/w/HEAD"), "ref: refs/heads/try\n").unwrap();
        assert_eq!(branch_of(&tree).as_deref(), Some("try"));
    }
}
