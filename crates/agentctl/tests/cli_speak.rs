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
