//! What an agent itself reported when its launch went wrong, from the output that its runner keeps.

use agentctl_adapters::Control;
use agentctl_model::{FirstWords, Surveyed};

use crate::Fleet;
use crate::keep::launches::LaunchFolder;

/// How much of an agent's output is read for its error message.
pub(crate) const WORDS: u64 = 1 << 20;

impl Fleet {
    /// Returns why the newest launch of a session went wrong, as the agent reported it. If it printed no error, its
    /// records count.
    pub fn complaint(&self, session: &Surveyed) -> Option<String> {
        let recorded = session.session.status_detail.clone();
        let (_, control) = self.control_of(session).ok()?;
        match self.launch_of(session) {
            Some(folder) => complaint(&folder, control, recorded),
            None => recorded,
        }
    }
}

pub(crate) fn complaint(
    folder: &LaunchFolder,
    control: &dyn Control,
    recorded: Option<String>,
) -> Option<String> {
    let (stdout, stderr) = (folder.output("stdout", WORDS), folder.output("stderr", WORDS));
    let said = control.complaint(FirstWords { stdout: &stdout, stderr: &stderr });
    let words = said.or(recorded).unwrap_or_else(|| last_lines(&stderr));
    Some(words).filter(|words| !words.trim().is_empty())
}

/// The last lines that an agent wrote to its stderr.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
