//! What a repository can run in a checkout, a launch or a removal: only what a person has agreed to, by its
//! content.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::hostile_repository::{Scene, append};

#[test]
fn a_checkout_runs_them_once_a_person_has_agreed_to_this_content() {
    let scene = Scene::ordinary(None);
    scene.script(&scene.repo.join(".git/hooks/post-checkout"), "hook-post-checkout");
    let smudge = format!("[filter \"evil\"]\n\tsmudge = {}\n", scene.program("smudge").display());
    append(&scene.repo.join(".git/config"), &smudge);
    let create = |branch: &str, flags: &[&str]| {
        scene.agentctl(&[&["worktree", "create", ".", "--branch", branch], flags].concat())
    };
    let refused = create("one", &[]);
    assert_eq!((refused.code, scene.ran()), (Some(7), Vec::new()), "{refused:#?}");
    assert!(
        refused.stderr.contains("hook post-checkout = ") && refused.stderr.contains("--trust"),
        "{refused:#?}"
    );
    assert!(refused.stderr.contains("filter.evil.smudge"), "{refused:#?}");
    let _ = create("one", &["--trust"]).ok();
    assert!(scene.ran().contains(&"hook-post-checkout".to_owned()));
    let _ = create("two", &[]).ok();
    assert!(scene.ran().contains(&"hook-post-checkout".to_owned()), "it was agreed to");
    append(&scene.repo.join(".git/hooks/post-checkout"), "# another line\n");
    let refused = create("three", &[]);
    assert_eq!((refused.code, scene.ran()), (Some(7), Vec::new()), "other content: {refused:#?}");

    let _daemon = scene.house.daemon(&[]);
    let body = json!({"repository": scene.repo, "branch": "four"});
    let reply = scene.house.write("POST", "/v1/worktrees", &body.to_string());
    assert_eq!((reply.status, scene.ran()), (409, Vec::new()), "{reply:?}");
    assert!(reply.body.contains("trust"), "{reply:?}");
    let body = json!({
        "adapter": "claude-code", "prompt": "x", "cwd": scene.repo,
        "worktree": {"repository": scene.repo, "branch": "four"},
    });
    let reply = scene.house.write("POST", "/v1/sessions", &body.to_string());
    assert_eq!((reply.status, scene.ran()), (409, Vec::new()), "{reply:?}");
    let body = json!({"repository": scene.repo, "branch": "four", "trust": true});
    let reply = scene.house.write("POST", "/v1/worktrees", &body.to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(scene.ran().contains(&"hook-post-checkout".to_owned()));
}

/// Each runs in the tree that a checkout creates, and not in the existing one.
const HIDDEN: [&str; 7] = [
    "includeIf \"onbranch:b1\"",
    "includeIf \"gitdir:worktrees/\"",
    "./gh",
    "gh//.",
    "link",
    "../repo/gh",
    ".git/../gh",
];

impl Scene {
    fn commit(&self, message: &str) {
        self.git(&self.repo, &["add", "--all"]);
        self.git(&self.repo, &["commit", "--quiet", "--message", message]);
    }

    /// A repository that runs something in a new tree: a filter under this condition, or hooks in this folder.
    fn hiding(way: &str) -> Self {
        let scene = Self::ordinary(None);
        fs::write(scene.repo.join("a.txt"), "one\n").unwrap();
        if way.starts_with("includeIf") {
            fs::write(scene.repo.join(".gitattributes"), "*.txt filter=evil\n").unwrap();
            scene.commit("attributes");
            let smudge = format!("[filter \"evil\"]\n\tsmudge = {}\n", scene.program("ran").display());
            fs::write(scene.repo.join(".git/evil.inc"), smudge).unwrap();
            append(&scene.repo.join(".git/config"), &format!("[{way}]\n\tpath = evil.inc\n"));
        } else {
            fs::create_dir(scene.repo.join("gh")).unwrap();
            scene.script(&scene.repo.join("gh/post-index-change"), "ran");
            std::os::unix::fs::symlink("gh", scene.repo.join("link")).unwrap();
            scene.commit("hooks");
            append(&scene.repo.join(".git/config"), &format!("[core]\n\thooksPath = {way}\n"));
        }
        let _ = scene.ran();
        scene
    }

    /// Neither a tree nor a branch was left behind.
    fn is_untouched(&self) -> bool {
        let trees = self.git(&self.repo, &["worktree", "list", "--porcelain"]);
        let branches = self.git(&self.repo, &["for-each-ref", "--format=%(refname)", "refs/heads"]);
        trees.matches("worktree ").count() == 1
            && branches == "refs/heads/main"
            && !self.repo.with_file_name("repo-b1").exists()
    }
}

#[test]
fn what_only_holds_in_the_new_tree_is_asked_about_before_it_runs() {
    for way in HIDDEN {
        let scene = Scene::hiding(way);
        let create = ["worktree", "create", ".", "--branch", "b1"];
        let refused = scene.agentctl(&create);
        assert_eq!((refused.code, scene.ran()), (Some(7), Vec::new()), "{way} {refused:#?}");
        assert!(refused.stderr.contains("--trust") && scene.is_untouched(), "{way} {refused:#?}");
        let made = scene.agentctl(&[&create[..], &["--trust"]].concat());
        assert_eq!(made.code, Some(0), "{way} {made:#?}");
        // A path through `.git`, which is a file there, leads nowhere.
        let runs = way != ".git/../gh";
        assert_eq!(scene.ran().contains(&"ran".to_owned()), runs, "{way} {made:#?}");
        assert!(scene.repo.with_file_name("repo-b1").join("a.txt").exists(), "{way}");
    }
}

#[test]
fn a_launch_does_not_run_what_only_holds_in_its_tree_either() {
    for way in &HIDDEN[..2] {
        let scene = Scene::hiding(way);
        let launch = ["launch", "claude-code", "-p", "x", "--worktree", ".", "--branch", "b1"];
        let refused = scene.agentctl(&launch);
        assert_eq!((refused.code, scene.ran()), (Some(7), Vec::new()), "{way} {refused:#?}");
        assert!(scene.is_untouched(), "{way} {refused:#?}");
    }
}

#[test]
fn removing_a_tree_runs_no_filter_that_only_holds_there() {
    let scene = Scene::hiding(HIDDEN[1]);
    let _ = scene.agentctl(&["worktree", "create", ".", "--branch", "b1", "--trust"]).ok();
    let _ = scene.ran();
    let clean = format!("[filter \"evil\"]\n\tclean = {}\n", scene.program("cleaned").display());
    fs::write(scene.repo.join(".git/evil.inc"), clean).unwrap();
    let tree = scene.repo.with_file_name("repo-b1");
    // The same text is written again, so that git must read the contents.
    fs::write(tree.join("a.txt"), "one\n").unwrap();
    let cleaned = scene.agentctl(&["worktree", "clean", tree.to_str().unwrap()]);
    assert_eq!((cleaned.code, scene.ran()), (Some(0), Vec::new()), "{cleaned:#?}");
    assert!(!tree.exists());
}

#[test]
fn a_hook_behind_a_link_is_what_lies_at_its_end() {
    let scene = Scene::ordinary(None);
    fs::create_dir(scene.repo.join("gh")).unwrap();
    scene.script(&scene.repo.join("real.sh"), "ran");
    std::os::unix::fs::symlink("../real.sh", scene.repo.join("gh/post-index-change")).unwrap();
    scene.commit("hooks");
    scene.git(&scene.repo, &["config", "core.hooksPath", "gh"]);
    let _ = scene.agentctl(&["worktree", "create", ".", "--branch", "b1", "--trust"]).ok();
    assert_eq!(scene.ran(), ["ran"]);
    let _ = scene.agentctl(&["worktree", "create", ".", "--branch", "b2"]).ok();
    assert_eq!(scene.ran(), ["ran"], "it was agreed to");
    append(&scene.repo.join("real.sh"), "# another line\n");
    scene.git(
        &scene.repo,
        &["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--all", "--message", "x"],
    );
    let refused = scene.agentctl(&["worktree", "create", ".", "--branch", "b3"]);
    assert_eq!((refused.code, scene.ran()), (Some(7), Vec::new()), "{refused:#?}");
}

#[test]
fn a_command_is_shown_whole_with_what_would_not_show() {
    let scene = Scene::ordinary(None);
    let end = "touch /the-very-end";
    let command = format!(
        "cat # keeps line endings as they are on this machine, and {}\n\u{202e}{end}",
        "x".repeat(99)
    );
    scene.git(&scene.repo, &["config", "filter.x.smudge", &command]);
    let refused = scene.agentctl(&["worktree", "create", ".", "--branch", "b1"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains(&format!("\\n⟨U+202E⟩{end}")), "{refused:#?}");
}

/// Another git process comes first, between the search for a free path and the creation.
#[test]
fn a_tree_that_somebody_else_made_at_our_path_stays() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let git = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.exists()).unwrap();
    let scene = Scene::ordinary(None);
    let theirs = scene.repo.with_file_name("repo-b1");
    let (wrapper, real) = (scene.programs.join("git"), git.display());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'worktree add'*)\n\
         '{real}' -C '{}' worktree add -q -b other '{1}' && echo precious >'{1}/precious' ;;\nesac\nexec '{real}' \"$@\"\n",
        scene.repo.display(),
        theirs.display(),
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    scene.house.home.put_on_path("git", &wrapper);
    let failed = scene.agentctl(&["worktree", "create", ".", "--branch", "b1"]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert_eq!(fs::read_to_string(theirs.join("precious")).unwrap(), "precious\n", "{failed:#?}");
    let branches = scene.git(&scene.repo, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches, "main\nother", "ours is gone again");
}

/// Large files are fetched that way: what the user has configured for every repository needs no agreement.
#[test]
fn the_users_own_filters_and_hooks_go_on_working() {
    let scene = Scene::ordinary(None);
    fs::write(scene.repo.join("a.txt"), "one\n").unwrap();
    fs::write(scene.repo.join(".gitattributes"), "*.txt filter=mine\n").unwrap();
    scene.commit("attributes");
    let hooks = scene.house.home.work_dir("hooks");
    scene.script(&hooks.join("post-checkout"), "my-hook");
    scene.git(&scene.repo, &["config", "--global", "core.hooksPath", hooks.to_str().unwrap()]);
    let smudge = scene.program("my-filter");
    scene.git(&scene.repo, &["config", "--global", "filter.mine.smudge", smudge.to_str().unwrap()]);
    scene.git(&scene.repo, &["config", "--global", "filter.mine.required", "true"]);
    // A setting of the repository that no checkout here uses.
    scene.git(&scene.repo, &["config", "core.sshCommand", "ssh -i key"]);
    let made = scene.agentctl(&["worktree", "create", ".", "--branch", "b1"]);
    assert_eq!(
        (made.code, scene.ran()),
        (Some(0), vec!["my-filter".to_owned(), "my-hook".to_owned()]),
        "{made:#?}"
    );
    let text = fs::read_to_string(scene.repo.with_file_name("repo-b1").join("a.txt")).unwrap();
    assert_eq!(text, "one\n");
}
