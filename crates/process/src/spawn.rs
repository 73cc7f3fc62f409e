//! Starts processes that may outlive this one: a child inherits nothing but the files in its [`Order`].

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use agentctl_model::{Environ, Observed, ProcessRef};

use crate::pages::{ForChildren, Pages};
use crate::{system, wait_gone};

/// What to start. Output goes to files, never to pipes: agents die or lose turns when the reader of a pipe exits.
#[derive(Debug)]
pub struct Order {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// All variables of the child; it inherits no others.
    pub environ: Environ,
    pub cwd: PathBuf,
    /// `None` is an empty input, because an agent that reads an open one would wait for ever.
    pub stdin: Option<File>,
    pub stdout: File,
    pub stderr: File,
}

/// A process that was started, with its identity: a child of this process, or of another that was told to start it.
#[derive(Debug)]
pub struct Started {
    /// `None` for a child of another process, and while this value is dropped.
    child: Option<Child>,
    pid: u32,
    /// `None` when the child exited before its identity could be read.
    pub process: Option<ProcessRef>,
}

/// How a process ended. Only its parent learns the code or the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// Starts the process. The error contains only the reason, because the caller knows what it wanted to start.
pub fn spawn(order: Order) -> io::Result<Started> {
    spawn_with(order, Pages::Usual)
}

/// The same with these pages.
pub fn spawn_with(order: Order, pages: Pages) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "the one place that starts processes")]
    let mut command = Command::new(&order.program);
    command.args(&order.args).env_clear().envs(order.environ.iter()).current_dir(&order.cwd);
    command.stdin(order.stdin.map_or_else(Stdio::null, Stdio::from));
    command.stdout(order.stdout).stderr(order.stderr);
    let child = {
        let _pages = ForChildren::of(pages);
        command.spawn()?
    };
    let (pid, process) = (child.id(), identity(child.id()));
    Ok(Started { child: Some(child), pid, process })
}

/// Replaces this process by another program (`exec`), in this directory and with these variables alone. Returns only on
/// failure.
pub fn become_program(program: &Path, args: &[OsString], environ: &Environ, cwd: &Path) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "this process becomes the other program")]
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(environ.iter()).current_dir(cwd);
    command.exec()
}

/// The process that has this pid now.
pub fn identity(pid: u32) -> Option<ProcessRef> {
    match system().heads() {
        Observed::Seen(heads) => heads.iter().map(|head| head.process).find(|process| process.pid == pid),
        Observed::Unobservable(_) => None,
    }
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A process that another one started. Its end is seen, but not how it ended.
    pub fn elsewhere(process: ProcessRef) -> Self {
        Self { child: None, pid: process.pid, process: Some(process) }
    }

    /// How the process ended; `None` while it runs.
    pub fn ended(&mut self) -> io::Result<Option<Ending>> {
        if let Some(child) = &mut self.child {
            return Ok(child.try_wait()?.map(Ending::of));
        }
        let is_gone = self.process.is_none_or(|process| wait_gone(process, Duration::ZERO));
        Ok(is_gone.then_some(Ending { code: None, signal: None }))
    }

    /// Waits at most `time` for the process to end.
    pub fn ends_within(&mut self, time: Duration) -> io::Result<Option<Ending>> {
        match self.process {
            Some(process) => wait_gone(process, time),
            None => true,
        };
        self.ended()
    }
}

/// The child may live on, but a long-lived parent (the daemon) must not keep it as a zombie, so a thread waits for it.
impl Drop for Started {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            // If no thread can be started, the child stays a zombie until this process exits, which is harmless.
            let _ = std::thread::Builder::new().name("waits".into()).spawn(move || child.wait());
        }
    }
}

impl Ending {
    fn of(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }

    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }
}
