//! A machine of its own for one test: an empty or furnished HOME, and the built binary in it.
#![allow(clippy::disallowed_methods, reason = "tests run the binary")]
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]
#![allow(dead_code, reason = "each test file uses a part of it")]

#[cfg(target_os = "linux")]
pub(crate) mod agent;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) struct Machine {
    home: tempfile::TempDir,
}

impl AsRef<Path> for Machine {
    fn as_ref(&self) -> &Path {
        self.home()
    }
}

impl Machine {
    pub(crate) fn empty() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// With five recorded sessions of Claude Code, one of them a sub-agent. No process runs them.
    pub(crate) fn furnished() -> Self {
        let machine = Self::empty();
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home");
        copy(&recorded, machine.home());
        machine
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn transcript(&self, folder: &str, id: &str) -> PathBuf {
        self.home().join(format!(".claude/projects/{folder}/{id}.jsonl"))
    }

    /// The folder in which DIED worked, created again in an existing location.
    pub(crate) fn folder_of_died(&self) -> String {
        let folder = self.home().join("w/sig").to_str().unwrap().to_owned();
        std::fs::create_dir_all(&folder).unwrap();
        let transcript = self.transcript("-home-dev-w-sig", DIED);
        let text = std::fs::read_to_string(&transcript).unwrap();
        std::fs::write(&transcript, text.replace("/home/dev/w/sig", &folder)).unwrap();
        folder
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(agentctl_testkit::tested(env!("CARGO_BIN_EXE_agentctl")));
        command.args(args).env_clear().env("HOME", self.home()).env("TZ", "UTC").env("PATH", "/nowhere");
        // No daemon is started, so nothing outlives the test.
        command.env("AGENTCTL_NO_DAEMON", "1");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(&self.command(args).output().unwrap())
    }

    /// The JSON that a successful command prints.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// The JSON that a command prints which ends with this code.
    pub(crate) fn json_of(&self, args: &[&str], code: i32) -> Value {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(code), "{ended:?}");
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }

    /// The ids of a list, in its order.
    pub(crate) fn ids(&self, args: &[&str]) -> Vec<String> {
        let ended = self.run(&[&["list", "-q", "--since", "all"], args].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out.lines().map(str::to_owned).collect()
    }
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }
}

/// The exit code of a process that must end by itself; one that does not is ended and fails the test.
pub(crate) fn code_of(mut child: Child) -> Option<i32> {
    let deadline = Instant::now() + Duration::from_mins(1);
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("it did not end by itself");
}

/// Presses Ctrl-C until it is heard, as a person would: in its first moments a process can miss one.
pub(crate) fn interrupted(mut child: Child) -> Option<i32> {
    let pid = rustix::process::Pid::from_child(&child);
    let deadline = Instant::now() + Duration::from_mins(1);
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    code_of(child)
}

pub(crate) const TOOLS: &str = "22222222-2222-4222-8222-222222222222";
pub(crate) const DIED: &str = "a0000000-0000-4000-8000-000000000023";
pub(crate) const INTERRUPTED: &str = "a0000000-0000-4000-8000-000000000021";
pub(crate) const PARENT: &str = "60000000-0000-4000-8000-000000000002";
pub(crate) const SUBAGENT: &str = "a8ac1e225de96b5a6";

pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
