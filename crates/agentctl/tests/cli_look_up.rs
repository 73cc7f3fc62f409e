//! Finding one session costs a bounded part of what is stored, whatever is to be done with it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run processes and write files")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use agentctl_testkit::TestHome;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

const ID: &str = "c2000000-1111-4111-8111-111111111111";
const LARGE: u64 = 32 << 20;
/// The most that a look-up may read of it.
const BOUND: u64 = 1 << 20;

/// A conversation of the size of a long day, among others.
fn with_a_large_transcript() -> TestHome {
    let home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    let recorded =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/claude-code/tool-calls/.claude/projects/-home-dev-w-plain/22222222-2222-4222-8222-222222222222.jsonl");
    let projects = home.path().join(".claude/projects/-w");
    fs::create_dir_all(&projects).unwrap();
    let text = fs::read(&recorded).unwrap();
    let path = projects.join(format!("{ID}.jsonl"));
    let mut large = File::create(&path).unwrap();
    while large.metadata().unwrap().len() < LARGE {
        large.write_all(&text).unwrap();
    }
    for other in 0..100 {
        let other = projects.join(format!("d3000000-2222-4222-8222-{other:012}.jsonl"));
        fs::write(other, &text).unwrap();
    }
    home
}

/// Every byte that the command read from any file, as counted by the kernel.
fn bytes_read(home: &TestHome, arguments: &[&str]) -> u64 {
    let mut command = home.agentctl_command(arguments);
    let out = File::create(home.path().join("out")).unwrap();
    let child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
    let pid = Pid::from_child(&child);
    // The process is not reaped before its counter was read.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    let counts = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.code().is_some(), "{output:?}");
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    read.parse().unwrap()
}

/// Every command that looks a session up and needs no totals.
const COMMANDS: [&[&str]; 10] = [
    &["stop", ID],
    &["stop", "c2000000"],
    &["peek", ID],
    &["logs", ID],
    &["resume", ID, "go on"],
    &["send", ID, "go on"],
    &["approve", ID],
    &["explain", ID],
    &["attach", ID],
    &["wait", ID],
];

#[test]
fn whoever_acts_on_a_session_or_looks_at_its_end_does_not_read_all_of_it() {
    let home = with_a_large_transcript();
    // The process table and the settings: what every command reads, and nothing of any transcript.
    let anyway = bytes_read(&home, &["list"]);
    let whole = bytes_read(&home, &["status", ID]);
    assert!(whole > LARGE, "token totals need every line, so that the count is seen to count: {whole}");
    for command in COMMANDS {
        let read = bytes_read(&home, command);
        assert!(read < anyway + BOUND, "{command:?} read {read} bytes, {anyway} of them anyway");
    }
}
