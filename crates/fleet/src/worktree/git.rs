//! Running git. To look, it runs nothing that the repository names: no filter, hook, monitor, signature program, helper or
//! server. Only a checkout runs the user's own, and the repository's once somebody has agreed to what that runs.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agentctl_model::text;

use super::WorktreeError;
use super::config::{Config, Silenced};

/// What a git that called us (a hook, an alias) has set for itself: it would redirect ours to another repository.
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

/// Settings under which git runs no program that has a fixed name in its configuration. What the repository names freely
/// (filters and the like) is silenced by what its configuration says.
const SILENT: [&str; 20] = [
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

/// The same as variables, where those win. No object is fetched that is not there, and nobody is asked for anything.
const SILENT_VARIABLES: [(&str, &str); 7] = [
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_PROXY_COMMAND", "false"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_EDITOR", "false"),
];

/// A repository may make git wait for ever (a FIFO among its files). A large one on a slow disk takes minutes.
const PATIENCE: Duration = Duration::from_mins(3);

/// No difference that somebody reads is longer.
const MOST: u64 = 256 << 20;

/// What git printed, while it ran nothing of the repository's; an error in git's own words when it failed.
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
    said(arguments, look(folder, settings, arguments)?)
}

/// What git printed; `None` when its answer is no.
pub(super) fn git_says(folder: &Path, arguments: &[&str]) -> Result<Option<Vec<u8>>, WorktreeError> {
    let output = look(folder, &Settings::new(), arguments)?;
    Ok(output.status.success().then_some(output.stdout))
}

/// The same as [`git`] for what concerns one tree of the repository: git looks into that tree too, and there its configuration
/// may name what it does not name here.
pub(super) fn git_about(
    folder: &Path,
    tree: &Path,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let mut silenced = config(folder)?.silenced();
    if tree.is_dir() {
        silenced.extend(config(tree)?.silenced());
    }
    let mut command = silent(folder);
    silence(&mut command, &silenced);
    said(arguments, run(command.args(arguments), folder)?)
}

/// The filters that the user's own git would run, and the hooks of this folder. Only for what was agreed to.
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

/// The programs of the user's alone: their filters, helpers and hooks, and none that `config` of this folder has of the
/// repository.
pub(super) fn git_of_the_user(
    folder: &Path,
    config: &Config,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Vec<u8>, WorktreeError> {
    let mut command = bare(folder);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    let mut hooks = OsString::from("core.hooksPath=");
    hooks.push(config.hooks_of_the_user().map_or(OsStr::new("/dev/null"), OsStr::from_bytes));
    command.arg("-c").arg(hooks);
    for (key, value) in config.instead_of_the_repositorys() {
        command.arg("-c").arg(OsStr::from_bytes(&[key.as_bytes(), b"=", value].concat()));
    }
    silence(&mut command, &config.silenced());
    command.args(arguments);
    said(arguments, command.output().map_err(WorktreeError::NoGit)?)
}

/// What the configuration says for this folder. Reading it runs nothing. A git that cannot say it is an error: nothing is run
/// by settings that nobody has seen.
pub(super) fn config(folder: &Path) -> Result<Config, WorktreeError> {
    let arguments = ["config", "--list", "--includes", "--show-scope", "-z"];
    // Without our own settings: they would be told as if they were the user's.
    let output = run(bare(folder).args(arguments), folder)?;
    Ok(Config::parse(&said(&arguments, output)?))
}

/// Where git looks for the hooks of this repository. Asking runs none.
pub(super) fn hooks_folder(folder: &Path) -> Result<PathBuf, WorktreeError> {
    let arguments = ["rev-parse", "--path-format=absolute", "--git-path", "hooks"];
    let answer = said(&arguments, run(bare(folder).args(arguments), folder)?)?;
    Ok(PathBuf::from(path_text(&answer)))
}

fn look(
    folder: &Path,
    settings: &Settings,
    arguments: &[impl AsRef<OsStr>],
) -> Result<Output, WorktreeError> {
    let silenced = config(folder)?.silenced();
    let mut command = silent(folder);
    silence(&mut command, &silenced);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    run(command.args(arguments), folder)
}

fn silence(command: &mut Command, silenced: &Silenced) {
    for (key, value) in silenced {
        // The value travels as a variable: a name may itself hold the sign that would end it.
        let mut setting = OsString::from("--config-env=");
        setting.push(OsStr::from_bytes(key));
        setting.push(if value.is_empty() { "=AGENTCTL_GIT_NOTHING" } else { "=AGENTCTL_GIT_FALSE" });
        command.arg(setting);
    }
    command.envs([("AGENTCTL_GIT_NOTHING", ""), ("AGENTCTL_GIT_FALSE", "false")]);
}

/// A git that runs nothing which has a fixed name.
fn silent(folder: &Path) -> Command {
    let mut command = bare(folder);
    command.arg("--no-pager").args(SILENT.iter().flat_map(|setting| ["-c", setting]));
    command.envs(SILENT_VARIABLES);
    command
}

#[expect(clippy::disallowed_methods, reason = "the one place that runs git")]
fn bare(folder: &Path) -> Command {
    let mut command = Command::new("git");
    // A repository may name a program that watches its files. No command of ours needs it.
    command.args(["-c", "core.fsmonitor=false"]).arg("-C").arg(folder).stdin(Stdio::null());
    for name in FOREIGN {
        command.env_remove(name);
    }
    // Looking must not write: an index refreshed by us is a lock in the way of an agent. Nobody is there to type a password.
    command.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C");
    command
}

/// Runs it to its end, unless that does not come or there is no end to what it says.
fn run(command: &mut Command, folder: &Path) -> Result<Output, WorktreeError> {
    let until = Instant::now() + PATIENCE;
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
        return Err(WorktreeError::Silent { path: folder.to_owned(), seconds: PATIENCE.as_secs() });
    };
    if stdout.len() as u64 > MOST {
        end(&mut child);
        return Err(WorktreeError::TooMuch { path: folder.to_owned(), megabytes: MOST >> 20 });
    }
    Ok(Output { status: child.wait().map_err(WorktreeError::NoGit)?, stdout, stderr })
}

/// Everything a pipe gives, up to a little more than is taken. Whoever does not wait for it any more leaves it behind.
fn collected(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What cannot be read is missing, and git's own exit says so.
        let _ = pipe.take(MOST + 1).read_to_end(&mut bytes);
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
    Err(WorktreeError::Git { doing, words: complaint(&output) })
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
