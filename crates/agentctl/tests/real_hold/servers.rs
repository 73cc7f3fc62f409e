//! Codex and OpenCode, held in private servers of their own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use agentctl_testkit::{Codex, OpenCode, Skip, TestHome, until_seen};
use rustix::process::Signal;
use serde_json::json;

use crate::manner::{Agent, Always, Asks, AtInterrupt, MidTurn, nothing, question_of, shell};
use crate::road::Road;
use crate::{ENDLESS, Held, PATIENCE, Stage, rounds, steer};

pub(crate) static CODEX: Agent = Agent {
    name: "codex",
    settle: settle_codex,
    model: None,
    arguments: nothing,
    runs: escalated,
    witness: "app-server says idle",
    mid_turn: MidTurn::Now,
    asks: Some(Asks {
        reason: "as-message",
        goes_on: false,
        always: Always::Session,
        settings: &[".codex/config.toml", ".codex/rules"],
    }),
    question: Some(|| {
        let question = json!({"questions": [{"id": "colour", "header": "Colour", "question": "Which colour?",
            "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]}]});
        format!("[[tool:request_user_input|{question}]]")
    }),
    failure: "for good",
};

pub(crate) static OPENCODE: Agent = Agent {
    name: "opencode",
    settle: |home, url| {
        let asking = json!({"*": "ask", "bash": {"*": "ask"}, "question": "allow"});
        OpenCode::settle(home, url, &asking).map(drop)
    },
    runs: shell,
    witness: "does not work on it",
    mid_turn: MidTurn::Queued(AtInterrupt::Dropped),
    asks: Some(Asks {
        reason: "with-answer",
        goes_on: true,
        always: Always::Session,
        settings: &[".config/opencode/opencode.json"],
    }),
    question: Some(|| question_of("question")),
    ..CODEX
};

/// It asks before it leaves its sandbox.
fn settle_codex(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    Codex::settle(home, url)?;
    let path = home.path().join(".codex/config.toml");
    let settings = fs::read_to_string(&path).unwrap();
    let asking = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
    let question = "\n[features]\ndefault_mode_request_user_input = true\n";
    fs::write(&path, format!("{asking}{settings}{question}")).unwrap();
    Ok(())
}

fn escalated(command: &str) -> String {
    let tool = json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "may I?"});
    format!("[[tool:exec_command|{tool}]]")
}

/// The server and what it waits for outlive the runner.
fn outlives_its_runner(stage: &Stage) {
    let held = rounds::speaks(stage);
    held.asks_to_run("touch alone", "[[text:alone]]");
    let runner = held.runner();
    stage.scene.home.signal(runner, Signal::KILL);
    until_seen(PATIENCE, "the end of the runner", || {
        let left = stage.processes();
        if left.iter().any(|(pid, _)| *pid == runner) { Err(format!("{left:#?}")) } else { Ok(()) }
    });
    let _ = held.done("approve", &[]);
    held.idle("alone");
    assert!(held.exists("alone"));
    assert_eq!(held.send("[[text:still here]] and now"), "now");
    held.idle("still here");
    stop(&held);
}

fn stop(held: &Held<'_>) {
    let stopped = held.done("stop", &[]);
    assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
    held.stage.wait_for_silence();
}

#[test]
fn codex_is_held_in_its_own_server() {
    let Some(stage) = Stage::set(&CODEX, Road::Alone) else { return };
    rounds::all(&stage);
    outlives_its_runner(&stage);
}

#[test]
fn opencode_is_held_in_its_own_server() {
    let Some(stage) = Stage::set(&OPENCODE, Road::Alone) else { return };
    rounds::all(&stage);
    outlives_its_runner(&stage);
}

/// The agent and its runner died in the middle of a tool: nobody is left who would end the tool but the one who stops the
/// session.
#[test]
fn stopping_ends_what_a_dead_agent_left() {
    let Some(stage) = Stage::set(&OPENCODE, Road::Alone) else { return };
    let held = rounds::speaks(&stage);
    held.asks_to_run(&format!("touch running; {ENDLESS}"), "[[text:never]]");
    let _ = held.done("approve", &[]);
    until_seen(PATIENCE, "the tool at work", || {
        let at_work = stage.processes().iter().any(|(_, line)| line.trim_end() == ENDLESS);
        if held.exists("running") && at_work { Ok(()) } else { Err("not yet") }
    });
    let runner = held.runner();
    let server = u32::try_from(held.status()["pid"].as_u64().unwrap()).unwrap();
    for pid in [runner, server] {
        stage.scene.home.signal(pid, Signal::KILL);
    }
    held.becomes("its end", |now| now["status"] == "stopped");
    let left = stage.processes();
    assert!(left.iter().any(|(_, line)| line.trim_end() == ENDLESS), "something is left: {left:#?}");
    let stopped = held.done("stop", &[]);
    let report = &stopped["sessions"][0];
    assert_eq!((&report["wasStopped"], &report["survived"]), (&json!(true), &json!([])), "{stopped:#}");
    assert!(report["ended"].to_string().contains("tail"), "{stopped:#}");
    stage.wait_for_silence();
    assert_eq!(held.done("stop", &[])["sessions"][0]["ended"], json!([]));
}

/// What the agent offers and shows is what a person sees.
#[test]
fn what_codex_asks_is_shown_with_its_options() {
    let Some(stage) = Stage::set(&CODEX, Road::Alone) else { return };
    let held = rounds::speaks(&stage);
    let asked = held.asks_to_run("touch allowed", "[[text:allowed]]");
    for (kind, scope) in [("allow-once", "once"), ("allow-always", "session"), ("deny", "once")] {
        let mut options = asked["options"].as_array().unwrap().iter();
        assert!(
            options.any(|option| option["kind"] == kind && option["scope"] == scope),
            "{kind}: {asked:#}"
        );
    }
    let _ = held.done("approve", &[]);
    held.idle("allowed");
    held.send(&format!("{} [[text:thanks]]", CODEX.question.unwrap()()));
    let asked = held.asked("question");
    assert_eq!(asked["summary"], "Which colour?\n- Red: r\n- Blue: b", "{asked:#}");
    assert!(asked["options"].as_array().unwrap().iter().any(|one| one["label"] == "Blue"), "{asked:#}");
    let _ = held.done("answer", &["Blue"]);
    held.idle("thanks");
    stage.scene.model.wait_request("the answer", |seen| seen.body.to_string().contains("Blue\\\""));

    // Its request does not name the files: they are looked up in the turn.
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\nEOF";
    held.send(&format!("[[tool:exec_command|{}]] [[text:patched]]", json!({"cmd": patch})));
    let asked = held.asked("approval");
    let summary = asked["summary"].as_str().unwrap();
    assert!(summary.contains("new.txt") && summary.contains("hello"), "{asked:#}");
    let _ = held.done("approve", &[]);
    held.idle("patched");
    assert_eq!(fs::read_to_string(stage.scene.cwd.join("new.txt")).unwrap(), "hello\n");
    stop(&held);
}

/// A command of the agent does not decide about the agent.
#[test]
fn a_session_does_not_steer_itself() {
    let Some(stage) = Stage::set(&CODEX, Road::Alone) else { return };
    let held = rounds::speaks(&stage);
    let program = env!("CARGO_BIN_EXE_agentctl");
    let command = format!("{program} interrupt {} 2> said; echo $? > code", held.id);
    held.asks_to_run(&command, "[[text:tried]]");
    let _ = held.done("approve", &[]);
    held.idle("tried");
    let said = fs::read_to_string(stage.scene.cwd.join("said")).unwrap();
    assert_eq!(fs::read_to_string(stage.scene.cwd.join("code")).unwrap(), "7\n", "{said}");
    assert!(said.contains("itself"), "{said}");
    stop(&held);
}

/// A held session to which nobody talks ends, and so does its server.
#[test]
fn a_server_ends_when_nobody_talks_to_its_session() {
    let Some(stage) = Stage::set(&CODEX, Road::Alone) else { return };
    // Its first turn lasts until the launch is over, which may take longer than it may be idle.
    let held = stage.hold("[[hang:first]] begin", &["--idle-timeout", "1s"]);
    stage.scene.model.open("first");
    stage.wait_for_silence();
    let ended = held.status();
    assert_eq!(
        (&ended["status"], &ended["lastMessage"]),
        (&"stopped".into(), &"released".into()),
        "{ended:#}"
    );
    assert_eq!(ended["launch"]["endedBy"]["limit"], "--idle-timeout 1s", "{ended:#}");
}

/// Only who may read the environment of the server knows its password.
#[test]
fn the_server_of_opencode_refuses_unknown_models_and_strangers() {
    let Some(stage) = Stage::set(&OPENCODE, Road::Alone) else { return };
    let scene = &stage.scene;
    let refused = stage.run(&["launch", "opencode", "-p", "no", "--hold", "--model", "fake/nobody"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains("model not found: fake/nobody"), "{refused:#?}");
    scene.assert_nothing_left();

    let held = rounds::speaks(&stage);
    let server = held.status()["pid"].as_u64().unwrap();
    let environ = fs::read_to_string(format!("/proc/{server}/environ")).unwrap();
    let password =
        environ.split('\0').find_map(|pair| pair.strip_prefix("OPENCODE_SERVER_PASSWORD=")).unwrap();
    assert_eq!(password.len(), 64, "a long one");
    assert!(scene.processes().iter().all(|(_, line)| !line.contains(password)));
    assert!(!steer::is_stored_below(&scene.home.path(), password), "it is on the disk");
    let printed = scene.launches().iter().find_map(|folder| fs::read_to_string(folder.join("stdout")).ok());
    let address = printed.unwrap().split_once("http://").unwrap().1.trim().to_owned();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET /session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    stop(&held);
}
