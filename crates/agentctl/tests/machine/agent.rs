//! A process that Claude Code's registry names as the owner of a session.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(crate) struct Agent {
    pub(crate) child: Child,
    id: String,
    cwd: String,
}

impl Agent {
    /// Works on the session `id` in `cwd`.
    pub(crate) fn start(home: &impl AsRef<Path>, id: &str, cwd: &Path) -> Self {
        let child = Command::new("sleep")
            .arg0("claude")
            .arg("3600")
            .env_clear()
            .env("HOME", home.as_ref())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self::of(child, home, id, cwd)
    }

    /// This process works on it.
    pub(crate) fn of(child: Child, home: &impl AsRef<Path>, id: &str, cwd: &Path) -> Self {
        let agent = Self { child, id: id.to_owned(), cwd: cwd.to_str().unwrap().to_owned() };
        agent.says(home, r#""status":"busy""#);
        agent
    }

    /// Changes what it reports about itself.
    pub(crate) fn says(&self, home: &impl AsRef<Path>, words: &str) {
        note(home, self.child.id(), &self.id, &self.cwd, words);
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
pub(crate) fn note(home: &impl AsRef<Path>, pid: u32, id: &str, cwd: &str, words: &str) {
    let fields = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = fields.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let note = format!(
        r#"{{"pid":{pid},"sessionId":"{id}","cwd":"{cwd}","procStart":"{start}","kind":"interactive",{words}}}"#
    );
    let folder = home.as_ref().join(".claude/sessions");
    fs::create_dir_all(&folder).unwrap();
    let place = |name: &str| folder.join(name);
    fs::write(place(&format!("{pid}.json.new")), note).unwrap();
    fs::rename(place(&format!("{pid}.json.new")), place(&format!("{pid}.json"))).unwrap();
}
