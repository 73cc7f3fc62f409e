//! A process that runs beside the test and writes its output to files.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::agents::family;
use crate::home::{TestHome, create, read};
use crate::wait::until_seen;

/// A running program. When dropped, it is killed together with every process that it has started.
pub struct Background {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Background {
    /// Starts `command` with its output in files of `home`.
    pub fn spawn(home: &TestHome, mut command: Command) -> Self {
        let (stdout, stderr) = home.output_files();
        let child = command.stdout(create(&stdout)).stderr(create(&stderr)).spawn();
        let child = child.unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        Self { child, stdout, stderr }
    }

    /// Starts `command` with a file that contains `input` as its stdin.
    pub fn spawn_with_input(home: &TestHome, mut command: Command, input: &str) -> Self {
        let path = home.output_files().0.with_extension("stdin");
        std::fs::write(&path, input).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        let file = File::open(&path).unwrap_or_else(|error| panic!("open {}: {error}", path.display()));
        command.stdin(file);
        Self::spawn(home, command)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// How it ended; `None` while it runs.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("wait for the background process")
    }

    /// Waits for its end; panics with its output at the deadline.
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        until_seen(deadline, &what, || {
            self.try_wait().ok_or_else(|| format!("stdout: {}\nstderr: {}", self.stdout(), self.stderr()))
        })
    }

    /// Sends a signal to this process alone. It was not reaped yet, so its pid cannot have been reused.
    pub fn signal(&mut self, signal: Signal) {
        if self.try_wait().is_none() {
            let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a pid");
            kill_process(pid, signal).expect("send a signal");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Once the child was reaped, its pid may have been reused, so nothing may be searched by it.
        if matches!(self.child.try_wait(), Ok(None)) {
            family::end_tree(self.child.id());
            let _ = self.child.wait();
        }
    }
}
