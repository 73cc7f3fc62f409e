//! Runs git. For reading, git runs nothing that the repository names: no filter, hook, monitor, signature program,
//! helper or server. Only a checkout runs the user's own programs, and those of the repository once a person has agreed
//! to them.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agentctl_model::text;

use super::WorktreeError;
use super::config::{Config, DisabledPrograms};

/// Variables that a git process which called us (a hook, an alias) has set for itself. They would redirect our git to
/// another repository.
const FOREIGN: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_ATTR_SOURCE",
];

/// Settings under which git runs no program that has a fixed name in its configuration. Programs under free names
/// (filters and the like) are disabled by what the configuration contains.
const NO_PROGRAM_SETTINGS: [&str; 20] = [
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.askPass=",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "diff.submodule=short",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "log.showSignature=false",
    "protocol.allow=never",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=false",
];

/// The same as variables, where those take precedence. Git fetches no missing objects and prompts nobody.
const NO_PROGRAM_VARIABLES: [(&str, &str); 7] = [
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_PROXY_COMMAND", "false"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_EDITOR", "false"),
];

/// A repository may make git wait forever (a FIFO among its files). A large one on a slow disk takes minutes.
const TIMEOUT: Duration = Duration::from_mins(3);

/// The limit for git's output; no diff that a person reads is longer.
const OUTPUT_LIMIT: u64 = 256 << 20;

/// Returns what git printed, while it runs nothing of the repository. If it fails, the error contains git's own
/// message.
pub(super) fn git(folder: &Path, arguments: &[impl AsRef<OsStr>]) -> Result<Vec<u8>, WorktreeError> {
    git_set(folder, &Settings::new(), arguments)
}

/// Variables that git itself reads.
pub(super) type Settings = Vec<(&'static str, OsString)>;

/// The same with these variables.
pub(super) fn git_set(
    folder: &Path,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    said(arguments, git_reading(folder, settings, arguments)?)
}

/// Returns what git printed; `None` if its answer is no.
pub(super) fn git_says(folder: &Path, arguments: &[&str]) -> Result<Option<Vec<u8>>, WorktreeError> {
    let output = git_reading(folder, &Settings::new(), arguments)?;
    Ok(output.status.success().then_some(output.stdout))
}

/// The same as [`git`] for a command that concerns one worktree of the repository: git also reads that worktree, whose
/// configuration may name other programs than the one here.
pub(super) fn git_about(
    folder: &Path,
    tree: &Path,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let mut disabled = config(folder)?.disabled_programs();
    if tree.is_dir() {
        disabled.extend(config(tree)?.disabled_programs());
    }
    let mut command = git_without_programs(folder);
    disable(&mut command, &disabled);
    said(arguments, run(command.args(arguments), folder)?)
}

/// Runs git with the filters that the user's own git would run, and with the hooks of this directory. Only for what a
/// person has agreed to.
pub(super) fn git_with_programs(
    folder: &Path,
    hooks: &OsStr,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let mut command = bare(folder);
    let mut path = OsString::from("core.hooksPath=");
    path.push(hooks);
    command.arg("-c").arg(path).args(arguments);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    said(arguments, command.output().map_err(WorktreeError::NoGit)?)
}

/// Runs git with the user's own filters, helpers and hooks only, and with none that `config` of this directory has from
/// the repository.
pub(super) fn git_of_the_user(
    folder: &Path,
    config: &Config,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let mut command = bare(folder);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    let mut hooks = OsString::from("core.hooksPath=");
    hooks.push(config.user_hooks().map_or(OsStr::new("/dev/null"), OsStr::from_bytes));
    command.arg("-c").arg(hooks);
    for (key, value) in config.user_helpers() {
        command.arg("-c").arg(OsStr::from_bytes(&[key.as_bytes(), b"=", value].concat()));
    }
    disable(&mut command, &config.disabled_programs());
    command.args(arguments);
    said(arguments, command.output().map_err(WorktreeError::NoGit)?)
}

/// Returns the configuration for this directory. Reading it runs nothing. If git cannot report it, that is an error:
/// git never runs under settings that were not checked.
pub(super) fn config(folder: &Path) -> Result<Config, WorktreeError> {
    let arguments = ["config", "--list", "--includes", "--show-scope", "-z"];
    // This runs without our own settings, because they would be reported as the user's.
    let output = run(bare(folder).args(arguments), folder)?;
    Ok(Config::parse(&said(&arguments, output)?))
}

/// Returns where git looks for the hooks of this repository. Asking runs none.
pub(super) fn hooks_folder(folder: &Path) -> Result<PathBuf, WorktreeError> {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-path", "hooks"];
    let answer = said(&arguments, run(bare(folder).args(arguments), folder)?)?;
    Ok(PathBuf::from(path_text(&answer)))
}

fn git_reading(
    folder: &Path,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Output, WorktreeError> {
    let disabled = config(folder)?.disabled_programs();
    let mut command = git_without_programs(folder);
    disable(&mut command, &disabled);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    run(command.args(arguments), folder)
}

fn disable(command: &mut Command, disabled: &DisabledPrograms) {
    for (key, value) in disabled {
        // The value is passed as a variable, because a key may contain the `=` that would end it.
        let mut setting = OsString::from("--config-env=");
        setting.push(OsStr::from_bytes(key));
        setting.push(if value.is_empty() { "=AGENTCTL_GIT_NOTHING" } else { "=AGENTCTL_GIT_FALSE" });
        command.arg(setting);
    }
    command.envs([("AGENTCTL_GIT_NOTHING", ""), ("AGENTCTL_GIT_FALSE", "false")]);
}

/// Returns a git command that runs no program with a fixed name.
fn git_without_programs(folder: &Path) -> Command {
    let mut command = bare(folder);
    command.arg("--no-pager").args(NO_PROGRAM_SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    command.envs(NO_PROGRAM_VARIABLES);
    command
}

#[expect(clippy::disallowed_methods, reason = "the one place that runs git")]
fn bare(folder: &Path) -> Command {
    let mut command = Command::new("git");
    // A repository may name a program that monitors its files. No command of ours needs it.
    command.args(["-c", "core.fsmonitor=false"]).arg("-C").arg(folder).stdin(Stdio::null());
    for name in FOREIGN {
        command.env_remove(name);
    }
    // Reading must not write: if we refreshed the index, our lock would block an agent. Nobody can type a password.
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command
}

/// Runs the command to its end, unless it takes too long or prints too much.
fn run(command: &mut Command, folder: &Path) -> Result<Output, WorktreeError> {
    let until = Instant::now() + TIMEOUT;
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(WorktreeError::NoGit)?;
    let pipes = (child.stdout.take().map(collected), child.stderr.take().map(collected));
    let words = |pipe: Option<Receiver<Vec<u8>>>| match pipe {
        Some(pipe) => pipe.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
        None => Some(Vec::new()),
    };
    let (stdout, stderr) = (words(pipes.0), words(pipes.1));
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        end(&mut child);
        return Err(WorktreeError::Silent { path: folder.to_owned(), seconds: TIMEOUT.as_secs() });
    };
    if stdout.len() as u64 > OUTPUT_LIMIT {
        end(&mut child);
        return Err(WorktreeError::TooMuch { path: folder.to_owned(), megabytes: OUTPUT_LIMIT >> 20 });
    }
    Ok(Output { status: child.wait().map_err(WorktreeError::NoGit)?, stdout, stderr })
}

/// Reads everything from a pipe, up to slightly more than the limit. A receiver that stops waiting leaves the thread
/// behind.
fn collected(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is missing, and git's own exit status shows that.
        let _ = pipe.take(OUTPUT_LIMIT + 1).read_to_end(&mut bytes);
        let _ = give.send(bytes);
    });
    take
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn said(arguments: &[impl AsRef<OsStr>], output: Output) -> Result<Vec<u8>, WorktreeError> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let doing =
        arguments.iter().take(2).map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
    Err(WorktreeError::Git { doing, words: error_line(&output) })
}

/// Returns the last line that says what went wrong.
fn error_line(output: &Output) -> String {
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

/// A path consists of bytes; only git's final line break is not part of it.
pub(super) fn path_text(answer: &[u8]) -> &OsStr {
    OsStr::from_bytes(answer.strip_suffix(b"\n").unwrap_or(answer))
}
