//! What is missing on the command line comes from `config.toml`; a flag wins.

use std::fs;

use serde_json::Value;

use crate::scene::Scene;

fn plan(scene: &Scene, arguments: &[&str]) -> Value {
    let shown = scene.launch(&[arguments, &["-p", "x", "--dry-run", "--json"]].concat()).ok().json();
    shown["launches"][0].clone()
}

fn model(plan: &Value) -> Option<String> {
    let args: Vec<&str> = plan["plan"]["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let at = args.iter().position(|word| *word == "--model")?;
    Some(args[at + 1].to_owned())
}

#[test]
fn adapter_model_and_program_have_defaults() {
    let scene = Scene::new();
    fs::create_dir(scene.home.agentctl_home()).unwrap();
    let other = scene
        .put_on_path("my-claude", "#!/bin/sh\ncat > \"$HOME/input\"\necho mine was started >&2\nexit 4\n");
    let binary = format!("[adapters.claude-code]\nbinary = \"{}\"\n", other.display());
    scene.file(".agentctl/config.toml", format!("adapter = \"claude-code\"\nmodel = \"usual\"\n{binary}"));
    let usual = plan(&scene, &[]);
    assert_eq!((usual["adapter"].as_str(), model(&usual).as_deref()), (Some("claude-code"), Some("usual")));
    assert_eq!(usual["plan"]["program"].as_str(), other.to_str());
    assert_eq!(model(&plan(&scene, &["--model", "mine"])).as_deref(), Some("mine"));
    assert_eq!(model(&plan(&scene, &["claude-code"])).as_deref(), Some("usual"));
    let launched = scene.launch(&["-p", "hello"]);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    assert!(launched.stderr.contains("mine was started") && launched.stderr.contains("exit code 4"));
    assert_eq!((scene.told(), scene.argv()), (b"hello".to_vec(), None));
    scene.nothing_is_left();

    scene.file(".agentctl/config.toml", "[adapters.claude-code]\nbinary = \"/nowhere/claude\"\n");
    let refused = scene.launch(&["claude-code", "-p", "x"]);
    scene.is_refusal(&refused, &["binary"], 1, &["/nowhere/claude", "not installed"]);
    scene.file(".agentctl/config.toml", "adapter = \"nobody\"\n");
    scene.refuses(&["-p", "x"], 1, &["config.toml", "line 1", "nobody"]);
}

#[test]
fn a_dry_run_says_what_would_be_started_word_for_word() {
    let scene = Scene::new();
    let more =
        ["--env", "LEVEL=it's high", "--permission-mode", "plan", "--system-prompt-append", "be brief"];
    let arguments = [&["claude-code", "-p", "--help", "--dry-run"][..], &more].concat();
    let mut command = scene.home.agentctl_command(&[&["launch"], &arguments[..]].concat());
    command.current_dir(&scene.repo).env("CLAUDECODE", "1");
    let told = scene.home.run(command).ok().stdout;
    for line in [
        "argv     claude -p --output-format stream-json --verbose --session-id ",
        "--permission-mode plan --append-system-prompt 'be brief'",
        "set      LEVEL='it'\\''s high'",
        "set      AGENTCTL_LAUNCH_ID=",
        "unset    CLAUDECODE",
        "stdin    the prompt, 6 bytes",
    ] {
        assert!(told.contains(line), "{line:?}: {told}");
    }
    assert!(told.contains(&format!("cwd      {}", scene.repo.display())), "{told}");
    assert!(!told.contains("--help"), "the prompt is no argument: {told}");
    assert_eq!(scene.argv(), None);
    assert!(!scene.home.agentctl_home().exists(), "a dry run writes nothing at all");
}
