//! `worktree create`, `list` and `clean` with the real git: nothing is lost that was not named first.
#![allow(clippy::disallowed_methods, reason = "tests run processes")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

mod machine;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Output, TestHome};
use serde_json::Value;

struct Scene {
    home: TestHome,
    repo: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let repo = home.git_repo("repo").canonicalize().unwrap();
        Self { home, repo }
    }

    fn agentctl(&self, arguments: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(arguments);
        command.current_dir(&self.repo);
        self.home.run(command)
    }

    fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let mut command = self.home.command("git");
        command.args(arguments).current_dir(folder);
        self.home.run(command).ok().stdout.trim().to_owned()
    }

    fn create(&self, branch: &str) -> PathBuf {
        let made = self.agentctl(&["worktree", "create", ".", "--branch", branch, "--json"]).ok().json();
        assert_eq!((made["branch"].as_str(), made["createdBranch"].as_bool()), (Some(branch), Some(true)));
        made["path"].as_str().unwrap().into()
    }

    fn commit(&self, folder: &Path, name: &str) {
        fs::write(folder.join(name), "text\n").unwrap();
        self.git(folder, &["add", name]);
        self.git(folder, &["commit", "--quiet", "--message", name]);
    }

    fn branches(&self) -> Vec<String> {
        let names = self.git(&self.repo, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        names.lines().map(str::to_owned).collect()
    }

    fn clean(&self, tree: &Path, flags: &[&str]) -> (Option<i32>, Value) {
        let arguments = [&["worktree", "clean", tree.to_str().unwrap(), "--json"], flags].concat();
        let output = self.agentctl(&arguments);
        (output.code, output.json()["worktrees"][0].clone())
    }

    /// The kinds of reasons that keep a tree.
    fn kept_by(&self, tree: &Path) -> Vec<String> {
        let (code, cleaning) = self.clean(tree, &[]);
        assert_eq!((code, cleaning["removed"].as_bool()), (Some(7), Some(false)), "{cleaning:#}");
        assert!(tree.exists());
        let losses = cleaning["losses"].as_array().unwrap();
        losses.iter().map(|loss| loss["kind"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn eight_at_once_in_one_repository_are_eight_good_trees() {
    let scene = Scene::new();
    let start = |number: u32| {
        let branch = format!("try/{number}");
        let arguments = ["worktree", "create", ".", "--branch", &branch, "--json"];
        let mut command = scene.home.agentctl_command(&arguments);
        command.current_dir(&scene.repo);
        Background::spawn(&scene.home, command)
    };
    let mut running: Vec<Background> = (0..8).map(start).collect();
    let mut paths = Vec::new();
    for run in &mut running {
        let status = run.wait(Duration::from_mins(2));
        assert!(status.success(), "{}", run.stderr());
        let made: Value = serde_json::from_str(&run.stdout()).unwrap();
        paths.push(PathBuf::from(made["path"].as_str().unwrap()));
    }
    for (number, path) in paths.iter().enumerate() {
        assert_eq!(*path, scene.repo.with_file_name(format!("repo-try-{number}")));
        assert_eq!(scene.git(path, &["branch", "--show-current"]), format!("try/{number}"));
        assert_eq!(scene.git(path, &["status", "--porcelain"]), "");
        assert_eq!(scene.git(path, &["rev-parse", "HEAD"]), scene.git(&scene.repo, &["rev-parse", "HEAD"]));
    }
    let listed = scene.agentctl(&["worktree", "list", "--json"]).ok().json();
    assert_eq!(listed["worktrees"].as_array().unwrap().len(), 9);
    scene.git(&scene.repo, &["fsck", "--strict"]);
    let cleaned = scene.agentctl(&["worktree", "clean", "--all", "--delete-branch"]).ok();
    assert_eq!(cleaned.stdout.matches("removed ").count(), 8, "{cleaned:?}");
    assert_eq!(scene.branches(), ["main"]);
}

#[test]
fn a_clean_tree_goes_and_its_branch_only_when_asked() {
    let scene = Scene::new();
    let (first, second) = (scene.create("a"), scene.create("b"));
    let (code, dry) = scene.clean(&first, &["--dry-run", "--delete-branch"]);
    assert_eq!(
        (code, dry["removed"].as_bool(), dry["branchDeleted"].as_bool()),
        (Some(0), Some(true), Some(true))
    );
    assert!(first.exists() && scene.branches().contains(&"a".to_owned()), "a dry run does nothing");
    let (code, done) = scene.clean(&first, &[]);
    assert_eq!((code, done["branchDeleted"].as_bool()), (Some(0), Some(false)));
    assert!(!first.exists());
    assert_eq!(scene.clean(&second, &["--delete-branch"]).0, Some(0));
    assert_eq!(scene.branches(), ["a", "main"]);
}

#[test]
fn what_would_be_lost_keeps_a_tree_and_is_named() {
    let scene = Scene::new();
    let tree = scene.create("try/x");
    fs::write(tree.join("README"), "changed").unwrap();
    fs::write(tree.join("new"), "").unwrap();
    assert_eq!(scene.kept_by(&tree), ["changed", "untracked"]);
    scene.git(&tree, &["stash", "--include-untracked"]);
    scene.commit(&tree, "mine");
    assert_eq!(scene.kept_by(&tree), ["unpushed"]);
    let words = scene.agentctl(&["worktree", "clean", "../repo-try-x"]);
    assert!(words.stdout.contains("1 unpushed commit") && words.stdout.contains(" mine"), "{words:?}");
    assert!(words.stderr.contains("--force"), "{words:?}");
    scene.git(&scene.repo, &["worktree", "lock", tree.to_str().unwrap(), "--reason", "on a stick"]);
    assert_eq!(scene.kept_by(&tree), ["unpushed", "locked"]);
    let (code, forced) = scene.clean(&tree, &["--force", "--delete-branch"]);
    assert_eq!(
        (code, forced["removed"].as_bool(), forced["branchDeleted"].as_bool()),
        (Some(0), Some(true), Some(true))
    );
    assert_eq!(forced["losses"].as_array().unwrap().len(), 2, "what was lost is said: {forced:#}");
    assert!(!tree.exists() && scene.branches() == ["main"]);
}

#[test]
fn commits_that_a_remote_or_the_base_branch_has_are_not_lost() {
    let scene = Scene::new();
    let (merged, pushed) = (scene.create("merged"), scene.create("pushed"));
    scene.commit(&merged, "one");
    scene.commit(&pushed, "two");
    assert_eq!(
        (scene.kept_by(&merged), scene.kept_by(&pushed)),
        (vec!["unpushed".into()], vec!["unpushed".into()])
    );
    scene.git(&scene.repo, &["merge", "--quiet", "--ff-only", "merged"]);
    let hub = scene.home.work_dir("hub.git");
    scene.git(&hub, &["init", "--quiet", "--bare"]);
    scene.git(&scene.repo, &["remote", "add", "hub", hub.to_str().unwrap()]);
    scene.git(&scene.repo, &["push", "--quiet", "hub", "pushed"]);
    assert_eq!(scene.clean(&merged, &["--delete-branch"]).0, Some(0));
    assert_eq!(scene.clean(&pushed, &["--delete-branch"]).0, Some(0));
}

/// A tree whose folder was deleted still has a branch, which may have commits that exist nowhere else.
#[test]
fn a_tree_whose_folder_is_gone_is_listed_and_cleaned_without_losing_its_commits() {
    let scene = Scene::new();
    let (empty, full) = (scene.create("empty"), scene.create("full"));
    scene.commit(&full, "mine");
    fs::remove_dir_all(&empty).unwrap();
    fs::remove_dir_all(&full).unwrap();
    let table = scene.agentctl(&["worktree", "list"]).ok().stdout;
    assert_eq!(table.matches("missing").count(), 2, "{table}");
    let cleaned = scene.agentctl(&["worktree", "clean", "--all", "--delete-branch"]);
    assert_eq!(cleaned.code, Some(7), "{cleaned:?}");
    assert_eq!(scene.branches(), ["full", "main"]);
}

#[test]
fn a_base_branch_does_not_keep_itself() {
    let scene = Scene::new();
    scene.git(&scene.repo, &["switch", "--quiet", "--create", "feature"]);
    let tree = scene.agentctl(&["worktree", "create", ".", "--branch", "main", "--json"]).ok().json();
    let tree = PathBuf::from(tree["path"].as_str().unwrap());
    scene.commit(&tree, "mine");
    assert_eq!(scene.kept_by(&tree), ["unpushed"]);
}

#[test]
fn locked_by_hand_the_main_tree_and_wrong_places_are_refused() {
    let scene = Scene::new();
    let tree = scene.create("x");
    let _ = scene.agentctl(&["lock", tree.to_str().unwrap(), "--by", "ann"]).ok();
    assert_eq!(scene.kept_by(&tree), ["locked"]);
    let table = scene.agentctl(&["worktree", "list"]).ok().stdout;
    assert!(table.contains("locked by ann"), "{table}");
    let main = scene.agentctl(&["worktree", "clean", "."]);
    assert_eq!(main.code, Some(7), "{main:?}");
    assert!(main.stderr.contains("main working tree"), "{main:?}");
    for arguments in [
        &["worktree", "clean"][..],
        &["worktree", "clean", "/", "--force"],
        &["worktree", "clean", "..", "--force"],
        &["worktree", "clean", "../nowhere"],
        &["worktree", "create", "..", "--branch", "y"],
        &["worktree", "create", ".", "--branch=-f"],
        &["worktree", "create", ".", "--branch", "y", "--base-branch", "nowhere"],
        &["worktree", "list", "/"],
    ] {
        let output = scene.agentctl(arguments);
        assert_eq!(output.code, Some(2), "{arguments:?}: {output:?}");
    }
    assert_eq!(scene.agentctl(&["worktree", "create", ".", "--branch", "x"]).code, Some(7));
    assert_eq!(scene.branches(), ["main", "x"]);
}

/// agentctl may be called from a hook, where git's own variables point to another repository.
#[test]
fn a_surrounding_git_does_not_redirect_us() {
    let scene = Scene::new();
    let other = scene.home.git_repo("other").canonicalize().unwrap();
    let mut command = scene.home.agentctl_command(&["worktree", "create", ".", "--branch", "x"]);
    command
        .current_dir(&scene.repo)
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_INDEX_FILE", other.join(".git/index"));
    let _ = scene.home.run(command).ok();
    assert!(scene.repo.with_file_name("repo-x").join("README").exists());
    assert_eq!(scene.git(&other, &["worktree", "list"]).lines().count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_tree_with_a_live_session_is_kept_even_from_force_until_it_ends() {
    use machine::agent::Agent;
    use machine::{Machine, TOOLS};

    let scene = Scene::new();
    let tree = scene.create("x");
    let machine = Machine::furnished();
    let agent = Agent::start(&machine, TOOLS, &tree);
    let run = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.current_dir(&scene.repo).env("PATH", std::env::var_os("PATH").unwrap());
        scene.home.run(command)
    };
    for flags in [&[][..], &["--force"]] {
        let kept = run(&[&["worktree", "clean", "--all"], flags].concat());
        assert_eq!(kept.code, Some(7), "{kept:?}");
        assert!(kept.stdout.contains("in use") && kept.stdout.contains(TOOLS), "{kept:?}");
    }
    let listed = run(&["worktree", "list"]).ok().stdout;
    assert!(listed.lines().any(|line| line.contains("repo-x") && line.contains("● 22222222")), "{listed}");
    drop(agent);
    let _ = run(&["worktree", "clean", "--all"]).ok();
    assert!(!tree.exists());
}

#[test]
fn a_damaged_tree_is_told_and_the_others_are_listed_and_cleaned() {
    let scene = Scene::new();
    let trees: Vec<PathBuf> =
        ["file", "head", "common", "index", "whole"].map(|name| scene.create(name)).into();
    let of = |name: &str| scene.repo.join(".git/worktrees").join(format!("repo-{name}"));
    fs::write(trees[0].join(".git"), "nonsense").unwrap();
    fs::write(of("head").join("HEAD"), "nonsense").unwrap();
    fs::write(of("common").join("commondir"), "nonsense").unwrap();
    fs::write(of("index").join("index"), "nonsense").unwrap();
    let output = scene.agentctl(&["worktree", "list", "--json"]).ok();
    let listed = output.json()["worktrees"].clone();
    let states: Vec<&str> =
        listed.as_array().unwrap().iter().map(|tree| tree["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["clean", "unknown", "unknown", "unknown", "unknown", "clean"], "{listed:#}");
    assert!(listed[2]["error"].as_str().unwrap().contains("invalid gitfile format"), "{listed:#}");
    let shown = scene.agentctl(&["worktree", "list"]).ok();
    assert!(shown.stderr.contains("repo-index") && shown.stdout.contains("unknown"), "{shown:?}");
    let cleaned = scene.agentctl(&["worktree", "clean", "--all", "--json"]);
    assert_eq!(cleaned.code, Some(1), "{cleaned:?}");
    let exist: Vec<bool> = trees.iter().map(|tree| tree.exists()).collect();
    assert_eq!(exist, [true, true, true, true, false], "what cannot be looked at is not removed");
}

impl Scene {
    /// A program that leaves this name behind and passes its input on.
    fn program(&self, path: &Path, name: &str) -> PathBuf {
        let mark = self.home.path().join(name);
        fs::write(path, format!("#!/bin/sh\ntouch '{}'\nexec cat\n", mark.display())).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_owned()
    }

    /// A tree is created by a process that pauses between the check and the checkout, while `meanwhile`
    /// happens.
    fn create_while(&self, branch: &str, meanwhile: impl FnOnce()) {
        let fifo = self.home.path().join(format!("{branch}.fifo"));
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let mut command =
            self.home.agentctl_command(&["worktree", "create", ".", "--branch", branch, "--json"]);
        command.current_dir(&self.repo).env("AGENTCTL_FAULT", format!("worktree.looked@{}", fifo.display()));
        let mut making = Background::spawn(&self.home, command);
        assert_eq!(fs::read_to_string(&fifo).unwrap(), "here", "{}", making.stderr());
        meanwhile();
        fs::write(&fifo, "go on").unwrap();
        assert!(making.wait(Duration::from_mins(1)).success(), "{}", making.stderr());
    }

    fn ran(&self) -> Vec<String> {
        let names = fs::read_dir(self.home.path()).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        let mut ran: Vec<String> = names.filter(|name| name.starts_with("ran-")).collect();
        ran.sort_unstable();
        for name in &ran {
            fs::remove_file(self.home.path().join(name)).unwrap();
        }
        ran
    }

    /// Replaces a hook, the program of a filter, and adds a filter for every file.
    fn swap_everything(&self) {
        self.program(&self.repo.join(".git/hooks/post-checkout"), "ran-swapped-hook");
        self.program(&self.repo.join(".git/hooks/post-index-change"), "ran-new-hook");
        let evil = self.program(&self.home.path().join("evil"), "ran-evil");
        self.git(&self.repo, &["config", "filter.known.smudge", evil.to_str().unwrap()]);
        self.git(&self.repo, &["config", "filter.new.smudge", evil.to_str().unwrap()]);
        fs::create_dir_all(self.repo.join(".git/info")).unwrap();
        fs::write(self.repo.join(".git/info/attributes"), "new.txt filter=new\n").unwrap();
    }
}

#[test]
fn what_is_swapped_between_the_look_and_the_checkout_does_not_run() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let scene = Scene::new();
    fs::write(scene.repo.join(".gitattributes"), "known.txt filter=known\n").unwrap();
    for name in ["known.txt", "new.txt", ".gitattributes"] {
        let text = fs::read(scene.repo.join(name)).unwrap_or_else(|_| b"text\n".to_vec());
        fs::write(scene.repo.join(name), text).unwrap();
        scene.git(&scene.repo, &["add", name]);
    }
    scene.git(&scene.repo, &["commit", "--quiet", "--message", "files"]);
    // There was nothing to agree to, so what is added later does not run.
    scene.create_while("nothing", || scene.swap_everything());
    assert_eq!(scene.ran(), [""; 0]);

    fs::remove_file(scene.repo.join(".git/info/attributes")).unwrap();
    fs::remove_file(scene.repo.join(".git/hooks/post-index-change")).unwrap();
    scene.git(&scene.repo, &["config", "--remove-section", "filter.new"]);
    let good = scene.program(&scene.home.path().join("good"), "ran-agreed-filter");
    scene.git(&scene.repo, &["config", "filter.known.smudge", good.to_str().unwrap()]);
    let hook = scene.repo.join(".git/hooks/post-checkout");
    fs::write(scene.repo.join(".git/hooks/library"), "said() { touch \"$1\"; }\n").unwrap();
    let mark = scene.home.path().join("ran-agreed-hook");
    fs::write(&hook, format!("#!/bin/sh\n. \"$(dirname \"$0\")/library\"\nsaid '{}'\n", mark.display()))
        .unwrap();
    let asked = ["worktree", "create", ".", "--branch", "agreed", "--trust"];
    let _ = scene.agentctl(&asked).ok();
    assert_eq!(scene.ran(), ["ran-agreed-filter", "ran-agreed-hook"]);
    scene.create_while("swapped", || scene.swap_everything());
    assert_eq!(scene.ran(), ["ran-agreed-filter", "ran-agreed-hook"], "only what was agreed to");
    let copies = scene.home.agentctl_home().join("copies");
    assert_eq!(fs::read_dir(&copies).unwrap().count(), 0);
    assert!(!scene.agentctl(&["worktree", "create", ".", "--branch", "later"]).stderr.is_empty());
}

#[test]
fn what_a_killed_checkout_left_goes_with_the_next_start() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let scene = Scene::new();
    fs::create_dir(scene.home.agentctl_home()).unwrap();
    fs::set_permissions(scene.home.agentctl_home(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = scene.home.agentctl_command(&["worktree", "create", ".", "--branch", "killed"]);
    command.current_dir(&scene.repo).env("AGENTCTL_FAULT", "worktree.looked");
    assert_eq!(scene.home.run(command).code, None);
    let left = || fs::read_dir(scene.home.agentctl_home().join("copies")).unwrap().count();
    assert_eq!(left(), 1);
    let _ = scene.agentctl(&["adapters"]).ok();
    assert_eq!(left(), 0);
    assert!(scene.repo.join(".git/objects").is_dir() && scene.repo.join(".git/HEAD").is_file());
}

#[test]
fn where_a_repository_is_named_is_said() {
    let scene = Scene::new();
    let both = scene.agentctl(&["worktree", "clean", "--all", "lib"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    assert!(both.stderr.contains("`agentctl worktree clean --all --repo lib`"), "{both:?}");
    let none = scene.agentctl(&["worktree", "clean", "--all", "--repo", "/"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("clean --repo REPO"), "{none:?}");
}
