//! Several agents at once: each in a working tree of its own, and one that fails does not affect the others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentctl_testkit::until_seen;
use serde_json::Value;

use crate::steer::{Scene, TIMEOUT};
use crate::{count, scene};

fn git(scene: &Scene, arguments: &[&str]) -> Vec<String> {
    let mut command = scene.home.command("git");
    command.args(arguments).current_dir(&scene.cwd);
    scene.home.run(command).ok().stdout.lines().map(str::to_owned).collect()
}

fn branches(scene: &Scene) -> BTreeSet<String> {
    git(scene, &["branch", "--format=%(refname:short)"]).into_iter().collect()
}

/// The linked working trees, as git lists them.
fn trees(scene: &Scene) -> BTreeSet<PathBuf> {
    let list = git(scene, &["worktree", "list", "--porcelain"]);
    list.iter().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(PathBuf::from).collect()
}

fn ids(sessions: &Value) -> BTreeSet<String> {
    sessions.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn an_unknown_and_a_missing_agent_fail_only_their_slots() {
    let Some(scene) = scene() else { return };
    let prompt = "[[bash:printf 'one\\ntwo\\n' > made-here]] [[hang]] side by side";
    let launched = scene.agentctl(&[
        "launch",
        "--adapter",
        "claude-code",
        "--adapter",
        "nobody",
        "--adapter",
        "codex",
        "-p",
        prompt,
        "--permission-mode",
        "bypass",
        "--json",
    ]);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    let answer = launched.json();
    let group = answer["group"].as_str().unwrap();
    assert_eq!(answer["sessions"].as_array().unwrap().len(), 1, "{answer:#}");
    let failed: Vec<&str> =
        answer["failed"].as_array().unwrap().iter().map(|one| one["slot"].as_str().unwrap()).collect();
    assert_eq!(failed, ["nobody", "codex"], "{answer:#}");
    assert!(answer["failed"][1]["error"].as_str().unwrap().contains("not installed"), "{answer:#}");
    let branch = format!("try/{group}/claude-code");
    assert_eq!(branches(&scene), set(["main", &branch]), "a failing slot leaves no branch");
    let tree = scene.cwd.with_file_name(format!("project-{}", branch.replace('/', "-")));
    assert_eq!(trees(&scene), BTreeSet::from([tree.clone()]));
    assert_eq!(scene.launches().len(), 1, "a failing slot leaves no record");

    // It is found by its group, everywhere.
    let id = answer["sessions"][0]["id"].as_str().unwrap();
    for arguments in [&["list", "--group", group, "--json"][..], &["list", "-a", "--group", group, "--json"]]
    {
        assert_eq!(ids(&scene.agentctl(arguments).ok().json()["sessions"]), set([id]));
    }
    assert!(
        ids(&scene.agentctl(&["list", "-a", "--group", "g-other", "--json"]).ok().json()["sessions"])
            .is_empty()
    );
    let searched = |group: &str| {
        let found = scene.agentctl(&["search", "side by side", "--group", group, "--files-with"]);
        (found.code, found.stdout)
    };
    assert_eq!(searched(group), (Some(0), format!("{id}\n")));
    assert_eq!(searched("g-other"), (Some(1), String::new()), "its words stand in another group");
    let groups = scene.agentctl(&["group", "list", "--json"]).ok().json();
    assert_eq!(
        (&groups["groups"][0]["group"], &groups["groups"][0]["slots"][0]["status"]),
        (&group.into(), &"running".into())
    );
    let shown = until_seen(TIMEOUT, "the tool's work", || {
        let shown = scene.agentctl(&["group", "show", group, "--json"]).ok().json();
        if shown["slots"][0]["diff"]["files"] == 1 { Ok(shown) } else { Err(format!("{shown:#}")) }
    });
    let slot = &shown["slots"][0];
    assert_eq!((&slot["slot"], &slot["branch"]), (&"claude-code".into(), &branch.as_str().into()));
    assert_eq!(slot["worktree"].as_str().map(Path::new), Some(tree.as_path()));
    assert_eq!((&slot["diff"]["insertions"], &slot["diff"]["deletions"]), (&2.into(), &0.into()));
    assert!(slot["seconds"].is_u64() && slot["session"]["tokens"]["out"].is_u64(), "{slot:#}");
    let patch = scene.agentctl(&["group", "diff", group]).ok().stdout;
    assert!(
        patch.contains("# claude-code in ")
            && patch.contains("+++ b/made-here\n@@ -0,0 +1,2 @@\n+one\n+two\n"),
        "{patch}"
    );
    let stat = scene.agentctl(&["group", "diff", group, "--stat"]).ok().stdout;
    assert!(stat.contains("made-here | 2 ++"), "{stat}");
    for arguments in [&["group", "show", group][..], &["group", "list"], &["group", "diff", group, "--stat"]]
    {
        let mut command = scene.home.agentctl_command(arguments);
        command.current_dir(&scene.cwd).env("COLUMNS", "80");
        let told = scene.home.run(command).ok().stdout;
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
    }

    let stopped = scene.agentctl(&["group", "stop", group, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["survived"], Value::Array(Vec::new()), "{stopped:#}");
    scene.wait_for_silence();
    let again = scene.agentctl(&["group", "stop", group]).ok().stdout;
    assert!(again.contains("no session of group"), "{again}");
    assert_eq!(scene.status(id)["status"], "stopped");
    for arguments in
        [&["group", "show", "g-other"][..], &["group", "stop", "g-other"], &["group", "diff", "g-other"]]
    {
        let unknown = scene.agentctl(arguments);
        assert_eq!(unknown.code, Some(3), "{unknown:#?}");
        assert!(unknown.stderr.contains("g-other") && unknown.stderr.contains("agentctl group list"));
    }
    let unknown = scene.agentctl(&["group", "diff", group, "--slot", "codex"]);
    assert_eq!(unknown.code, Some(3), "{unknown:#?}");
}

/// Claude Code, unless its model is the one that fails: then it prints a message and exits.
fn sometimes_failing(scene: &Scene) {
    let link = scene.home.path().with_file_name("bin").join("claude");
    let real = fs::read_link(&link).unwrap();
    let script = scene.home.path().join("sometimes.sh");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *fail-me*) echo broken on purpose >&2; exit 5;; esac\nexec '{}' \"$@\"\n",
        real.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    scene.home.put_on_path("claude", &script);
}

#[test]
fn a_matrix_is_launched_and_waited_for_and_a_failing_slot_is_undone() {
    let Some(scene) = scene() else { return };
    sometimes_failing(&scene);
    let matrix = scene.home.path().join("matrix.yaml");
    let text = "prompt: '[[bash:echo x > file]] [[text:done]] from a file'\nmatrix:\n  \
        - adapter: claude-code\n    model: [claude-sonnet-4-5, fail-me]\n  - {adapter: claude-code, branch: mine/too}\n";
    fs::write(&matrix, text).unwrap();
    let arguments =
        ["launch", "--matrix", matrix.to_str().unwrap(), "--permission-mode", "bypass", "--wait", "--json"];
    let launched = scene.agentctl(&arguments);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    let answer = launched.json();
    let group = answer["group"].as_str().unwrap();
    assert_eq!(answer["failed"][0]["slot"], "claude-code-fail-me", "{answer:#}");
    let error = answer["failed"][0]["error"].as_str().unwrap();
    assert!(error.contains("broken on purpose") && error.contains("exit code 5"), "{error}");
    let sessions = answer["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{answer:#}");
    for session in sessions {
        // The command waited for it, so this is its final outcome.
        assert_eq!(
            (&session["outcome"], &session["group"]),
            (&"completed".into(), &group.into()),
            "{session:#}"
        );
    }
    let first = format!("try/{group}/claude-code-claude-sonnet-4.5").replace("4.5", "4-5");
    assert_eq!(branches(&scene), set(["main", "mine/too", &first]));
    assert_eq!(trees(&scene).len(), 2);
    assert_eq!(scene.launches().len(), 2);
    let shown = scene.agentctl(&["group", "show", group, "--json"]).ok().json();
    let slots: Vec<&Value> = shown["slots"].as_array().unwrap().iter().collect();
    assert_eq!(slots.iter().map(|slot| slot["slot"].as_str().unwrap()).collect::<BTreeSet<_>>().len(), 2);
    assert!(slots.iter().all(|slot| slot["diff"]["files"] == 1), "{shown:#}");
    scene.wait_for_silence();
}

#[test]
fn many_at_once_in_one_repository_get_a_good_working_tree_each() {
    let Some(scene) = scene() else { return };
    let many = count(3, 8);
    let mut arguments =
        vec!["launch", "-p", "[[hang]] many at once", "--permission-mode", "bypass", "--json"];
    arguments.extend((0..many).flat_map(|_| ["--adapter", "claude-code"]));
    let answer = scene.agentctl(&arguments).ok().json();
    let group = answer["group"].as_str().unwrap();
    assert_eq!(ids(&answer["sessions"]).len(), many, "{answer:#}");
    let mut expected: BTreeSet<String> =
        (2..=many).map(|number| format!("try/{group}/claude-code-{number}")).collect();
    expected.extend([format!("try/{group}/claude-code"), "main".to_owned()]);
    assert_eq!(branches(&scene), expected);
    let trees = trees(&scene);
    assert_eq!(trees.len(), many);
    for tree in &trees {
        assert_eq!(fs::read_to_string(tree.join("README")).unwrap(), "test\n");
    }
    let cwds: BTreeSet<PathBuf> = answer["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| PathBuf::from(session["cwd"].as_str().unwrap()))
        .collect();
    assert_eq!(cwds, trees, "each works in its own");
    let live = scene.agentctl(&["list", "--group", group, "--json"]).ok().json();
    assert_eq!(ids(&live["sessions"]), ids(&answer["sessions"]));
    let stopped = scene.agentctl(&["group", "stop", group, "--force", "--json"]).ok().json();
    assert_eq!(stopped["sessions"].as_array().unwrap().len(), many);
    scene.wait_for_silence();
}
