//! A real agent on another machine in the middle of its turn: every verb, a conversation that is followed over a cut,
//! events of both machines, and launches that are spread.

use std::fs;

use agentctl_testkit::{Background, Near, until, until_seen};
use rustix::process::Signal;
use serde_json::Value;

use crate::claude::CLAUDE_CODE;
use crate::road::Road;
use crate::steer::Scene;
use crate::{PATIENCE, Stage, rounds};

/// A machine that asks the one of this scene over ssh, where it is called box.
pub(crate) fn near(scene: &Scene) -> Option<Near> {
    let near = Near::set(env!("CARGO_BIN_EXE_agentctl"))?;
    let program = near.program_of(&scene.home, "agentctl");
    near.configure_program(&program, "60s");
    Some(near)
}

#[test]
fn claude_code_is_spoken_to_and_answered_over_ssh() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Ssh) else { return };
    rounds::all(&stage);
}

fn lines(background: &Background) -> Vec<Value> {
    // The last line may be half written.
    let text = background.stdout();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What serves one command over ssh.
fn serving(stage: &Stage) -> Vec<u32> {
    let all = stage.scene.processes().into_iter().filter(|(_, line)| line.contains("__serve-stdio"));
    all.map(|(pid, _)| pid).collect()
}

/// Messages, and the end, are told once however often the connection is cut.
#[test]
fn a_conversation_and_the_events_are_followed_over_cuts() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Ssh) else { return };
    let near = &stage.near().home;
    let begin = |arguments: &[&str]| {
        let mut command = near.agentctl_command(arguments);
        command.env_remove("AGENTCTL_NO_DAEMON");
        Background::spawn(near, command)
    };
    let mut events = begin(&["events", "--host", "all", "--snapshot"]);
    let heard = |events: &Background, kind: &str, host: &str| {
        lines(events).into_iter().filter(|one| one["type"] == kind && one["host"] == host).count()
    };
    until(PATIENCE, "the state of both machines", || {
        let all = lines(&events);
        (all.len() == 2 && all.iter().all(|one| one["type"] == "snapshot")).then_some(())
    });
    let held = stage.hold("[[text:one]] first", &[]);
    held.idle("one");
    // It may have been seen idle before its first turn as well, so the last word counts.
    until_seen(PATIENCE, "the session in the events", || {
        let is_of_session = |one: &Value| one["type"].as_str().unwrap().starts_with("session.");
        let last = lines(&events).into_iter().rfind(is_of_session);
        if last.is_some_and(|one| one["type"] == "session.idle" && one["host"] == "box") {
            Ok(())
        } else {
            Err(format!("{}{}", events.stdout(), events.stderr()))
        }
    });

    let full = format!("box/{}", held.id);
    let mut logs = begin(&["logs", "-f", &full, "--json"]);
    let said = |logs: &Background| -> Vec<String> {
        let all =
            lines(logs).into_iter().filter(|entry| entry["role"] == "agent" && entry["kind"] == "message");
        all.map(|entry| entry["text"].as_str().unwrap().trim().to_owned()).collect()
    };
    until(PATIENCE, "the first words", || (said(&logs) == ["one"]).then_some(()));
    let mut expected = vec!["one".to_owned()];
    for round in 0..2 {
        let pids =
            until(PATIENCE, "both to be served", || Some(serving(&stage)).filter(|all| all.len() == 2));
        for pid in pids {
            stage.scene.home.signal(pid, Signal::KILL);
        }
        let word = format!("after-{round}");
        assert_eq!(held.send(&format!("[[text:{word}]] go on")), "now");
        held.idle(&word);
        expected.push(word);
        until_seen(PATIENCE, "every word once", || {
            if said(&logs) == expected { Ok(()) } else { Err(format!("{:?} {}", said(&logs), logs.stderr())) }
        });
        // The process that told the events is gone, so a gap is said, for that machine alone.
        until_seen(PATIENCE, "the gap to be told", || {
            if heard(&events, "reset", "box") == round + 1 { Ok(()) } else { Err(events.stdout()) }
        });
    }
    let cursor = lines(&events).last().unwrap()["cursor"].as_str().unwrap().to_owned();
    assert_eq!(held.done("stop", &[])["sessions"][0]["stopped"], true);
    assert!(logs.wait(PATIENCE).success(), "{}", logs.stderr());
    assert_eq!(said(&logs), expected);
    until(PATIENCE, "the end in the events", || {
        (heard(&events, "session.stopped", "box") == 1).then_some(())
    });
    let own: Vec<Value> = lines(&events).into_iter().filter(|one| one["host"] != "box").collect();
    assert_eq!(own.len(), 1, "nothing happened here: {own:#?}");
    events.signal(Signal::INT);
    assert_eq!(events.wait(PATIENCE).code(), Some(130));
    // Where it was left, both machines go on; the far one says what it missed.
    let mut again = begin(&["events", "--host", "all", "--since", &cursor]);
    until(PATIENCE, "the other machine to say that something was missed", || {
        (heard(&again, "reset", "box") == 1).then_some(())
    });
    assert!(lines(&again).iter().all(|one| one["host"] == "box"), "{}", again.stdout());
    again.signal(Signal::INT);
    again.wait(PATIENCE);
    let mut stop = near.agentctl_command(&["daemon", "stop"]);
    stop.env_remove("AGENTCTL_NO_DAEMON");
    let _ = near.run(stop).ok();
}

/// A launch waits there for its turn, and one is spread over two machines as a group.
#[test]
fn launches_run_there_and_are_spread() {
    let Some(stage) = Stage::set(&CLAUDE_CODE, Road::Ssh) else { return };
    let near = stage.near();
    let cwd = stage.scene.cwd.to_str().unwrap();
    let run = |arguments: &[&str]| near.home.agentctl(arguments);
    let launch = |more: &[&str]| {
        let arguments = ["launch", "claude-code", "-p", "[[text:done there]] go", "--cwd", cwd, "--json"];
        run(&[&arguments[..], more].concat())
    };
    assert_eq!(run(&["launch", "claude-code", "-p", "x", "--host", "box", "--cwd", "here"]).code, Some(2));
    let there = launch(&["--host", "box", "--wait"]).ok().json();
    assert_eq!(
        (&there["host"], &there["outcome"], &there["lastMessage"]),
        (&"box".into(), &"completed".into(), &"done there".into()),
        "{there:#}"
    );
    // The other machine under a second name and another folder of agentctl is another instance.
    let own = near.home.work_dir("second").display().to_string();
    let second = near.program_with(&stage.scene.home, "second", &format!("export AGENTCTL_HOME='{own}'"));
    let (first, second) = (near.program_of(&stage.scene.home, "agentctl"), second);
    let host = |name: &str, program: &std::path::Path| {
        format!("[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{}\"\ntimeout = \"60s\"\n", program.display())
    };
    near.configure(&[host("box", &first), host("second", &second)].concat());
    let spread = launch(&["--host", "box", "--host", "second", "--force", "--wait"]).ok().json();
    let mut hosts: Vec<&str> =
        spread["sessions"].as_array().unwrap().iter().map(|one| one["host"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    assert_eq!((hosts, &spread["failed"]), (vec!["box", "second"], &serde_json::json!([])), "{spread:#}");
    let group = spread["group"].as_str().unwrap();
    for home in [stage.scene.home.agentctl_home(), own.into()] {
        let mut command = stage.scene.home.agentctl_command(&["group", "show", group, "--json"]);
        command.env("AGENTCTL_HOME", home);
        let shown = stage.scene.home.run(command).ok().json();
        assert_eq!(shown["slots"].as_array().unwrap().len(), 1, "{shown:#}");
    }
    // From here it is one group.
    let slots = |run: &dyn Fn(&[&str]) -> agentctl_testkit::Output, group: &str| {
        let shown = run(&["group", "show", group, "--host", "all", "--json"]).ok().json();
        let slots = shown["slots"].as_array().unwrap().clone();
        let mut hosts: Vec<String> =
            slots.iter().map(|slot| slot["host"].as_str().unwrap().to_owned()).collect();
        hosts.sort_unstable();
        hosts
    };
    assert_eq!(slots(&|arguments| run(arguments), group), ["box", "second"]);
    let listed = run(&["group", "list", "--host", "all", "--json"]).ok().json();
    assert_eq!(listed["groups"][0]["slots"].as_array().unwrap().len(), 2, "{listed:#}");
    let _ = run(&["group", "diff", group, "--host", "box", "--host", "second"]).ok();
    assert_eq!(run(&["group", "show", "g-nothing", "--host", "all"]).code, Some(3));

    // This machine may be among those over which a launch is spread.
    let here = &stage.scene.home;
    here.put_on_path("ssh", &near.home.work_dir("scripts").join("ssh"));
    fs::create_dir_all(here.agentctl_home()).unwrap();
    fs::write(here.agentctl_home().join("config.toml"), host("second", &second)).unwrap();
    let arguments =
        ["launch", "claude-code", "-p", "[[text:both]] go", "--cwd", cwd, "--force", "--wait", "--json"];
    let both =
        here.agentctl(&[&arguments[..], &["--host", "local", "--host", "second"]].concat()).ok().json();
    let own = here.agentctl(&["hosts", "--json"]).ok().json()["hosts"][0]["name"].clone();
    let mut hosts: Vec<&Value> =
        both["sessions"].as_array().unwrap().iter().map(|one| &one["host"]).collect();
    hosts.sort_by_key(|host| **host == "second");
    assert_eq!(hosts, [&own, &"second".into()], "{both:#}");
    assert!(both["sessions"].as_array().unwrap().iter().all(|one| one["lastMessage"] == "both"), "{both:#}");
    assert_eq!(slots(&|arguments| here.agentctl(arguments), both["group"].as_str().unwrap()).len(), 2);
    stage.wait_for_silence();
}
