//! Matrix files with mistakes: the command stops before anything is created.

use agentctl_testkit::Output;

use crate::scene::Scene;

#[test]
fn a_file_that_is_no_matrix_is_refused_with_the_place_of_the_mistake() {
    let scene = Scene::new();
    for (text, words) in [
        ("prompt: x\nmatrix:\n  - adapter: claude-code\n    modle: m\n", &["modle", "line 4"][..]),
        ("prompt: x\nmatrix:\n  - model: m\n", &["adapter", "line 3"]),
        ("prompt: x\nmatrix:\n  - adapter: claude-code\n    model: {a: b}\n", &["line 4"]),
        ("prompt: x\nmatrix: claude-code\n", &["line 2"]),
        ("prompt: [x]\nmatrix:\n  - adapter: claude-code\n", &["line 1"]),
        ("prompt: x\nmatrix:\n  - claude-code\n", &["line 3"]),
        ("prompt: x\nmatrix: []\n", &["nothing to launch"]),
        ("prompt: x\n", &["matrix"]),
        ("prompt: x\nturbo: yes\nmatrix:\n  - adapter: claude-code\n", &["turbo", "line 2"]),
        ("prompt: 'x\nmatrix: [\n", &["line"]),
        ("\u{0}", &["NUL at byte 0"]),
        ("", &["matrix"]),
        ("matrix:\n  - adapter: claude-code\n", &["there is no prompt"]),
        ("prompt: ' '\nmatrix:\n  - adapter: claude-code\n", &["the prompt is empty"]),
        ("prompt: x\ncwd: /nowhere/at/all\nmatrix:\n  - adapter: claude-code\n", &["/nowhere/at/all"]),
    ] {
        let path = scene.file("matrix.yaml", text);
        let refused = scene.launch(&["--matrix", &path]);
        scene.is_refusal(&refused, &[text], 2, words);
        if !text.contains("prompt: ' '") && !text.contains("cwd") && text.contains("prompt") {
            assert!(refused.stderr.contains(&path), "{text:?}: {refused:#?}");
        }
    }
    scene.refuses(&["--matrix", "/nowhere/at/all.yaml"], 2, &["/nowhere/at/all.yaml", "No such file"]);
    let path = scene.file("large.yaml", vec![b'#'; (1 << 20) + 1]);
    scene.refuses(&["--matrix", &path], 2, &[&path, "more than 1048576 bytes"]);
    // The slots are counted before any is built: the second file has four hundred million.
    for (adapters, models) in [(1, 101), (20_000, 20_000)] {
        let list = |count: usize, name: &str| vec![name; count].join(",");
        let text = format!(
            "prompt: x\nmatrix:\n  - adapter: [{}]\n    model: [{}]\n",
            list(adapters, "pi"),
            list(models, "m")
        );
        let path = scene.file("many.yaml", text);
        let words = format!("{} launches are more than 100", adapters * models);
        scene.refuses(&["--matrix", &path], 2, &[&path, &words, "in parts"]);
        scene.refuses(&["--matrix", &path, "--dry-run"], 2, &[&words]);
    }
    let pairs = [&["-p", "x"][..], &["--adapter", "claude-code"].repeat(101)].concat();
    scene.refuses(&pairs, 2, &["101 launches are more than 100"]);
    // What the file contains cannot be given a second time.
    let path = scene.file("matrix.yaml", "prompt: x\nmatrix:\n  - adapter: claude-code\n");
    for flags in [
        &["--adapter", "codex"][..],
        &["--model", "m"],
        &["claude-code"],
        &["--worktree", ".", "--branch", "b"],
    ] {
        scene.refuses(&[&["--matrix", &path], flags].concat(), 2, &["cannot be used with"]);
    }
}

#[test]
fn a_dry_run_shows_every_slot_and_creates_nothing() {
    let scene = Scene::new();
    let matrix = "prompt: from the file\nbase_branch: main\nmatrix:\n  \
        - adapter: claude-code\n    model: [a/b, c]\n  - {adapter: claude-code, branch: mine}\n  - adapter: nobody\n";
    let path = scene.file("matrix.yaml", matrix);
    let file = scene.file("more", "and more\n");
    let shown =
        scene.launch(&["--matrix", &path, "--file", &file, "--group", "g-test", "--dry-run", "--json"]);
    assert_eq!(shown.code, Some(1), "one slot is no agent: {shown:#?}");
    let plan = shown.json();
    let slots: Vec<(&str, &str)> = plan["launches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| (slot["slot"].as_str().unwrap(), slot["worktree"]["branch"].as_str().unwrap()))
        .collect();
    assert_eq!(
        slots,
        [
            ("claude-code-a-b", "try/g-test/claude-code-a-b"),
            ("claude-code-c", "try/g-test/claude-code-c"),
            ("claude-code", "mine"),
        ]
    );
    assert_eq!(plan["failed"][0]["slot"], "nobody");
    assert!(plan["failed"][0]["error"].as_str().unwrap().contains("no agent `nobody`"), "{plan:#}");
    let words = |output: &Output| output.stdout.matches("the prompt, ").count();
    let told = scene.launch(&["--matrix", &path, "--dry-run"]);
    assert_eq!((told.code, words(&told)), (Some(1), 3), "{told:#?}");
    assert!(told.stderr.contains("nobody: there is no agent"), "{told:#?}");
    scene.nothing_is_left();
    assert!(!scene.home.agentctl_home().exists(), "a dry run writes nothing at all");
    assert_eq!(scene.argv(), None);
}
