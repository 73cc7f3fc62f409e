//! The branch of a directory, read from git's own files, so that a list needs no subprocess.
//!
//! The directory is where an agent works, so it may contain anything, and its file system may be gone.

use std::path::{Path, PathBuf};

use agentctl_files::Question;

/// `HEAD` and the `.git` file of a worktree are one line each.
pub(crate) const LARGEST: u64 = 64 << 10;

pub(crate) static BRANCH: Question =
    Question { name: "branch", answer: |cwd| branch_at(cwd).map(String::into_bytes) };

/// Returns the branch that is checked out in the repository or worktree around `cwd`; `None` if detached, outside of
/// git, or unreadable.
pub(crate) fn branch_of(cwd: &Path) -> Option<String> {
    let branch = agentctl_files::within(cwd, &BRANCH).ok().flatten()?;
    String::from_utf8(branch).ok()
}

fn branch_at(cwd: &Path) -> Option<String> {
    let git = cwd.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let folder = if git.is_dir() { git } else { worktree_folder(&git)? };
    let head = agentctl_files::read_text(&folder.join("HEAD"), LARGEST).ok()?;
    head.trim().strip_prefix("ref: refs/heads/").map(agentctl_model::text::clean)
}

/// The `.git` of a worktree is a file that names the real directory.
pub(super) fn worktree_folder(file: &Path) -> Option<PathBuf> {
    let text = agentctl_files::read_text(file, LARGEST).ok()?;
    let target = PathBuf::from(text.trim().strip_prefix("gitdir: ")?);
    Some(if target.is_absolute() { target } else { file.parent()?.join(target) })
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    #[test]
    fn what_is_no_small_file_names_no_branch() {
        let top = tempfile::tempdir().unwrap();
        let head = top.path().join(".git/HEAD");
        fs::create_dir(top.path().join(".git")).unwrap();
        for planted in ["/dev/zero", "/dev/null", "/", "HEAD"] {
            std::os::unix::fs::symlink(planted, &head).unwrap();
            assert_eq!(branch_of(top.path()), None, "{planted}");
            fs::remove_file(&head).unwrap();
        }
        fs::write(&head, format!("ref: refs/heads/{}", "x".repeat(1 << 20))).unwrap();
        assert_eq!(branch_of(top.path()), None);
    }
}
