//! Live processes that look like agents: a copy of this program under the agent's name, with the agent's arguments
//! and registry file. It does nothing until its standard input closes.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::corpus::claude::registry_entry;
use crate::corpus::{Manifest, Row};

/// Set for a copy of this program that is to play an agent, because its arguments are the agent's.
pub(crate) const MARK: &str = "XTASK_STAND_IN";

/// The agent's part: wait for the end of standard input, or what a launch is measured by.
pub(crate) fn play() {
    if super::launch::play() {
        return;
    }
    let mut rest = Vec::new();
    // Whatever ends the reading, the show is over.
    let _ = std::io::stdin().lock().read_to_end(&mut rest);
}

/// One live stand-in.
pub(crate) struct StandIn {
    pub(crate) session: String,
    pub(crate) pid: u32,
    row: Row,
    child: Child,
    registry: PathBuf,
    entry: Value,
}

/// All of them; they end and their registry files go when this goes.
pub(crate) struct StandIns {
    pub(crate) all: Vec<StandIn>,
    program: PathBuf,
    // Dropped after the processes that run from it.
    _folder: TempDir,
}

impl StandIns {
    /// Starts `count` Claude Code stand-ins for the newest sessions of a corpus.
    pub(crate) fn start(home: &Path, manifest: &Manifest, count: usize, now_ms: i64) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let program = folder.path().join("claude");
        std::fs::copy(std::env::current_exe()?, &program).context("cannot copy this program")?;
        let mut rows: Vec<&Row> = manifest.rows.iter().filter(|row| row.adapter == "claude-code").collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.updated_ms));
        if rows.len() < count {
            bail!("{count} live sessions asked for, but the corpus has only {}", rows.len());
        }
        let mut started = Self { all: Vec::with_capacity(count), program, _folder: folder };
        for row in &rows[..count] {
            started.all.push(StandIn::start(home, &started.program, row, now_ms)?);
        }
        Ok(started)
    }

    /// The same session in a new process.
    pub(crate) fn again(&mut self, which: usize, home: &Path, now_ms: i64) -> anyhow::Result<()> {
        let row = self.all[which].row.clone();
        self.all[which] = StandIn::start(home, &self.program, &row, now_ms)?;
        Ok(())
    }
}

impl StandIn {
    fn start(home: &Path, program: &Path, row: &Row, now_ms: i64) -> anyhow::Result<Self> {
        let child = Command::new(program)
            .arg0("claude")
            .args(["--session-id", &row.id, "--permission-mode", "default"])
            .env_clear()
            .env("HOME", home)
            .env(MARK, "1")
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start a stand-in")?;
        let pid = child.id();
        let registry = home.join(format!(".claude/sessions/{pid}.json"));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let born = start_time(&stat).with_context(|| format!("/proc/{pid}/stat has no start time"))?;
        let entry = registry_entry(u64::from(pid), row, born, now_ms, &format!("stand-in-{pid}"));
        let stand_in = Self { session: row.id.clone(), pid, row: row.clone(), child, registry, entry };
        stand_in.write_entry()?;
        Ok(stand_in)
    }

    fn write_entry(&self) -> anyhow::Result<()> {
        std::fs::write(&self.registry, self.entry.to_string())
            .with_context(|| format!("cannot write {}", self.registry.display()))
    }

    /// What the registry says of it from now on.
    pub(crate) fn say(&mut self, status: &str) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now().as_millisecond();
        self.entry["status"] = status.into();
        self.entry["updatedAt"] = now.into();
        self.entry["statusUpdatedAt"] = now.into();
        self.write_entry()
    }

    /// The last record of its turn, then the word of the registry, as the agent does.
    pub(crate) fn finish_turn(&mut self, home: &Path) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now();
        let reply = json!({"role": "assistant", "model": "m", "id": format!("msg_{}", now.as_nanosecond()),
            "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}});
        let record = json!({"type": "assistant", "uuid": format!("{:032x}", now.as_nanosecond()), "sessionId": self.session,
            "cwd": self.row.expected["cwd"], "timestamp": now.to_string(), "message": reply});
        let file = transcript_of(home, &self.session)?;
        let mut file = std::fs::OpenOptions::new().append(true).open(file)?;
        writeln!(file, "{record}")?;
        self.say("idle")
    }

    /// As by `kill -9`: its registry file stays.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

fn transcript_of(home: &Path, session: &str) -> anyhow::Result<PathBuf> {
    let name = format!("{session}.jsonl");
    let folders = std::fs::read_dir(home.join(".claude/projects"))?.flatten();
    let mut files = folders.map(|folder| folder.path().join(&name));
    files.find(|file| file.exists()).with_context(|| format!("no transcript of {session}"))
}

impl Drop for StandIn {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The process ends by itself now; there is nobody to tell if it does not.
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.registry);
    }
}

/// Field 22 of `/proc/PID/stat`. The second field is a name in brackets that may itself hold brackets and spaces.
fn start_time(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)
}

#[cfg(test)]
mod tests {
    use super::start_time;

    #[test]
    fn the_start_time_is_found_behind_an_odd_name() {
        let fields: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        let stat = format!("42 (odd) name) {}", fields.join(" "));
        assert_eq!(start_time(&stat), Some("22"));
        assert_eq!(start_time("42"), None);
    }
}
