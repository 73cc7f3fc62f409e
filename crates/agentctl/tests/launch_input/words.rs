//! Agents, prompts, flags, and the files that go with a prompt.

use std::fs;

use crate::scene::{Scene, make_fifo};

#[test]
fn an_agent_that_is_not_there_or_not_named() {
    let scene = Scene::new();
    scene.refuses(&["nobody", "-p", "x"], 2, &["nobody", "claude-code"]);
    scene.refuses(&["--adapter", "nobody", "-p", "x"], 2, &["no agent `nobody`", "agentctl adapters"]);
    scene.refuses(&["-p", "x"], 2, &["no agent was named", "config.toml"]);
    fs::create_dir(scene.home.agentctl_home()).unwrap();
    scene.file(".agentctl/config.toml", "[adapters.claude-code]\nenabled = false\n");
    scene.refuses(&["claude-code", "-p", "x"], 2, &["claude-code", "switched off"]);
}

#[test]
fn a_prompt_that_is_none() {
    let scene = Scene::new();
    scene.refuses(&["claude-code"], 2, &["there is no prompt", "-p"]);
    for empty in ["", " \n\t"] {
        scene.refuses(&["claude-code", "-p", empty], 2, &["the prompt is empty"]);
    }
    let stdin = ["claude-code", "-p", "-"];
    for (input, words) in [
        (&b""[..], "the prompt is empty"),
        (b"one\0two", "NUL at byte 3"),
        (b"caf\xe9", "not UTF-8 from byte 3 on"),
    ] {
        scene.is_refusal(&scene.launch_with(&stdin, input), &stdin, 2, &[words]);
    }
}

#[test]
fn a_prompt_that_looks_like_a_flag_reaches_the_agent_as_words() {
    let scene = Scene::new();
    for prompt in ["--help", "-", "--dangerously-skip-permissions", "-p"] {
        let arguments = ["claude-code", "-p", prompt];
        let launched = if prompt == "-" {
            scene.launch_with(&arguments, b"--version\n")
        } else {
            scene.launch(&arguments)
        };
        scene.reaches_the_agent(&launched);
        let told = if prompt == "-" { "--version\n" } else { prompt };
        assert_eq!(String::from_utf8(scene.told()).unwrap(), told);
        let argv = scene.argv().unwrap();
        assert!(argv.contains(&"--session-id".to_owned()), "{argv:?}");
        assert!(
            !argv.contains(&"--help".to_owned()) && !argv.iter().any(|word| word.contains("--dangerously"))
        );
    }
}

#[test]
fn two_megabytes_from_standard_input_arrive_whole() {
    let scene = Scene::new();
    let words: String = (0..250_000).flat_map(|number| [format!("{number:07}"), "\n".to_owned()]).collect();
    assert_eq!(words.len(), 2_000_000);
    scene.reaches_the_agent(&scene.launch_with(&["claude-code", "-p", "-"], words.as_bytes()));
    assert!(scene.told() == words.as_bytes(), "{} bytes arrived", scene.told().len());
}

#[test]
fn a_file_that_cannot_go_with_the_prompt() {
    let scene = Scene::new();
    let binary = scene.file("binary", b"\x7fELF\0\0");
    let latin = scene.file("latin", b"caf\xe9\n");
    let large = scene.file("large", vec![b'x'; (256 << 10) + 1]);
    let folder = scene.home.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let fifo = scene.home.path().join("fifo");
    make_fifo(&scene.home, &fifo);
    let (folder, fifo) = (folder.to_str().unwrap(), fifo.to_str().unwrap());
    for flag in ["--file", "--spec"] {
        for (path, words) in [
            ("/nowhere/at/all", "No such file"),
            (binary.as_str(), "NUL at byte 4"),
            (latin.as_str(), "not UTF-8 from byte 3 on"),
            (large.as_str(), "more than 262144 bytes"),
            (folder, "is not a file"),
            (fifo, "is not a file"),
        ] {
            scene.refuses(&["claude-code", "-p", "x", flag, path], 2, &[path, words]);
        }
    }
    scene.refuses(
        &["claude-code", "-p", "x", "--file", &large, "--max-file-size", "9"],
        2,
        &["more than 9 bytes"],
    );
}

#[test]
fn files_and_the_specification_stand_behind_the_prompt() {
    let scene = Scene::new();
    let spec = scene.file("spec.md", "be quick\n");
    let large = scene.file("large", vec![b'x'; 300 << 10]);
    let arguments =
        ["claude-code", "-p", "Do it.", "--file", &large, "--spec", &spec, "--max-file-size", "1m"];
    scene.reaches_the_agent(&scene.launch(&arguments));
    let told = String::from_utf8(scene.told()).unwrap();
    let start =
        format!("Do it.\n\n<spec name=\"{spec}\">\nbe quick\n</spec>\n\n<file name=\"{large}\">\nxxx");
    assert!(told.starts_with(&start), "{}", &told[..200]);
    assert!(told.len() > 300 << 10);
}

#[test]
fn flags_that_make_no_sense() {
    let scene = Scene::new();
    for (flags, words) in [
        (&["--env", "NOVALUE"][..], "`NOVALUE` is not of the form KEY=VALUE"),
        (&["--env", "=x"], "`=x` is not of the form KEY=VALUE"),
        (&["--label", "team"], "`team` is not of the form KEY=VALUE"),
        (&["--permission-mode", "yolo"], "yolo"),
        (&["--timeout", "soon"], "`soon` is not a length of time"),
        (&["--max-file-size", "huge"], "`huge` is not a size"),
        (&["--worktree", "."], "--branch"),
        (&["--branch", "x"], "--worktree"),
        (&["--repo", "a/b"], "--issue"),
        (&["--issue", "seven"], "seven"),
        (&["--group", ""], "--group"),
        (&["--model", ""], "--model"),
    ] {
        scene.refuses(&[&["claude-code", "-p", "x"], flags].concat(), 2, &[words]);
    }
    let several =
        ["--adapter", "claude-code", "--adapter", "codex", "-p", "x", "--worktree", ".", "--branch", "b"];
    scene.refuses(&several, 2, &["a working tree each"]);
}

#[test]
fn a_prompt_may_be_a_word_and_what_follows_two_dashes_goes_to_the_agent_as_it_is() {
    let scene = Scene::new();
    scene.refuses(&["claude-code", "fix it", "-p", "and that"], 2, &["PROMPT", "--prompt"]);
    scene.refuses(&["claude-code", "fix it", "and that"], 2, &["and that"]);
    scene.reaches_the_agent(&scene.launch(&["claude-code", "fix it", "--", "--effort", "hi gh", "-p", "--"]));
    assert_eq!(scene.told(), b"fix it");
    let argv = scene.argv().unwrap();
    assert_eq!(argv[argv.len() - 4..], ["--effort", "hi gh", "-p", "--"]);
    let stdin = scene.launch_with(&["claude-code", "-", "--", "--effort"], b"from stdin");
    scene.reaches_the_agent(&stdin);
    assert_eq!(scene.told(), b"from stdin");
    let shown = scene.launch(&["claude-code", "fix it", "--dry-run", "--", "--effort", "hi gh"]).ok().stdout;
    assert!(shown.lines().next().unwrap().ends_with("--effort 'hi gh'"), "{shown}");
}

#[test]
fn a_model_that_begins_with_a_dash_is_no_flag_of_the_agent() {
    let scene = Scene::new();
    scene.put_on_path("pi", "#!/bin/sh\nexit 3\n");
    scene.refuses(&["pi", "x", "--model=--offline"], 2, &["Pi would take the model `--offline`"]);
    scene.refuses(&["pi", "x", "--system-prompt-append=--offline"], 2, &["system prompt `--offline`"]);
    scene.reaches_the_agent(&scene.launch(&["claude-code", "x", "--model=--version"]));
    let argv = scene.argv().unwrap();
    assert!(
        argv.contains(&"--model=--version".to_owned()) && !argv.contains(&"--version".to_owned()),
        "{argv:?}"
    );
}
