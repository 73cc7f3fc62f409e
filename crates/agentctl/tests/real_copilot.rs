//! A real Copilot against the fake model, seen through the command line.

mod node_agent;

use std::time::{Duration, Instant};

use agentctl_testkit::{NodeAgent, Pty, until_seen};

#[test]
fn a_finished_and_a_failed_run() {
    node_agent::finished_and_failed("copilot", NodeAgent::copilot);
}

#[test]
fn two_at_work_in_one_directory_killed_and_resumed() {
    node_agent::at_work_killed_and_resumed("copilot", NodeAgent::copilot);
}

/// Types a line. What is typed while the prompt is not there yet is lost, and nothing shows when it is, so a line that did
/// not appear is typed once more.
fn types(terminal: &mut Pty, line: &str) {
    let end = line.rsplit(' ').next().unwrap_or(line);
    let mut typed: Option<Instant> = None;
    until_seen(node_agent::TIMEOUT, "the line in the terminal", || {
        let screen = terminal.screen_text();
        if screen.contains(end) {
            return Ok(());
        }
        if typed.is_none_or(|at| at.elapsed() > Duration::from_secs(15)) {
            terminal.send(line);
            typed = Some(Instant::now());
        }
        Err(screen)
    });
}

/// In a terminal: idle at its empty prompt, waiting for permission to run a tool, idle again when it is done.
#[test]
fn a_session_in_a_terminal_waits_for_leave() {
    let Some(scene) = node_agent::Scene::set("copilot", NodeAgent::copilot) else { return };
    let cwd = scene.home.git_repo("project");
    let mut terminal = scene.agent.interactive(&scene.home, &cwd);
    let id = scene.wait_for_any("an empty prompt", |row| row["status"] == "idle");
    terminal.wait_for("Do you trust the files in this folder?");
    terminal.press_until_gone("\r", "Do you trust the files in this folder?");
    types(&mut terminal, "[[bash:touch made]] [[text:Made.]]");
    terminal.send("\r");
    let row = scene.wait_for(&id, "a question for leave", |row| row["status"] == "waiting");
    assert_eq!(row["pending"][0]["kind"], "approval", "{row:#}");
    assert_eq!(row["pending"][0]["summary"], "shell: touch made");
    terminal.wait_for("Do you want to run this command?");
    terminal.press_until_gone("\r", "Do you want to run this command?");
    let row = scene.wait_for(&id, "the end of the turn", |row| row["outcome"] == "completed");
    assert_eq!(
        (row["status"].as_str(), row["lastMessage"].as_str()),
        (Some("idle"), Some("Made.")),
        "{row:#}"
    );
    assert!(cwd.join("made").exists());
    drop(terminal);
    let row = scene.wait_for(&id, "the end of the terminal", |row| row["status"] == "stopped");
    assert_eq!(row["outcome"], "completed", "{row:#}");
}
