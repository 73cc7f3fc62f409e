//! Running git: with the user's settings and hooks, without what a surrounding git has put into the environment.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use agentctl_model::text;

use super::WorktreeError;

/// What a git that called us (a hook, an alias) has set for itself: it would redirect ours to another repository.
const FOREIGN: [&str; 9] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
];

/// What git printed; an error in git's own words when it failed.
pub(super) fn git(folder: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, WorktreeError> {
    git_set(folder, &Settings::new(), arguments)
}

/// Variables of git's own.
pub(super) type Settings = Vec<(&'static str, OsString)>;

/// The same with these variables.
pub(super) fn git_set(
    folder: &Path,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let output = run(folder, settings, arguments)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let doing =
        arguments.iter().take(2).map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    Err(WorktreeError::Git { doing, words: complaint(&output) })
}

/// What git printed; `None` when its answer is no.
pub(super) fn git_says(folder: &Path, arguments: &[&str]) -> Result<Option<Vec<u8>>, WorktreeError> {
    let output = run(folder, &Settings::new(), arguments)?;
    Ok(output.status.success().then_some(output.stdout))
}

#[expect(clippy::disallowed_methods, reason = "the one place that runs git")]
fn run(folder: &Path, settings: &Settings, arguments: &[impl AsRef<OsStr>]) -> Result<Output, WorktreeError> {
    let mut command = Command::new("git");
    // A repository may name a program that watches its files: looking at one must not run it.
    command.args(["-c", "core.fsmonitor=false"]);
    command.arg("-C").arg(folder).args(arguments).stdin(Stdio::null());
    for name in FOREIGN {
        command.env_remove(name);
    }
    // Looking must not write: an index refreshed by us is a lock in the way of an agent. Nobody is there to type a password.
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    command.output().map_err(WorktreeError::NoGit)
}

/// The last line that says what went wrong.
fn complaint(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    let mut lines = words.lines().map(text::one_line).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let fatal = lines.iter().position(|line| line.starts_with("fatal: ") || line.starts_with("error: "));
    let line = fatal.map(|index| lines.swap_remove(index)).or_else(|| lines.pop());
    let line = line.map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned());
    line.unwrap_or_else(|| format!("ended with {}", output.status))
}

pub(super) fn text_of(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end_matches(['\n', '\0']).to_owned()
}

/// A path is bytes; only git's line break is not part of it.
pub(super) fn path_text(answer: &[u8]) -> &OsStr {
    OsStr::from_bytes(answer.strip_suffix(b"\n").unwrap_or(answer))
}
