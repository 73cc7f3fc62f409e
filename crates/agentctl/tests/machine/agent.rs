//! A process that Claude Code's registry names as the owner of a session.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Machine;

pub(crate) struct Agent {
    pub(crate) child: Child,
    id: String,
    cwd: String,
}

impl Agent {
    /// Works on the session `id` in `cwd`.
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
        let agent = Self { child, id: id.to_owned(), cwd: cwd.to_str().unwrap().to_owned() };
        agent.says(machine, r#""status":"busy""#);
        agent
    }

    /// Changes what it reports about itself.
    pub(crate) fn says(&self, machine: &Machine, words: &str) {
        note(machine, self.child.id(), &self.id, &self.cwd, words);
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

/// Writes the registry's note that this process owns the session. The note is replaced as a whole: a
/// half-written one is another test.
pub(crate) fn note(machine: &Machine, pid: u32, id: &str, cwd: &str, words: &str) {
    let fields = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = fields.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let note = format!(
        r#"{{"pid":{pid},"sessionId":"{id}","cwd":"{cwd}","procStart":"{start}","kind":"interactive",{words}}}"#
    );
    machine.write(&format!(".claude/sessions/{pid}.json.new"), &note);
    let place = |name: &str| machine.home().join(".claude/sessions").join(name);
    std::fs::rename(place(&format!("{pid}.json.new")), place(&format!("{pid}.json"))).unwrap();
}
