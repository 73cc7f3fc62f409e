//! Live processes that look like agents: a copy of this program under the agent's name, with the agent's arguments
//! and registry file. It does nothing until its standard input closes.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::corpus::claude::registry_entry;
use crate::corpus::{Manifest, Row};

/// Set for a copy of this program that is to play an agent, because its arguments are the agent's.
pub(crate) const MARK: &str = "XTASK_STAND_IN";

/// The agent's part: wait for the end of standard input.
pub(crate) fn play() {
    let mut rest = Vec::new();
    // Whatever ends the reading, the show is over.
    let _ = std::io::stdin().lock().read_to_end(&mut rest);
}

/// One live stand-in.
pub(crate) struct StandIn {
    pub(crate) session: String,
    pub(crate) pid: u32,
    child: Child,
    registry: PathBuf,
}

/// All of them; they end and their registry files go when this goes.
pub(crate) struct StandIns {
    pub(crate) all: Vec<StandIn>,
    // Dropped after the processes that run from it.
    _program: TempDir,
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
        let mut started = Self { all: Vec::with_capacity(count), _program: folder };
        for row in &rows[..count] {
            started.all.push(StandIn::start(home, &program, row, now_ms)?);
        }
        Ok(started)
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
        let stand_in = Self { session: row.id.clone(), pid, child, registry };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let born = start_time(&stat).with_context(|| format!("/proc/{pid}/stat has no start time"))?;
        let entry = registry_entry(u64::from(pid), row, born, now_ms, &format!("stand-in-{pid}"));
        std::fs::write(&stand_in.registry, entry.to_string())
            .with_context(|| format!("cannot write {}", stand_in.registry.display()))?;
        Ok(stand_in)
    }
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
