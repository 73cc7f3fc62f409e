//! A small process of our own that gives the terminal back when `top` was killed and could not. It knows of the death by
//! the end of a pipe, and changes nothing that somebody else has changed meanwhile.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::LEAVE;

/// The hidden command of the guard.
pub(crate) const GUARD: &str = "__guard-terminal";

/// What `top` tells the guard: it has the terminal, or it has given it back.
const TAKEN: u8 = b'+';
const GIVEN_BACK: u8 = b'-';

/// The guard, as `top` has it.
pub(crate) struct Guard {
    child: Child,
    line: Option<ChildStdin>,
}

impl Guard {
    /// Its standard output is the terminal; its standard input is the pipe that ends with us.
    #[expect(clippy::disallowed_methods, reason = "the guard is this very program, on our terminal")]
    pub(super) fn start(program: &Path) -> io::Result<Self> {
        let mut child = Command::new(program)
            .arg(GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::inherit())
            .stderr(Stdio::null())
            .spawn()?;
        let line = child.stdin.take();
        Ok(Self { child, line })
    }

    pub(super) fn taken(&mut self) {
        self.tell(TAKEN);
    }

    pub(super) fn given_back(&mut self) {
        self.tell(GIVEN_BACK);
    }

    fn tell(&mut self, word: u8) {
        let told = self.line.as_mut().map(|line| line.write_all(&[word]));
        // One that was killed is not missed before we are killed too.
        if let Some(Err(_)) = told {
            self.line = None;
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.line = None;
        let _ = self.child.wait();
    }
}

/// The guard itself. It leaves the session of the terminal, so that neither the terminal's end nor its keys reach it.
pub(crate) fn run() -> io::Result<()> {
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"terminal-guard");
    let terminal = io::stdout();
    let before = tcgetattr(terminal.as_fd())?;
    let mut is_taken = false;
    let mut line = io::stdin().lock();
    let mut word = [0];
    // A pipe that fails has ended.
    while matches!(line.read(&mut word), Ok(1)) {
        is_taken = word[0] == TAKEN;
    }
    if is_taken {
        give_back(&before);
    }
    Ok(())
}

/// A shell that has taken its terminal back already has modes of its own, which stay; only raw mode is ours.
fn give_back(before: &Termios) {
    let mut terminal = io::stdout();
    let mut raw = before.clone();
    raw.make_raw();
    let now = tcgetattr(terminal.as_fd());
    if now.is_ok_and(|now| is_same(&now, &raw)) {
        let _ = tcsetattr(terminal.as_fd(), OptionalActions::Now, before);
    }
    let _ = terminal.write_all(LEAVE.as_bytes());
    let _ = terminal.flush();
}

fn is_same(one: &Termios, other: &Termios) -> bool {
    one.input_modes == other.input_modes
        && one.output_modes == other.output_modes
        && one.local_modes == other.local_modes
}
