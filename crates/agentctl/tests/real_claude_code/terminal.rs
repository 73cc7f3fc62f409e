//! The interactive agent: at its empty prompt, at a permission prompt, cleared, and shared with a second process.

use std::collections::HashSet;

use agentctl_testkit::{Pty, new_uuid, until_seen};
use serde_json::json;

use crate::scene::{Scene, TIMEOUT, verdict};

/// Types a message and sends it once the prompt shows it.
fn say(terminal: &mut Pty, text: &str) {
    terminal.send(text);
    terminal.wait_for(text);
    terminal.send("\r");
}

#[test]
fn a_terminal_session_is_idle_waits_for_approval_and_can_be_cleared_and_shared() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let first = new_uuid();
    let mut terminal = scene.claude.interactive(&scene.home, &cwd, &first, &["--permission-mode", "default"]);
    let pid = terminal.pid();

    // At its empty prompt: no transcript yet, and no outcome.
    let row = scene.wait_verdict(&first, "idle");
    assert_eq!(row["pid"], pid);
    assert_eq!(row["cwd"], cwd.to_str().unwrap());
    assert!(row["prompt"].is_null() && row["name"].is_null(), "{row:#}");
    terminal.wait_for("❯");

    say(&mut terminal, "[[bash:touch made-by-tool]] [[text:done]]");
    terminal.wait_for("Do you want to");
    // The agent registers that it waits a moment before it records what for.
    let row = until_seen(TIMEOUT, "the approval by name", || {
        let row = scene.wait_verdict(&first, "waiting");
        if row["pending"][0]["summary"] == "Bash: touch made-by-tool" { Ok(row) } else { Err(row) }
    });
    assert_eq!(row["pending"].as_array().unwrap().len(), 1, "{row:#}");
    assert_eq!(
        (&row["pending"][0]["kind"], &row["statusDetail"]),
        (&json!("approval"), &json!("permission prompt"))
    );
    assert_eq!(scene.rows(&["--status", "waiting"]).len(), 1);
    terminal.press_until_gone("1", "Do you want to");
    terminal.wait_for("● done");
    let row = scene.wait_verdict(&first, "idle/completed");
    assert_eq!((&row["pid"], row["lastMessage"].as_str()), (&pid.into(), Some("done")), "{row:#}");
    assert!(row["pending"].as_array().unwrap().is_empty(), "{row:#}");

    // `/clear`: the same process, another session, although its argv still names the first.
    say(&mut terminal, "/clear");
    let second = until_seen(TIMEOUT, "a new session in the same process", || {
        let id = scene.wait_registry(pid)["sessionId"].as_str().unwrap_or_default().to_owned();
        if id == first { Err(id) } else { Ok(id) }
    });
    let row = scene.wait_verdict(&second, "idle");
    assert_eq!(row["pid"], pid);
    assert_eq!(scene.verdict(&first), "stopped/completed");
    terminal.wait_for("❯");
    say(&mut terminal, "second life [[text:born again]]");
    terminal.wait_for("● born again");
    scene.wait_verdict(&second, "idle/completed");
    assert_eq!(scene.verdict(&first), "stopped/completed");

    // A second process on the second session: still one row, and it runs.
    let mut helper = scene.run_again(&cwd, &["--resume", &second], "shared [[hang:shared]]");
    scene.model.wait_turn("shared [[hang:shared]]", 0);
    let row = scene.row(&second).unwrap();
    assert_eq!(verdict(&row), "running", "{row:#}");
    let pids: HashSet<u64> =
        row["processes"].as_array().unwrap().iter().filter_map(|process| process["pid"].as_u64()).collect();
    assert_eq!(pids, HashSet::from([u64::from(pid), u64::from(helper.pid())]), "{row:#}");
    scene.model.open("shared");
    assert!(helper.wait(TIMEOUT).success(), "{}", helper.stdout());
    let row = scene.row(&second).unwrap();
    assert_eq!((verdict(&row).as_str(), &row["pid"]), ("idle/completed", &pid.into()), "{row:#}");

    say(&mut terminal, "/exit");
    until_seen(TIMEOUT, "the end of the terminal session", || {
        terminal.try_wait().ok_or_else(|| terminal.screen_text())
    });
    assert_eq!(scene.verdict(&second), "stopped/completed");
    assert!(scene.rows(&[]).is_empty());
}
