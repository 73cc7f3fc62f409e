//! `send`, `approve`, `deny` and `answer` where there is no way in: the refusal says so, and what to do instead.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use machine::agent::Agent;
use machine::{Machine, TOOLS};

/// Every command that speaks to a session, with its message.
const SPEAKING: [&[&str]; 5] =
    [&["send", "hello"], &["send", "--file", "note"], &["approve"], &["deny"], &["answer", "yes"]];

fn speak(machine: &Machine, command: &[&str], id: &str) -> machine::Ended {
    let arguments: Vec<&str> = [command[0], id].into_iter().chain(command[1..].iter().copied()).collect();
    let mut process = machine.command(&arguments);
    process.current_dir(machine.home());
    machine::Ended::of(&process.output().unwrap())
}

#[test]
fn a_stopped_session_cannot_be_spoken_to_and_resume_is_named_where_it_works() {
    let machine = Machine::furnished();
    machine.write("note", "from a file\n");
    let resume = format!("agentctl resume {TOOLS}");
    for command in SPEAKING {
        let refused = speak(&machine, command, TOOLS);
        assert_eq!(refused.code, Some(7), "{command:?}: {refused:?}");
        assert!(refused.err.contains("is stopped") && refused.out.is_empty(), "{command:?}: {refused:?}");
        assert!(refused.err.contains("its folder /home/dev/w/plain is gone"), "{command:?}: {refused:?}");
        assert!(!refused.err.contains(&resume), "resume would refuse it too: {refused:?}");
        assert!(refused.err.contains(&format!("agentctl peek {TOOLS}")), "{command:?}: {refused:?}");
    }
    let folder = machine.home().join("plain");
    std::fs::create_dir(&folder).unwrap();
    let place = machine.transcript("-home-dev-w-plain", TOOLS);
    let text = std::fs::read_to_string(&place).unwrap();
    std::fs::write(&place, text.replace("/home/dev/w/plain", folder.to_str().unwrap())).unwrap();
    let refused = speak(&machine, &["send", "hello"], TOOLS);
    assert!(refused.err.contains(&resume), "{refused:?}");
}

#[test]
fn an_agent_without_a_way_in_refuses_and_says_where_it_runs() {
    let machine = Machine::furnished();
    machine.write("note", "from a file\n");
    let agent = Agent::start(&machine, TOOLS, machine.home());
    for command in SPEAKING {
        let refused = speak(&machine, command, TOOLS);
        assert_eq!(refused.code, Some(7), "{command:?}: {refused:?}");
        assert!(refused.err.contains("claude-code offers no way in"), "{command:?}: {refused:?}");
        let place = format!("where it runs, in process {}", agent.pid());
        assert!(refused.err.contains(&place), "{command:?}: {refused:?}");
        assert!(refused.err.contains(&format!("agentctl stop {TOOLS}")), "{command:?}: {refused:?}");
        assert!(!refused.err.contains("agentctl attach"), "it is in no pane: {refused:?}");
    }
    // The refusal of the next command does not send the user back either.
    let resumed = machine.run(&["resume", TOOLS, "more"]);
    assert_eq!(resumed.code, Some(7), "{resumed:?}");
    assert!(resumed.err.contains(&format!("agentctl stop {TOOLS}")), "{resumed:?}");
    assert!(!resumed.err.contains("agentctl send"), "{resumed:?}");
    let list = machine.json(&["list", "--json"]);
    assert_eq!(list["sessions"][0]["pid"], agent.pid(), "it lives on");
}

#[test]
fn what_cannot_be_said_is_refused_before_anybody_is_asked() {
    let machine = Machine::furnished();
    for (arguments, code, words) in [
        (&["send", TOOLS, ""][..], 2, "the prompt is empty"),
        (&["send", TOOLS], 2, "MESSAGE"),
        (&["send", TOOLS, "x", "--file", "y"], 2, "cannot be used with"),
        (&["send", TOOLS, "--file", "/nowhere/at/all"], 2, "/nowhere/at/all"),
        (&["answer", TOOLS, ""], 2, "TEXT"),
        (&["answer", TOOLS], 2, "TEXT"),
        (&["send", "no-such-session", "x"], 3, "no-such-session"),
        (&["approve", "no-such-session"], 3, "no-such-session"),
    ] {
        let refused = machine.run(arguments);
        assert_eq!(refused.code, Some(code), "{arguments:?}: {refused:?}");
        assert!(refused.err.contains(words), "{arguments:?}: {refused:?}");
    }
}

/// An agent's own shell runs `agentctl`: whatever told it to do so, the session goes on.
#[test]
fn a_session_neither_stops_nor_interrupts_nor_answers_itself() {
    use std::os::unix::process::CommandExt;
    let machine = Machine::furnished();
    let file = |name: &str| machine.home().join(name);
    let agentctl = machine.command(&[]).get_program().to_string_lossy().into_owned();
    let tries = ["stop", "interrupt", "approve", "stop --force"].map(|verb| {
        let (verb, flags) = verb.split_once(' ').unwrap_or((verb, ""));
        format!("{agentctl} {verb} {TOOLS} {flags} >>out 2>&1; echo $? >>codes; ")
    });
    let script = format!("while [ ! -e go ]; do sleep 0.02; done; {} sleep 600", tries.concat());
    let mut agent = std::process::Command::new("sh");
    agent.arg0("claude").args(["-c", &script]).env_clear().current_dir(machine.home());
    agent.env("HOME", machine.home()).env("PATH", "/usr/bin:/bin").env("AGENTCTL_NO_DAEMON", "1");
    let mut agent = agent.spawn().unwrap();
    machine::agent::note(&machine, agent.id(), TOOLS, "/home/dev/w/plain", r#""status":"busy""#);
    std::fs::write(file("go"), "").unwrap();
    let codes = agentctl_testkit::until(std::time::Duration::from_mins(1), "the exit codes", || {
        let codes = std::fs::read_to_string(file("codes")).unwrap_or_default();
        (codes.lines().count() == tries.len()).then_some(codes)
    });
    let said = std::fs::read_to_string(file("out")).unwrap();
    assert_eq!(codes.lines().collect::<Vec<_>>(), ["7"; 4], "{said}");
    assert_eq!(said.matches("may not steer the session itself").count(), 4, "{said}");
    assert!(agent.try_wait().unwrap().is_none(), "it lives on");
    // Somebody else may.
    let stopped = machine.run(&["stop", TOOLS]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    let _ = agent.kill();
    let _ = agent.wait();
}
