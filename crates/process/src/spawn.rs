//! Starting a process that may outlive its starter: it holds nothing of ours but the files it was given.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use agentctl_model::{Environ, Observed, ProcessRef};

use crate::{system, wait_gone};

/// What to start. Output goes to files, never to pipes: agents die or lose turns when a reader goes away.
#[derive(Debug)]
pub struct Order {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// All of its variables; nothing is inherited beside them.
    pub environ: Environ,
    pub cwd: PathBuf,
    /// `None` is an empty input: an agent that waits for one would wait for ever.
    pub stdin: Option<File>,
    pub stdout: File,
    pub stderr: File,
}

/// A child of ours, and its identity for everybody else.
#[derive(Debug)]
pub struct Started {
    /// `None` only in the last moment of this value.
    child: Option<Child>,
    pid: u32,
    /// `None` when it had ended before it could be looked at.
    pub process: Option<ProcessRef>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

/// Starts it. An error names nothing but the reason: the caller knows what was to be started.
pub fn spawn(order: Order) -> io::Result<Started> {
    #[expect(clippy::disallowed_methods, reason = "the one place that starts processes")]
    let mut command = Command::new(&order.program);
    command.args(&order.args).env_clear().envs(order.environ.iter()).current_dir(&order.cwd);
    command.stdin(order.stdin.map_or_else(Stdio::null, Stdio::from));
    command.stdout(order.stdout).stderr(order.stderr);
    let child = command.spawn()?;
    let (pid, process) = (child.id(), identity(child.id()));
    Ok(Started { child: Some(child), pid, process })
}

/// Who has this pid now.
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

    /// Its end, once it has ended.
    pub fn ended(&mut self) -> io::Result<Option<Ending>> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.map(Ending::of)),
            None => Ok(None),
        }
    }

    /// Its end, if that comes within this time.
    pub fn ends_within(&mut self, time: Duration) -> io::Result<Option<Ending>> {
        match self.process {
            Some(process) => wait_gone(process, time),
            None => true,
        };
        self.ended()
    }
}

/// It may live on, but a starter that lives long (the daemon) must not be left with a zombie: somebody waits for it.
impl Drop for Started {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if matches!(child.try_wait(), Ok(None)) {
            // Without a thread it stays a zombie until we end, which harms nobody but the eye.
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
