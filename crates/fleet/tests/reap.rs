//! Processes that outlived their session are ended, and no others: real processes, seen by the real kernel.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "tests start what is looked at")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentctl_adapters::Root;
use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_fleet::{Fleet, Orphan, Reaped, Source};
use agentctl_testkit::{new_uuid, until};

const SOON: Duration = Duration::from_mins(1);

/// A child process that is ended with the test.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A tool of a session that no process runs. When it is sent a line, it becomes another program.
fn left_tool(home: &std::path::Path) -> Kept {
    let mut command = Command::new("sh");
    command.args(["-c", "read line; exec sleep 86400"]).env_clear().env("HOME", home);
    command.env("PATH", "/usr/bin:/bin").env("CLAUDE_CODE_SESSION_ID", new_uuid());
    Kept(command.stdin(Stdio::piped()).spawn().unwrap())
}

#[test]
fn a_process_that_became_another_one_while_somebody_thought_about_it_is_not_signalled() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join(".claude");
    std::fs::create_dir_all(root.join("projects")).unwrap();
    let source = Source { adapter: &ClaudeCode, root: Root::at(root), timeout: SOON };
    let fleet = Fleet::new(vec![source], agentctl_process::system());
    let mut tool = left_tool(home.path());
    let orphan_as = |program: &str| -> Orphan {
        until(SOON, "the orphan", || {
            fleet.orphans().into_iter().find(|orphan| orphan.entry.command.ends_with(program))
        })
    };
    let listed = orphan_as("sh");
    assert_eq!(listed.process.pid, tool.0.id());

    writeln!(tool.0.stdin.as_mut().unwrap()).unwrap();
    let now = orphan_as("sleep");
    assert_eq!(now.process, listed.process, "to the kernel it is the same process");
    assert_eq!(fleet.reap(&listed), Reaped::default());
    assert!(tool.0.try_wait().unwrap().is_none(), "it was ended without anybody having agreed to it");

    let reaped = fleet.reap(&now);
    assert_eq!((reaped.ended.len(), reaped.survived.len()), (1, 0), "{reaped:?}");
    assert!(tool.0.wait().unwrap().code().is_none(), "ended by a signal");
}
