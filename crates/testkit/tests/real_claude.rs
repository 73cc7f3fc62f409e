//! A real Claude Code against the fake model, without and with a terminal.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
use std::time::Duration;

use agentctl_testkit::{Claude, FakeModel, Pty, Signal, TestHome, new_uuid, skip, until_seen};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);

fn last_line(stdout: &str) -> Value {
    let line = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn wait_status(home: &TestHome, terminal: &Pty, wanted: &str) -> Value {
    until_seen(TIMEOUT, &format!("status {wanted}"), || match Claude::registry(home, terminal.pid()) {
        Some(entry) if entry["status"] == wanted => Ok(entry),
        other => Err(format!("{other:?}\n{}", terminal.screen_text())),
    })
}

#[test]
fn a_headless_run_executes_its_script() {
    let model = FakeModel::start();
    let mut home = TestHome::new();
    let claude = match Claude::settle(&mut home, &model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let id = new_uuid();
    let prompt = "[[bash:echo hi > made-by-tool; echo hi]] [[usage:7,3,2,1]] [[text:done]]";
    let mut run = claude.headless(&home, &cwd, &id, prompt, &["--permission-mode", "bypassPermissions"]);
    let status = run.wait(TIMEOUT);
    assert!(status.success(), "{status}: {} {}", run.stdout(), run.stderr());
    let result = last_line(&run.stdout());
    assert_eq!(
        (result["type"].as_str(), result["is_error"].as_bool(), result["result"].as_str()),
        (Some("result"), Some(false), Some("done")),
        "{result}"
    );
    assert_eq!(result["session_id"], id.as_str());
    // The default usage of the first reply plus the scripted one of the second.
    let usage = &result["usage"];
    assert_eq!(
        (usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
        (Some(107), Some(13)),
        "{usage}"
    );
    assert_eq!(std::fs::read_to_string(cwd.join("made-by-tool")).expect("the tool's file"), "hi\n");
    model.wait_turn("[[text:done]]", 1);
}

#[test]
fn an_error_from_the_model_is_final() {
    let model = FakeModel::start();
    let mut home = TestHome::new();
    let claude = match Claude::settle(&mut home, &model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    let mut run = claude.headless(&home, &home.work_dir("plain"), &new_uuid(), "[[err:500|scripted]]", &[]);
    assert_eq!(run.wait(TIMEOUT).code(), Some(1), "{}", run.stdout());
    assert_eq!(last_line(&run.stdout())["is_error"], true);
}

#[test]
fn an_interactive_run_waits_for_permission() {
    let model = FakeModel::start();
    let mut home = TestHome::new();
    let claude = match Claude::settle(&mut home, &model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let id = new_uuid();
    let mut terminal = claude.interactive(&home, &cwd, &id, &["--permission-mode", "default"]);
    assert_eq!(wait_status(&home, &terminal, "idle")["sessionId"], id.as_str());
    terminal.wait_for("❯");
    terminal.send("[[bash:touch made-by-tool]] [[text:done]]");
    terminal.wait_for("[[text:done]]");
    terminal.send("\r");
    model.wait_turn("made-by-tool", 0);
    let screen = terminal.wait_for("Do you want to");
    assert!(screen.contains("touch made-by-tool"), "{screen}");
    assert_eq!(wait_status(&home, &terminal, "waiting")["waitingFor"], "permission prompt");
    assert!(!cwd.join("made-by-tool").exists(), "the tool ran without permission");
    terminal.press_until_gone("1", "Do you want to");
    terminal.wait_for("● done");
    assert!(cwd.join("made-by-tool").exists(), "the tool did not run after permission");
}

#[test]
fn a_hanging_run_goes_on_until_it_is_interrupted() {
    let model = FakeModel::start();
    let mut home = TestHome::new();
    let claude = match Claude::settle(&mut home, &model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    let mut run = claude.headless(&home, &home.work_dir("plain"), &new_uuid(), "[[hang]]", &[]);
    model.wait_turn("[[hang]]", 0);
    assert!(run.try_wait().is_none(), "it ended although the model is silent: {}", run.stdout());
    run.signal(Signal::INT);
    run.wait(TIMEOUT);
    assert_eq!(last_line(&run.stdout())["is_error"], true);
}

#[test]
fn a_cut_connection_ends_in_an_error() {
    let model = FakeModel::start();
    let mut home = TestHome::new();
    let claude = match Claude::settle(&mut home, &model.url()) {
        Ok(claude) => claude,
        Err(reason) => return skip(reason),
    };
    // The agent would otherwise try again for minutes.
    home.set_env("CLAUDE_CODE_MAX_RETRIES", "1");
    let mut run = claude.headless(&home, &home.work_dir("plain"), &new_uuid(), "[[drop]]", &[]);
    assert_eq!(run.wait(TIMEOUT).code(), Some(1), "{}", run.stdout());
    assert_eq!(last_line(&run.stdout())["is_error"], true);
}
