//! How commands end: exit codes, closed pipes, Ctrl-C, and a session that ends while it is followed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and wait for them")]

mod machine;

use machine::{DIED, Ended, INTERRUPTED, Machine, TOOLS};

#[test]
fn wrong_usage_is_two() {
    let machine = Machine::furnished();
    for args in [
        &["list", "--no-such-flag"][..],
        &["lst"],
        &["status"],
        &["status", ""],
        &["list", "--adapter", "clade-code"],
        &["list", "--since", "yesterday"],
        &["list", "--status", "working"],
        &["list", "-q", "--json"],
        &["list", "-q", "--watch"],
        &["completions", "tcsh"],
    ] {
        let ended = machine.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.err.starts_with("error: ") && ended.out.is_empty(), "{args:?}: {ended:?}");
    }
    assert!(machine.run(&["lst"]).err.contains("'list'"));
    assert!(machine.run(&["list", "--adapter", "clade-code"]).err.contains("claude-code"));
}

#[test]
fn not_found_is_three_and_says_where_to_look() {
    let machine = Machine::furnished();
    for command in ["status", "explain", "peek", "logs"] {
        let ended = machine.run(&[command, "nobody"]);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(ended.err.contains("error: no session") && ended.err.contains("hint: "), "{ended:?}");
    }
    assert_eq!(machine.run(&["status", TOOLS, "--cwd", "/elsewhere"]).code, Some(3));
    let elsewhere = machine.run(&["status", TOOLS, "--root", "/elsewhere"]);
    assert_eq!(elsewhere.code, Some(3));
    assert!(elsewhere.err.contains("~/.claude"), "{elsewhere:?}");
}

#[test]
fn ambiguous_is_four_and_names_the_candidates() {
    let machine = Machine::furnished();
    let ended = machine.run(&["status", "a0"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.err.contains(DIED) && ended.err.contains(INTERRUPTED), "{ended:?}");
    assert!(!ended.err.contains("ROOT"), "one root tells nobody apart: {ended:?}");
    assert!(ended.out.is_empty());
    let root = machine.home().join(".claude");
    let narrowed = ["status", DIED, "--root", root.to_str().unwrap(), "--cwd", "/home/dev/w/sig"];
    assert_eq!(machine.run(&narrowed).code, Some(0));
}

#[test]
fn silence_is_six_and_never_not_found() {
    let machine = Machine::empty();
    machine.write(".claude/projects", "not a folder");
    let ended = machine.run(&["status", "nobody"]);
    assert_eq!(ended.code, Some(6), "{ended:?}");
    let lenient = machine.run(&["list", "-a"]);
    assert_eq!(lenient.code, Some(0));
    assert!(lenient.err.starts_with("warning: claude-code at ~/.claude"), "{lenient:?}");
    let strict = machine.run(&["list", "-a", "--strict", "--json"]);
    assert_eq!(strict.code, Some(6), "{strict:?}");
    assert!(strict.out.contains("\"coverage\":\"partial\""), "{strict:?}");
    let doctor = machine.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
}

#[test]
fn a_closed_pipe_is_quiet_and_fine() {
    let machine = Machine::furnished();
    for args in [
        &["list", "--since", "all"][..],
        &["list", "--since", "all", "--json"],
        &["status", TOOLS],
        &["logs", TOOLS, "--json"],
        &["list", "--watch"],
        &["schema"],
        &["man"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ended = Ended::of(&machine.command(args).stdout(writer).output().unwrap());
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let machine = Machine::furnished();
    let ended = Ended::of(&machine.command(&["list", "--since", "all"]).stdout(full).output().unwrap());
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("cannot write the output"), "{ended:?}");
}

/// Commands that go on while a session lives.
#[cfg(target_os = "linux")]
mod live {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::path::Path;
    use std::process::{Child, Stdio};

    use super::machine::agent::Agent;
    use super::machine::{Machine, TOOLS, code_of};

    fn at_work(machine: &Machine) -> Agent {
        Agent::start(machine, TOOLS, Path::new("/home/dev/w/plain"))
    }

    fn follow(machine: &Machine, args: &[&str]) -> (Child, BufReader<impl Read + use<>>) {
        let mut child = machine.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (child, out)
    }

    #[test]
    fn a_live_session_is_listed_and_followed_until_its_process_is_gone() {
        let machine = Machine::furnished();
        let agent = at_work(&machine);
        let listed = machine.json(&["list", "--json"]);
        assert_eq!(listed["sessions"][0]["status"], "running", "{listed:#}");
        assert_eq!(listed["sessions"][0]["pid"], agent.pid());

        let (logs, mut out) = follow(&machine, &["logs", "-f", TOOLS, "-n", "1", "--json"]);
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(line.contains("slow reply"), "{line}");
        let place = machine.transcript("-home-dev-w-plain", TOOLS);
        let text = std::fs::read_to_string(&place).unwrap();
        let said = text.lines().rev().find(|line| line.contains("slow reply")).unwrap();
        let mut file = std::fs::File::options().append(true).open(&place).unwrap();
        writeln!(file, "{}", said.replace("slow reply", "a last word")).unwrap();
        line.clear();
        out.read_line(&mut line).unwrap();
        assert!(line.contains("a last word"), "{line}");
        drop(agent);
        assert_eq!(code_of(logs), Some(0));
    }

    #[test]
    fn ctrl_c_ends_a_watch_and_a_follow_with_130() {
        let machine = Machine::furnished();
        let _agent = at_work(&machine);
        for args in [&["logs", "-f", TOOLS][..], &["list", "--watch"]] {
            let (child, mut out) = follow(&machine, args);
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
            assert_eq!(code_of(child), Some(130), "{args:?}");
        }
    }

    #[test]
    fn a_reader_that_leaves_ends_a_follow_at_once() {
        let machine = Machine::furnished();
        let _agent = at_work(&machine);
        for args in [&["logs", "-f", TOOLS][..], &["list", "--watch"]] {
            let (child, mut out) = follow(&machine, args);
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            drop(out);
            assert_eq!(code_of(child), Some(0), "{args:?}");
        }
    }
}
