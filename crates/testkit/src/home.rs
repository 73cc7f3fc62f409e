//! A separate home for every test: nothing of the machine's user gets in, and nothing of the test gets out.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::agents::family;
use crate::wait::until_seen;

/// Whether the agentctl under test dies where `AGENTCTL_FAULT` says. Only debug builds do, so one that is named, such as the static
/// one of a release, does not.
pub fn has_fault_points() -> bool {
    cfg!(debug_assertions) && std::env::var_os("AGENTCTL_TEST_PROGRAM").is_none()
}

/// A command that runs longer than this counts as hanging.
const COMMAND_DEADLINE: Duration = Duration::from_mins(5);

/// The agentctl under test: the one that cargo built with the tests, or the one that `cargo xtask test --program` names.
pub fn tested(built: impl Into<PathBuf>) -> PathBuf {
    std::env::var_os("AGENTCTL_TEST_PROGRAM").map_or_else(|| built.into(), PathBuf::from)
}

/// A temporary `HOME` whose environment inherits nothing but the `PATH`. Agents find their default roots (`~/.claude`,
/// `~/.codex`, ...) inside it. When dropped, it kills every process that still has its marker, then deletes itself.
pub struct TestHome {
    root: TempDir,
    agentctl: Option<PathBuf>,
    environment: Vec<(OsString, OsString)>,
    outputs: AtomicU64,
}

/// The result of a finished command.
#[derive(Debug)]
pub struct Output {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Parses stdout as JSON; panics with the whole output when it is not JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self:#?}"))
    }

    /// Returns itself when the command succeeded; panics with the whole output when it did not.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> Self {
        assert!(self.code == Some(0), "command failed: {self:#?}");
        self
    }
}

impl TestHome {
    /// A home without the `agentctl` binary.
    pub fn new() -> Self {
        Self::build(None)
    }

    /// A home whose [`agentctl`](Self::agentctl) runs `binary`: pass `env!("CARGO_BIN_EXE_agentctl")`.
    pub fn with_agentctl(binary: impl Into<PathBuf>) -> Self {
        Self::build(Some(tested(binary)))
    }

    fn build(agentctl: Option<PathBuf>) -> Self {
        let root = TempDir::with_prefix("actl-").expect("create the test home");
        let path = fs::canonicalize(root.path()).expect("resolve the test home");
        let home = path.join("home");
        for folder in ["bin", "home", "out", "run", "tmp", "work"] {
            fs::create_dir(path.join(folder)).expect("create the folders of the test home");
        }
        let git = "[user]\n\tname = Test\n\temail = test@example.invalid\n[init]\n\tdefaultBranch = main\n";
        fs::write(home.join(".gitconfig"), git).expect("write the git configuration");
        let mut search = path.join("bin").into_os_string();
        search.push(":");
        search.push(std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()));
        let fixed: [(&str, OsString); 13] = [
            ("PATH", search),
            ("HOME", home.clone().into()),
            ("AGENTCTL_HOME", home.join(".agentctl").into()),
            ("TMPDIR", path.join("tmp").into()),
            ("XDG_RUNTIME_DIR", path.join("run").into()),
            (family::MARKER, path.clone().into()),
            ("LANG", "C.UTF-8".into()),
            ("TZ", "UTC".into()),
            ("TERM", "xterm-256color".into()),
            ("SHELL", "/bin/bash".into()),
            ("USER", "test".into()),
            ("LOGNAME", "test".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ];
        let environment = fixed.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Self { root, agentctl, environment, outputs: AtomicU64::new(0) }
    }

    /// The directory that contains everything.
    fn root(&self) -> PathBuf {
        PathBuf::from(self.variable(family::MARKER))
    }

    /// The value of `HOME`.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.variable("HOME"))
    }

    /// The value of `AGENTCTL_HOME`. The directory does not exist until agentctl or a test creates it.
    pub fn agentctl_home(&self) -> PathBuf {
        PathBuf::from(self.variable("AGENTCTL_HOME"))
    }

    fn variable(&self, name: &str) -> &OsStr {
        self.environment.iter().find(|(known, _)| known == name).map_or(OsStr::new(""), |(_, value)| value)
    }

    /// Adds or replaces a variable for every command from now on.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let name = name.into();
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.into()));
    }

    /// Puts `executable` first on this home's `PATH` under `name`.
    pub fn put_on_path(&self, name: &str, executable: &Path) {
        let link = self.root().join("bin").join(name);
        // A link of an earlier call is replaced, if there is one.
        let _ = fs::remove_file(&link);
        symlink(executable, &link).unwrap_or_else(|error| panic!("link {}: {error}", link.display()));
    }

    /// A working directory, created when it does not exist. The name may contain anything that a path may.
    pub fn work_dir(&self, name: &str) -> PathBuf {
        let path = self.root().join("work").join(name);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()));
        path
    }

    /// A working directory that is a git repository with one commit on `main`.
    pub fn git_repo(&self, name: &str) -> PathBuf {
        let path = self.work_dir(name);
        fs::write(path.join("README"), "test\n").expect("write a file to commit");
        for arguments in
            [&["init", "--quiet"][..], &["add", "README"], &["commit", "--quiet", "--message", "first"]]
        {
            let mut git = self.command("git");
            git.args(arguments).current_dir(&path);
            let _ = self.run(git).ok();
        }
        path
    }

    /// A command with only this home's environment, an empty stdin, and the directory `work`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.root().join("work")).stdin(Stdio::null());
        command
    }

    /// The command `agentctl` with these arguments, not yet started. It uses no daemon.
    pub fn agentctl_command(&self, arguments: &[&str]) -> Command {
        let binary = self.agentctl.as_ref().expect("this home was made without the agentctl binary");
        let mut command = self.command(binary);
        command.args(arguments).env("AGENTCTL_NO_DAEMON", "1");
        command
    }

    /// Runs `agentctl` to its end.
    #[track_caller]
    pub fn agentctl(&self, arguments: &[&str]) -> Output {
        self.run(self.agentctl_command(arguments))
    }

    /// Runs a command to its end. Its output goes to files, because a child that stays behind with our pipes open would
    /// keep the test waiting.
    #[track_caller]
    pub fn run(&self, command: Command) -> Output {
        self.run_within(COMMAND_DEADLINE, command)
    }

    /// The same for a command that must have ended by then.
    #[track_caller]
    pub fn run_within(&self, deadline: Duration, mut command: Command) -> Output {
        let (stdout, stderr) = self.output_files();
        command.stdout(create(&stdout)).stderr(create(&stderr));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let what = format!("the end of {} {arguments:?}", command.get_program().display());
        let status = until_seen(deadline, &what, || {
            let ended = child.try_wait().expect("wait for the command");
            ended.ok_or_else(|| format!("stdout: {}\nstderr: {}", read(&stdout), read(&stderr)))
        });
        Output { code: status.code(), stdout: read(&stdout), stderr: read(&stderr) }
    }

    /// Signals a process if it was started in this home and has not exited.
    pub fn signal(&self, pid: u32, signal: Signal) {
        family::signal_marked(&self.root(), pid, signal);
    }

    /// The pids and command lines of all live processes that were started in this home: agentctl's and the agents'.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let line = |pid: &u32| {
            let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let mut found: Vec<_> = family::marked(&self.root())
            .iter()
            .filter(|pid| !family::is_gone(**pid))
            .map(|pid| (*pid, line(pid)))
            .collect();
        found.sort_unstable();
        found
    }

    /// Two fresh paths for the output of a process.
    pub(crate) fn output_files(&self) -> (PathBuf, PathBuf) {
        let number = self.outputs.fetch_add(1, Ordering::Relaxed);
        let path = |stream: &str| self.root().join("out").join(format!("{number}.{stream}"));
        (path("stdout"), path("stderr"))
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        let root = self.root();
        family::end_all(|| family::marked(&root));
        // With this variable a person can look at the files of a failed test.
        if std::env::var_os("AGENTCTL_TEST_KEEP").is_some() {
            self.root.disable_cleanup(true);
        }
    }
}

pub(crate) fn create(path: &Path) -> File {
    File::create(path).unwrap_or_else(|error| panic!("create {}: {error}", path.display()))
}

pub(crate) fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}
