//! Processes to look at. Each one ends with the value that started it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A child that is killed and reaped by its own handle.
pub(crate) struct Kept(pub(crate) Child);

impl Kept {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child process"))
    }

    /// A child that does nothing for longer than any test takes.
    pub(crate) fn sleeper() -> Self {
        Self::start(Command::new("sleep").arg("600"))
    }

    pub(crate) fn shell(script: &str) -> Self {
        Self::start(Command::new("sh").args(["-c", script]))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Reads what the child prints, up to the first line that starts with `mark`; gives the rest of that line.
    pub(crate) fn says(&mut self, mark: &str) -> String {
        let mut lines = BufReader::new(self.0.stdout.as_mut().expect("a pipe"));
        let mut line = String::new();
        while lines.read_line(&mut line).expect("readable output") > 0 {
            if let Some(rest) = line.trim_end().strip_prefix(mark) {
                return rest.trim().to_owned();
            }
            line.clear();
        }
        panic!("the child ended without saying {mark:?}");
    }

    pub(crate) fn kill_without_reaping(&mut self) {
        self.0.kill().expect("a signal");
    }

    pub(crate) fn kill_and_reap(&mut self) {
        self.kill_without_reaping();
        self.0.wait().expect("an exit status");
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Both fail when the test has ended the child already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
