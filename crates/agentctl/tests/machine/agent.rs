//! A process that Claude Code's registry names as the carrier of a session.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Machine;

pub(crate) struct Agent {
    pub(crate) child: Child,
    id: String,
    start: String,
    cwd: String,
}

impl Agent {
    /// At work on the session `id` in `cwd`.
    pub(crate) fn start(machine: &Machine, id: &str, cwd: &Path) -> Self {
        let child = Command::new("sleep")
            .arg0("claude")
            .arg("600")
            .env_clear()
            .env("HOME", machine.home())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self::known(machine, child, id, cwd)
    }

    fn known(machine: &Machine, child: Child, id: &str, cwd: &Path) -> Self {
        let fields = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let start = fields.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().to_owned();
        let agent = Self { child, id: id.to_owned(), start, cwd: cwd.to_str().unwrap().to_owned() };
        agent.says(machine, r#""status":"busy""#);
        agent
    }

    /// What it says of itself from now on. The note is replaced whole: a half-written one is another test.
    pub(crate) fn says(&self, machine: &Machine, words: &str) {
        let (pid, id, start, cwd) = (self.child.id(), &self.id, &self.start, &self.cwd);
        let note = format!(
            r#"{{"pid":{pid},"sessionId":"{id}","cwd":"{cwd}","procStart":"{start}","kind":"interactive",{words}}}"#
        );
        machine.write(&format!(".claude/sessions/{pid}.json.new"), &note);
        let place = |name: &str| machine.home().join(".claude/sessions").join(name);
        std::fs::rename(place(&format!("{pid}.json.new")), place(&format!("{pid}.json"))).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
