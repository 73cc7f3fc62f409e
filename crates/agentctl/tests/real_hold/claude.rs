//! Claude Code over its stream of JSON.

use agentctl_testkit::{Claude, until_seen};
use rustix::process::Signal;

use crate::rounds::{self, Always, Manner};
use crate::steer::Scene;
use crate::{Held, PATIENCE, wait_for};

const MANNER: Manner = Manner {
    queues: true,
    reason: "with-answer",
    goes_on: true,
    always: Always::Session,
    has_questions: true,
};

pub(crate) fn scene() -> Option<Scene> {
    Scene::with_model(rounds::model(), "claude-code", |home, url| Claude::settle(home, url).map(drop))
}

#[test]
fn claude_code_is_spoken_to_and_answered() {
    let Some(scene) = scene() else { return };
    let held = rounds::speaks(&scene);
    rounds::hears_in_mid_turn(&held, MANNER);
    rounds::asks(&held, MANNER);
    rounds::asks_once(&held, MANNER, ".claude/settings.json");
    rounds::answers_a_question(&held, "AskUserQuestion");
    rounds::is_interrupted(&held);
    rounds::is_interrupted_while_it_waits(&held);
    rounds::survives_an_error(&held, "for good");
    let held = rounds::is_resumed(&held);
    rounds::at_work(&held);
    held.stop("interrupted");
}

/// The agent finishes its turn without its runner; then the session is what its records say.
#[test]
fn a_killed_runner_leaves_the_turn_to_its_end() {
    let Some(scene) = scene() else { return };
    let tool = "touch began; until [ -e go ]; do sleep 0.1; done";
    let held = Held::launch(
        &scene,
        &format!("[[bash:{tool}]] [[text:to its end]]"),
        &["--permission-mode", "bypass"],
    );
    wait_for(&held, "began");
    scene.home.signal(held.runner(), Signal::KILL);
    let seen = held.becomes("the truth", |seen| seen["status"] != "unknown");
    assert_eq!(seen["status"], "running", "{seen:#}");
    let lost = held.run("send", &["is anybody there"]);
    assert!(matches!(lost.code, Some(1 | 7)), "{lost:#?}");
    std::fs::write(scene.cwd.join("go"), "").unwrap();
    scene.wait_for_silence();
    let after = scene.status(&held.id);
    assert_eq!(
        (&after["status"], &after["outcome"], &after["lastMessage"]),
        (&"stopped".into(), &"completed".into(), &"to its end".into()),
        "{after:#}"
    );
    assert!(!held.model_heard("is anybody there"));
    let resumed = held.done("resume", &["[[text:taken up]] again", "--hold"]);
    assert_eq!(resumed["id"], held.id.as_str(), "{resumed:#}");
    held.idle("taken up");
    held.stop("completed");
}

/// A request that nobody can answer any more is refused by the agent itself.
#[test]
fn a_runner_killed_while_the_agent_waits_denies() {
    let Some(scene) = scene() else { return };
    let held = Held::launch(&scene, "[[bash:touch asked]] [[text:went on]]", &[]);
    let pending = held.asked("approval");
    scene.home.signal(held.runner(), Signal::KILL);
    until_seen(PATIENCE, "the end of the turn", || {
        let now = scene.status(&held.id);
        if now["status"] == "stopped" { Ok(()) } else { Err(format!("{now:#}")) }
    });
    let gone = held.run("approve", &["--request", pending["id"].as_str().unwrap()]);
    assert_eq!(gone.code, Some(7), "{gone:#?}");
    let after = scene.status(&held.id);
    assert_eq!(
        (&after["outcome"], &after["lastMessage"]),
        (&"completed".into(), &"went on".into()),
        "{after:#}"
    );
    assert!(!held.exists("asked"));
}

#[test]
fn two_are_held_in_two_worktrees() {
    let Some(scene) = scene() else { return };
    let launch = |branch: &str| {
        Held::launch(
            &scene,
            &format!("[[bash:touch {branch}]] [[text:{branch}]]"),
            &["--worktree", ".", "--branch", branch],
        )
    };
    let (one, other) = (launch("left"), launch("right"));
    let (asked, _) = (one.asked("approval"), other.asked("approval"));
    // The id of one session's request is nothing to the other.
    other.refused("approve", &["--request", asked["id"].as_str().unwrap()]);
    let _ = one.done("approve", &[]);
    let row = one.idle("left");
    assert!(std::path::Path::new(row["cwd"].as_str().unwrap()).join("left").exists(), "{row:#}");
    other.asked("approval");
    let _ = other.done("deny", &[]);
    other.idle("right");
    let stopped = one.done("stop", &[]);
    assert_eq!(stopped["sessions"][0]["stopped"], true, "{stopped:#}");
    assert_eq!(other.send("[[text:still here]] go on"), "now");
    other.idle("still here");
    other.stop("completed");
}
