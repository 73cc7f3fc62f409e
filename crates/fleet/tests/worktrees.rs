//! Worktrees with the real git: what is made is completely undone, except where there is work in it.
#![allow(clippy::disallowed_methods, reason = "tests run git")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_fleet::Store;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, Made, UndoResult, WorktreeError};

/// Makes a worktree of a repository whose programs nobody has agreed to.
fn create(repository: &Path, branch: &str, base: Option<&str>) -> Result<Made, WorktreeError> {
    worktree::create(repository, branch, base, &Marks::of(Store::at("/nowhere/agentctl")))
}

struct Repository {
    _top: tempfile::TempDir,
    path: PathBuf,
}

impl Repository {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&path).unwrap();
        let repository = Self { _top: top, path };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        for (key, value) in [("user.name", "T"), ("user.email", "t@example.invalid")] {
            repository.git(&["config", key, value]);
        }
        repository.commit(&repository.path, "README");
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.path, arguments)
    }

    #[expect(clippy::unused_self, reason = "reads as the repository's git")]
    fn git_in(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").current_dir(folder).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, folder: &Path, name: &str) {
        fs::write(folder.join(name), "text\n").unwrap();
        self.git_in(folder, &["add", name]);
        self.git_in(folder, &["commit", "--quiet", "--message", name]);
    }

    fn branches(&self) -> Vec<String> {
        self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn trees(&self) -> usize {
        worktree::list(&self.path).unwrap().len()
    }
}

#[test]
fn a_tree_is_made_beside_the_repository_and_undone_without_a_trace() {
    let repository = Repository::new();
    let made = create(&repository.path.join("."), "try/x", None).unwrap();
    assert_eq!(made.path, repository.path.with_file_name("repo-try-x"));
    assert!(made.created_branch && made.path.join("README").exists());
    assert_eq!(repository.git_in(&made.path, &["branch", "--show-current"]), "try/x");
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed);
    assert!(!made.path.exists());
    assert_eq!((repository.branches(), repository.trees()), (vec!["main".to_owned()], 1));
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed, "twice is no error");
}

#[test]
fn what_somebody_has_worked_on_is_kept() {
    let repository = Repository::new();
    let kept = |made: &worktree::Made| {
        assert!(matches!(worktree::remove_if_clean(made).unwrap(), UndoResult::Kept(_)));
        assert!(made.path.exists() && repository.branches().contains(&made.branch));
    };
    let made = create(&repository.path, "a", None).unwrap();
    fs::write(made.path.join("new"), "").unwrap();
    kept(&made);
    let made = create(&repository.path, "b", None).unwrap();
    fs::write(made.path.join("README"), "changed").unwrap();
    kept(&made);
    let made = create(&repository.path, "c", None).unwrap();
    repository.commit(&made.path, "own");
    kept(&made);
    // The worktree is gone, but the branch has moved on.
    let made = create(&repository.path, "d", None).unwrap();
    repository.commit(&made.path, "own-d");
    repository.git(&["worktree", "remove", made.path.to_str().unwrap()]);
    assert!(matches!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Kept(_)));
    assert!(repository.branches().contains(&"d".to_owned()));
}

#[test]
fn a_branch_that_was_there_is_used_and_stays() {
    let repository = Repository::new();
    repository.git(&["branch", "old"]);
    let made = create(&repository.path, "old", None).unwrap();
    assert!(!made.created_branch);
    assert!(matches!(create(&repository.path, "old", None), Err(WorktreeError::BranchInUse { .. })));
    assert!(matches!(create(&repository.path, "main", None), Err(WorktreeError::BranchInUse { .. })));
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed);
    assert_eq!(repository.branches(), ["main", "old"]);
    assert!(matches!(create(&repository.path, "old", Some("main")), Err(WorktreeError::BranchExists(_))));
}

#[test]
fn a_base_is_where_the_branch_begins_and_a_remote_branch_is_followed() {
    let repository = Repository::new();
    let first = repository.git(&["rev-parse", "HEAD"]);
    repository.git(&["branch", "base"]);
    repository.commit(&repository.path, "second");
    let made = create(&repository.path, "x", Some("base")).unwrap();
    assert_eq!(made.commit, first);
    repository.git(&["update-ref", "refs/remotes/origin/theirs", &first]);
    repository.git(&["config", "remote.origin.url", "/nowhere"]);
    repository.git(&["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    let made = create(&repository.path, "theirs", None).unwrap();
    assert_eq!(made.commit, first);
    assert_eq!(repository.git(&["config", "branch.theirs.remote"]), "origin");
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed);
    assert!(!fs::read_to_string(repository.path.join(".git/config")).unwrap().contains("branch \"theirs\""));
}

#[test]
fn a_taken_path_gets_a_number_and_nothing_there_is_touched() {
    let repository = Repository::new();
    let taken = repository.path.with_file_name("repo-a-b");
    fs::write(&taken, "mine").unwrap();
    let made = create(&repository.path, "a/b", None).unwrap();
    assert_eq!(made.path, repository.path.with_file_name("repo-a-b-2"));
    assert_eq!(create(&made.path, "a-b", None).unwrap().path, repository.path.with_file_name("repo-a-b-3"));
    assert_eq!(fs::read_to_string(&taken).unwrap(), "mine");
}

#[test]
fn wrong_names_are_refused_before_anything_is_made() {
    let repository = Repository::new();
    for name in ["", "-f", "--force", "a..b", "a b", "@{-1}", "x.lock", "/x", "a\0b"] {
        let error = create(&repository.path, name, None).unwrap_err();
        assert!(matches!(error, WorktreeError::BadBranch(_)), "{name:?}: {error}");
    }
    for base in ["nowhere", "--help", "-f", ""] {
        let error = create(&repository.path, "x", Some(base)).unwrap_err();
        assert!(matches!(error, WorktreeError::BadBase(_)), "{base:?}: {error}");
    }
    let outside = repository.path.parent().unwrap();
    for folder in [outside.to_owned(), outside.join("none"), repository.path.join("README")] {
        assert!(matches!(create(&folder, "x", None), Err(WorktreeError::NotARepository(_))));
    }
    assert_eq!((repository.branches(), repository.trees()), (vec!["main".to_owned()], 1));
}

/// Its creator was killed between the two steps of a creation.
#[test]
fn a_tree_that_was_never_filled_is_undone() {
    let repository = Repository::new();
    let made = create(&repository.path, "x", None).unwrap();
    repository.git(&["worktree", "remove", made.path.to_str().unwrap()]);
    repository.git(&["worktree", "add", "--no-checkout", made.path.to_str().unwrap(), "x"]);
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed);
    assert_eq!((repository.branches(), repository.trees()), (vec!["main".to_owned()], 1));
    // Another worktree now lies there.
    repository.git(&["worktree", "add", "-b", "other", made.path.to_str().unwrap()]);
    assert!(matches!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Kept(_)));
    assert!(made.path.join("README").exists());
}

#[test]
fn a_sparse_repository_has_sparse_trees() {
    let repository = Repository::new();
    fs::create_dir_all(repository.path.join("out")).unwrap();
    repository.commit(&repository.path, "out/file");
    repository.git(&["sparse-checkout", "set", "--no-cone", "/README"]);
    let made = create(&repository.path, "x", None).unwrap();
    assert!(made.path.join("README").exists() && !made.path.join("out").exists());
    assert_eq!(worktree::remove_if_clean(&made).unwrap(), UndoResult::Removed);
}

#[cfg(unix)]
#[test]
fn a_creation_that_fails_half_way_leaves_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let repository = Repository::new();
    let hook = repository.path.join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho 'error: not today' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    // The path of the hook is resolved from the linked worktree.
    repository.git(&["config", "core.hooksPath", hook.parent().unwrap().to_str().unwrap()]);
    let home = tempfile::tempdir().unwrap();
    let marks = Marks::of(Store::at(home.path().join("agentctl")));
    let tree = (repository.path.as_path(), "x", None);
    worktree::consent(&marks, tree, jiff::Timestamp::UNIX_EPOCH, |_| true).unwrap();
    let error = worktree::create(&repository.path, "x", None, &marks).unwrap_err();
    assert!(error.to_string().contains("not today"), "{error}");
    assert!(!repository.path.with_file_name("repo-x").exists());
    assert_eq!((repository.branches(), repository.trees()), (vec!["main".to_owned()], 1));
}
