//! Live processes that look like agents: copies of this program with the agent's name, arguments and registry file. They
//! do nothing until their standard input is closed.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::corpus::claude::registry_entry;
use crate::corpus::{Manifest, Row};

/// The variable that tells a copy of this program to act as an agent, because its arguments are the agent's.
pub(crate) const MARK: &str = "XTASK_STAND_IN";

/// Acts as the agent: waits for the end of standard input, or plays the part that a launch is measured by.
pub(crate) fn run_as_agent() {
    if super::launch::play() || super::held::play() {
        return;
    }
    let mut rest = Vec::new();
    // An error ends the stand-in too.
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

/// All stand-ins. When dropped, they end and their registry files are removed.
pub(crate) struct StandIns {
    pub(crate) all: Vec<StandIn>,
    program: PathBuf,
    // This field is dropped after the processes that run from the directory.
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

    /// Starts a new process for the same session.
    pub(crate) fn restart(&mut self, which: usize, home: &Path, now_ms: i64) -> anyhow::Result<()> {
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

    /// Writes a status into its registry file.
    pub(crate) fn set_status(&mut self, status: &str) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now().as_millisecond();
        self.entry["status"] = status.into();
        self.entry["updatedAt"] = now.into();
        self.entry["statusUpdatedAt"] = now.into();
        self.write_entry()
    }

    /// Writes the last record of its turn and then the registry file, in the order of the agent.
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
        self.set_status("idle")
    }

    /// Kills the process as `kill -9` does: its registry file stays.
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
        // The process ends by itself now, and `drop` cannot report an error.
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.registry);
    }
}

/// Field 22 of `/proc/PID/stat`. The second field is a name in parentheses that may itself contain parentheses and spaces.
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
