//! `wait`: what it waits for, what it returns, and how it is ended.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use agentctl_testkit::Pty;
use machine::agent::Agent;
use machine::{DIED, INTERRUPTED, Machine, PARENT, TOOLS, interrupted};
use serde_json::Value;

fn at_work(machine: &Machine, id: &str) -> Agent {
    Agent::start(machine, id, Path::new("/home/dev/w/plain"))
}

/// Runs beside the test; its output is read once it has ended.
fn start(machine: &Machine, args: &[&str]) -> Child {
    machine.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The same on a terminal, where it draws a line after each survey that did not end the wait: `waiting 3s:
/// 22222222 ● running`.
fn start_on_terminal(machine: &Machine, args: &[&str]) -> Pty {
    let mut command = machine.command(args);
    command.env("TERM", "xterm").env("PATH", std::env::var_os("PATH").unwrap()).current_dir("/");
    Pty::spawn(&command)
}

/// Checks that it has surveyed, saw exactly these sessions like this, and continues.
fn goes_on_seeing(terminal: &mut Pty, sessions: &str) {
    terminal.wait_for(&format!("s: {sessions}"));
    assert!(terminal.try_wait().is_none(), "it ended: {}", terminal.screen_text());
}

fn code_on(terminal: &mut Pty) -> Option<i32> {
    agentctl_testkit::until(Duration::from_mins(1), "the end", || terminal.try_wait()).code()
}

#[test]
fn a_stopped_session_needs_no_waiting_and_its_outcome_is_the_exit_code() {
    let machine = Machine::furnished();
    for (id, code) in [(TOOLS, 0), (PARENT, 0), (DIED, 1), (INTERRUPTED, 1)] {
        let ended = machine.run(&["wait", id]);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.out.starts_with(id) && ended.err.is_empty(), "{ended:?}");
    }
    let worst = machine.run(&["wait", TOOLS, DIED, "--json"]);
    assert_eq!(worst.code, Some(1));
    let worst: Value = serde_json::from_str(&worst.out).unwrap();
    assert_eq!((worst["reached"].as_array().unwrap().len(), worst["timedOut"].as_bool()), (2, Some(false)));
    assert_eq!(worst["reached"][1]["outcome"], "died");
}

#[test]
fn it_ends_when_the_turn_does_and_not_when_a_person_is_asked() {
    let machine = Machine::furnished();
    let agent = at_work(&machine, TOOLS);
    let mut plain = start_on_terminal(&machine, &["wait", TOOLS]);
    goes_on_seeing(&mut plain, "22222222 ● running");
    let asked = start(&machine, &["wait", TOOLS, "--until", "waiting", "--json"]);
    agent.says(&machine, r#""status":"waiting","waitingFor":"permission prompt""#);
    let output = asked.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let asked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(asked["reached"][0]["status"], "waiting");
    goes_on_seeing(&mut plain, "22222222 ◐ waiting");
    agent.says(&machine, r#""status":"idle""#);
    assert_eq!(code_on(&mut plain), Some(0));
}

#[test]
fn a_process_that_dies_with_its_turn_open_is_a_failure() {
    let machine = Machine::furnished();
    let agent = at_work(&machine, DIED);
    let mut waiting = start_on_terminal(&machine, &["wait", DIED, "--until", "stopped"]);
    agent.says(&machine, r#""status":"idle""#);
    goes_on_seeing(&mut waiting, "a0000000 ○ idle");
    drop(agent);
    assert_eq!(code_on(&mut waiting), Some(1));
}

#[test]
fn all_are_waited_for_unless_any_is_enough() {
    let machine = Machine::furnished();
    let (first, second) = (at_work(&machine, TOOLS), at_work(&machine, PARENT));
    let any = start(&machine, &["wait", TOOLS, PARENT, "--any", "--json"]);
    let mut all = start_on_terminal(&machine, &["wait", TOOLS, PARENT, TOOLS]);
    goes_on_seeing(&mut all, "22222222 ● running");
    first.says(&machine, r#""status":"idle""#);
    let output = any.wait_with_output().unwrap();
    let any: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), any["reached"][0]["id"].as_str()), (Some(0), Some(TOOLS)));
    assert_eq!(any["pending"][0]["id"], PARENT);
    // The first session is no longer waited for.
    goes_on_seeing(&mut all, "60000000 ● running");
    second.says(&machine, r#""status":"idle""#);
    assert_eq!(code_on(&mut all), Some(0));
}

#[test]
fn a_timeout_is_124_and_ctrl_c_is_130() {
    let machine = Machine::furnished();
    let _agent = at_work(&machine, TOOLS);
    let ended = machine.run(&["wait", TOOLS, "--timeout", "0s"]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    assert!(ended.out.contains("● running") && ended.err.contains("the time is up"), "{ended:?}");
    let ended = machine.run(&["wait", TOOLS, "--timeout", "600ms", "--json"]);
    assert_eq!(ended.code, Some(124));
    let answer: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(
        (answer["timedOut"].as_bool(), answer["pending"][0]["id"].as_str()),
        (Some(true), Some(TOOLS))
    );
    assert_eq!(machine.run(&["wait", DIED, "--until", "running", "--timeout", "0s"]).code, Some(124));

    let waiting = start(&machine, &["wait", TOOLS]);
    // The handler is installed before anything is looked up: from then on the signal is ours.
    let status = format!("/proc/{}/status", waiting.id());
    let deadline = Instant::now() + Duration::from_mins(1);
    let catches_it = |text: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0
    };
    while !catches_it(&std::fs::read_to_string(&status).unwrap()) {
        assert!(Instant::now() < deadline, "it never listened");
    }
    assert_eq!(interrupted(waiting), Some(130));
}

#[test]
fn what_is_not_there_is_not_waited_for() {
    let machine = Machine::furnished();
    assert_eq!(machine.run(&["wait", "nobody"]).code, Some(3));
    assert_eq!(machine.run(&["wait", TOOLS, "nobody"]).code, Some(3));
    assert_eq!(machine.run(&["wait", "a0"]).code, Some(4));
    assert_eq!(machine.run(&["wait"]).code, Some(2));
    assert_eq!(machine.run(&["wait", TOOLS, "--until", "done"]).code, Some(2));
}

/// A source that cannot be read proves nothing: the wait continues, and ends when the source can be read
/// again.
#[test]
fn silence_ends_no_wait_and_a_person_sees_that_it_goes_on() {
    let machine = Machine::furnished();
    let agent = at_work(&machine, TOOLS);
    let mut terminal = start_on_terminal(&machine, &["wait", TOOLS]);
    goes_on_seeing(&mut terminal, "22222222 ● running");
    let (place, aside) = (machine.home().join(".claude/projects"), machine.home().join("aside"));
    std::fs::write(&aside, "not a folder").unwrap();
    // The two change places in one step, so that nobody sees that there is neither.
    let exchange = || {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &place, rustix::fs::CWD, &aside, swap).unwrap();
    };
    exchange();
    assert_eq!(machine.run(&["wait", DIED, "--timeout", "0s"]).code, Some(6));
    // The line is drawn after each survey: two seconds later there was one that could not read the source.
    let seconds = |screen: &str| {
        let (_, rest) = screen.split_once("waiting ")?;
        rest.split_once('s')?.0.parse::<u64>().ok()
    };
    // A line that is only half drawn tells no seconds.
    let before =
        agentctl_testkit::until(Duration::from_mins(1), "a line", || seconds(&terminal.screen_text()));
    agentctl_testkit::until_seen(Duration::from_mins(1), "two more seconds", || {
        let screen = terminal.screen_text();
        if seconds(&screen).is_some_and(|now| now >= before + 2) { Ok(()) } else { Err(screen) }
    });
    assert!(terminal.try_wait().is_none());
    exchange();
    agent.says(&machine, r#""status":"idle""#);
    assert_eq!(code_on(&mut terminal), Some(0));
    let screen = terminal.wait_for("○ idle");
    assert!(!screen.contains("waiting "), "the line is gone: {screen}");
}

#[test]
fn every_id_that_is_none_is_named_and_nothing_is_waited_for() {
    let machine = Machine::furnished();
    let _agent = at_work(&machine, TOOLS);
    let ended = machine.run(&["wait", "nope", TOOLS, "neither", "--timeout", "10m"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("`nope`") && ended.err.contains("`neither`"), "{ended:?}");
}
