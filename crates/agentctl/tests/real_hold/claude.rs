//! Claude Code over its stream of JSON.

use agentctl_testkit::{Claude, until_seen};
use rustix::process::Signal;

use crate::manner::{Agent, Always, Asks, AtInterrupt, MidTurn, RUNNER, nothing, question_of, shell};
use crate::road::Road;
use crate::{Held, PATIENCE, Stage, rounds, wait_for};

pub(crate) static CLAUDE_CODE: Agent = Agent {
    name: "claude-code",
    settle: |home, url| Claude::settle(home, url).map(drop),
    model: None,
    arguments: nothing,
    runs: shell,
    witness: RUNNER,
    mid_turn: MidTurn::Queued(AtInterrupt::GoesOn),
    asks: Some(Asks {
        reason: "with-answer",
        goes_on: true,
        always: Always::Session,
        settings: &[".claude/settings.json"],
    }),
    question: Some(|| question_of("AskUserQuestion")),
    failure: "for good",
};

#[test]
fn claude_code_is_spoken_to_and_answered() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    rounds::all(&stage);
}

/// The agent finishes its turn without its runner; then the session is what its records say.
#[test]
fn a_killed_runner_leaves_the_turn_to_its_end() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    let scene = &stage.scene;
    let tool = "touch began; until [ -e go ]; do sleep 0.1; done";
    let held = stage.hold(&format!("[[bash:{tool}]] [[text:to its end]]"), &["--permission-mode", "bypass"]);
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
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    let scene = &stage.scene;
    let held = stage.hold("[[bash:touch asked]] [[text:went on]]", &[]);
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
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    rounds::two_in_two_worktrees(&stage);
}

#[test]
fn a_launch_waits_for_the_first_turn() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    rounds::waits_for_the_first_turn(&stage);
}

/// `/clear` begins another session in the same process. The launch goes on with that one, and the one before is stopped.
#[test]
fn after_clear_the_new_session_is_held() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Alone) else { return };
    let first = stage.hold("[[text:one]] first", &["--on-complete", "echo $AGENTCTL_SESSION_ID >> ended"]);
    let launch = first.idle("one")["launch"]["id"].clone();
    assert_eq!(first.done("send", &["/clear", "--command"])["accepted"], "now");
    // The agent notes the new session a moment before it says so on the line.
    let second = until_seen(PATIENCE, "another session of this launch", || {
        let list = stage.run(&["list", "--json"]).ok().json();
        match list["sessions"].as_array().unwrap().as_slice() {
            [row]
                if row["id"] != first.id.as_str()
                    && row["launch"]["id"] == launch
                    && row["status"] == "idle" =>
            {
                Ok(row.clone())
            }
            _ => Err(format!("{list:#}")),
        }
    });
    let second = Held { id: second["id"].as_str().unwrap().to_owned(), ..first };
    let before = first.status();
    assert_eq!(
        (&before["status"], &before["outcome"], &before["pid"]),
        (&"stopped".into(), &"completed".into(), &serde_json::Value::Null),
        "{before:#}"
    );
    assert!(first.refused("send", &["too late"]).contains("resume"));

    assert_eq!(second.send("[[text:two]] and now"), "now");
    second.idle("two");
    second.asks_to_run("touch allowed", "[[text:three]]");
    let _ = second.done("approve", &[]);
    second.idle("three");
    assert!(second.exists("allowed") && !second.model_heard("too late"));
    rounds::at_work(&second);
    second.stop("interrupted");
    let told = std::fs::read_to_string(stage.scene.cwd.join("ended")).unwrap();
    assert_eq!(told.trim(), second.id, "its end is told once, and of the session that ended");
    assert_eq!(first.status()["outcome"], "completed");
}
