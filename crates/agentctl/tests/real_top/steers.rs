//! A real Claude Code, held, is steered with single keys.

use agentctl_testkit::{Claude, until, until_seen};
use serde_json::Value;

use crate::pane::{PATIENCE, Pane, is_whole};
use crate::steer::Scene;

/// The session as the command line tells it.
fn becomes(scene: &Scene, id: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until_seen(PATIENCE, what, || {
        let seen = scene.status(id);
        if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}")) }
    })
}

#[test]
fn a_real_agent_is_approved_denied_spoken_to_stopped_and_resumed() {
    let Some(scene) = Scene::set("claude-code", |home, url| Claude::settle(home, url).map(drop)) else {
        return;
    };
    let Some(pane) = Pane::open(&scene.home, 100, 30) else { return };
    let hold = |prompt: &str| {
        let launched =
            scene.agentctl(&["launch", "claude-code", "-p", prompt, "--hold", "--json"]).ok().json();
        launched["id"].as_str().unwrap().to_owned()
    };
    let id = hold("[[bash:touch approved-file]] [[text:it was allowed]]");
    pane.top("");
    pane.until("the request, whole", |screen| {
        let words = ["│ Bash: touch approved-file", "◐ 1 needs you", "y approve"];
        is_whole(screen) && words.iter().all(|words| screen.contains(words))
    });
    pane.is_titled("◐ 1 · agentctl");
    assert!(!scene.cwd.join("approved-file").exists());
    pane.answers("y", "accepted the approval");
    until(PATIENCE, "the file", || scene.cwd.join("approved-file").exists().then_some(()));
    becomes(&scene, &id, "idle", |seen| seen["status"] == "idle" && seen["lastMessage"] == "it was allowed");
    pane.shows("it was allowed");

    // A message, typed; it makes the agent ask again, and this time it is denied.
    pane.press("s");
    pane.shows("send:");
    pane.tmux(&["send-keys", "-l", "[[bash:touch denied-file]] [[text:it was denied]]"]);
    pane.press("Enter");
    pane.until("the second request", |screen| screen.contains("│ Bash: touch denied-file"));
    pane.answers("n", "accepted the denial");
    becomes(&scene, &id, "idle", |seen| seen["status"] == "idle" && seen["lastMessage"] == "it was denied");
    assert!(!scene.cwd.join("denied-file").exists());

    // A question is answered with words.
    let question = r#"[[tool:AskUserQuestion|{"questions":[{"question":"Keep the v5 routes?","header":"Routes","multiSelect":false,"options":[{"label":"Keep","description":"both"},{"label":"Drop","description":"them"}]}]}]] [[text:as you say]] ask me"#;
    let _ = scene.agentctl(&["send", &id, question]).ok();
    pane.until("the question, whole", |screen| screen.contains("│ Keep the v5 routes?") && is_whole(screen));
    pane.press("a");
    pane.shows("answer:");
    pane.tmux(&["send-keys", "-l", "Drop"]);
    pane.press("Enter");
    pane.shows("accepted the answer");
    becomes(&scene, &id, "idle", |seen| seen["status"] == "idle" && seen["lastMessage"] == "as you say");
    let heard = scene.model.requests().iter().any(|seen| seen.body.to_string().contains("Drop"));
    assert!(heard, "the model heard the answer");

    // The whole conversation is open while it grows.
    pane.press("Enter");
    pane.shows("Esc back");
    let _ = scene.agentctl(&["send", &id, "[[text:said meanwhile]] go on"]).ok();
    pane.shows("said meanwhile");
    pane.press("Escape");
    pane.shows("/ find");

    // Interrupted in the middle of a turn.
    let _ = scene.agentctl(&["send", &id, "[[hang:thinking]] wait"]).ok();
    pane.until("running", |screen| screen.contains("● 1"));
    pane.press("i");
    pane.shows("interrupted its turn");

    // Once is not enough to stop it.
    pane.press("x");
    pane.shows("press x again");
    assert_ne!(scene.status(&id)["status"], "stopped");
    // Two presses at once, however long ago the first one was.
    pane.tmux(&["send-keys", "x", "x"]);
    pane.shows("was stopped");
    becomes(&scene, &id, "stopped", |seen| seen["status"] == "stopped");
    pane.until("the row has ended", |screen| !screen.contains("○ 1") && !screen.contains("● 1"));

    pane.press("r");
    pane.shows("resume with:");
    pane.tmux(&["send-keys", "-l", "[[text:taken up again]] more"]);
    pane.press("Enter");
    pane.shows("goes on");
    becomes(&scene, &id, "the resumed turn", |seen| seen["lastMessage"] == "taken up again");

    // A launch from the form.
    pane.press("l");
    pane.shows("launch an agent");
    pane.tmux(&["send-keys", "-l", "[[text:launched here]] from the form"]);
    pane.press("Enter");
    pane.until("the launch", |screen| screen.contains("claude-code ") && screen.contains(" is "));
    let listed = until_seen(PATIENCE, "two sessions", || {
        let list = scene.agentctl(&["list", "-a", "--json"]).ok().json();
        if list["sessions"].as_array().unwrap().len() == 2 { Ok(list) } else { Err(format!("{list:#}")) }
    });
    for session in listed["sessions"].as_array().unwrap() {
        scene.agentctl(&["stop", session["id"].as_str().unwrap()]);
    }
    pane.press("q");
    pane.is_usable("end");
}
