//! What was done in a worktree, reported by the real git: committed, changed and new files, also after a rebase or a
//! merge.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run git")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_fleet::Store;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, DiffStat, Form, Made, WorktreeError, diff, diffstat};
use tempfile::TempDir;

/// Makes a worktree of a repository whose programs nobody has agreed to.
fn create(repository: &Path, branch: &str, base: Option<&str>) -> Result<Made, WorktreeError> {
    worktree::create(repository, branch, base, &Marks::of(Store::at("/nowhere/agentctl")))
}

struct Repository {
    _folder: TempDir,
    path: PathBuf,
}

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&path).unwrap();
        let repository = Self { _folder: folder, path };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        commit(&repository.path, "README", "one\ntwo\n");
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.path, arguments)
    }
}

fn commit(tree: &Path, name: &str, text: &str) {
    fs::write(tree.join(name), text).unwrap();
    git(tree, &["add", "--", name]);
    git(tree, &["commit", "--quiet", "--message", name]);
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    for (name, value) in [("NAME", "Test"), ("EMAIL", "test@example.invalid")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn stat(files: u64, insertions: u64, deletions: u64) -> DiffStat {
    DiffStat { files, insertions, deletions }
}

fn patch(made: &Made) -> String {
    String::from_utf8(diff(made, None, Form::Patch).unwrap().unwrap()).unwrap()
}

#[test]
fn committed_changed_and_new_files_count_and_the_index_stays_as_it_was() {
    let repository = Repository::new();
    let made = create(&repository.path, "try/x", None).unwrap();
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(0, 0, 0)));
    assert_eq!(patch(&made), "");

    commit(&made.path, "committed", "1\n2\n3\n");
    fs::write(made.path.join("README"), "one\n").unwrap();
    fs::create_dir(made.path.join("sub")).unwrap();
    fs::write(made.path.join("sub/a *new* \"one\""), "x\ny\n").unwrap();
    fs::write(made.path.join("ignored"), "x\n").unwrap();
    fs::write(repository.path.join(".git/info/exclude"), "ignored\n").unwrap();
    let before = git(&made.path, &["status", "--porcelain"]);
    let objects = || git(&repository.path, &["count-objects"]);
    let stored = objects();
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(3, 5, 1)));
    let told = patch(&made);
    assert!(told.contains("+++ b/committed") && told.contains("-two") && told.contains("+x\n+y\n"), "{told}");
    assert!(!told.contains("ignored"), "{told}");
    let table = String::from_utf8(diff(&made, None, Form::Stat(60)).unwrap().unwrap()).unwrap();
    assert!(table.contains("3 files changed") && table.lines().all(|line| line.len() <= 60), "{table}");
    assert_eq!(git(&made.path, &["status", "--porcelain"]), before);
    assert_eq!(objects(), stored, "looking writes nothing into the repository");

    // The patch can be applied elsewhere.
    let file = repository.path.parent().unwrap().join("x.patch");
    fs::write(&file, &told).unwrap();
    repository.git(&["apply", "--check", file.to_str().unwrap()]);
}

#[test]
fn a_newer_base_is_not_the_agents_doing() {
    let repository = Repository::new();
    let made = create(&repository.path, "try/x", Some("main")).unwrap();
    commit(&made.path, "mine", "1\n");
    commit(&repository.path, "theirs", "1\n2\n");
    assert_eq!(diffstat(&made, Some("main")).unwrap(), Some(stat(1, 1, 0)));
    git(&made.path, &["rebase", "--quiet", "main"]);
    assert_eq!(diffstat(&made, Some("main")).unwrap(), Some(stat(1, 1, 0)));
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(1, 1, 0)), "the main tree is the base");
}

#[test]
fn what_was_merged_or_whose_tree_is_gone_can_still_be_told() {
    let repository = Repository::new();
    let made = create(&repository.path, "try/x", None).unwrap();
    commit(&made.path, "mine", "1\n");
    repository.git(&["merge", "--quiet", "try/x"]);
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(1, 1, 0)));
    repository.git(&["worktree", "remove", made.path.to_str().unwrap()]);
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(1, 1, 0)));
    repository.git(&["branch", "-D", "try/x"]);
    assert_eq!(diffstat(&made, None).unwrap(), None);
}

#[test]
fn on_a_branch_that_was_there_before_only_what_came_after_counts() {
    let repository = Repository::new();
    repository.git(&["branch", "theirs"]);
    let first = create(&repository.path, "theirs", None).unwrap();
    commit(&first.path, "earlier", "1\n");
    repository.git(&["worktree", "remove", first.path.to_str().unwrap()]);
    let made = create(&repository.path, "theirs", None).unwrap();
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(0, 0, 0)));
    fs::write(made.path.join("new"), "1\n").unwrap();
    assert_eq!(diffstat(&made, None).unwrap(), Some(stat(1, 1, 0)));
}
