//! Runs a program in a pseudo-terminal, for the interactive mode of agents.
//!
//! `setsid --ctty` gives the program a session and a controlling terminal. It replaces itself by the program, so the pid is
//! the program's, and this crate needs no unsafe code between fork and exec.

mod screen;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::agents::family;
use crate::wait::until_seen;
use screen::Screen;

const ROWS: u16 = 40;
const COLUMNS: u16 = 120;
const SCREEN_DEADLINE: Duration = Duration::from_mins(3);

/// A program in a terminal of 120 by 40. When dropped, it is killed together with every process that it has started.
pub struct Pty {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Screen>>,
}

impl Pty {
    /// Starts `command` (its stdin, stdout and stderr are replaced) in a new terminal.
    pub fn spawn(command: &Command) -> Self {
        Self::open(command).unwrap_or_else(|error| panic!("start {command:?} in a terminal: {error:#}"))
    }

    fn open(command: &Command) -> anyhow::Result<Self> {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).context("open a pty")?;
        grantpt(&master).context("grant the pty")?;
        unlockpt(&master).context("unlock the pty")?;
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).context("set the window size")?;
        let name = ptsname(&master, Vec::new()).context("read the pty's name")?;
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).context("read the open flag")?;
        let path = name.to_str().context("read the pty's name")?;
        let slave = OpenOptions::new().read(true).write(true).custom_flags(no_control).open(path);
        let child = in_terminal(command, slave.context("open the terminal side")?.into())?;
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(Screen::new(ROWS, COLUMNS)));
        let mut output = keyboard.try_clone().context("clone the pty")?;
        let seen = Arc::clone(&screen);
        // The thread is not joined: it ends when the last process that has the terminal open exits.
        std::thread::Builder::new()
            .name("pty-reader".to_owned())
            .spawn(move || watch(&mut output, &seen))
            .context("spawn the reader")?;
        Ok(Self { child, keyboard, screen })
    }

    /// The pid of the program, which is also its session leader.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Types bytes; Enter is `\r`, Escape is `\x1b`.
    pub fn send(&mut self, keys: impl AsRef<[u8]>) {
        self.keyboard.write_all(keys.as_ref()).expect("write to the terminal");
    }

    /// The text on the screen now, one line per row, without trailing spaces.
    pub fn screen_text(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).text()
    }

    /// Waits until `text` is on the screen and returns the whole screen. Any run of white space matches any other.
    pub fn wait_for(&self, text: &str) -> String {
        let wanted = squeeze(text);
        until_seen(SCREEN_DEADLINE, &format!("{text:?} on the screen"), || {
            let seen = self.screen_text();
            if squeeze(&seen).contains(&wanted) { Ok(seen) } else { Err(seen) }
        })
    }

    /// Types `keys` again and again until `text` is gone from the screen. Dialogs ignore keys for a moment after they open, to
    /// prevent accidental answers, and the screen does not show when that moment is over. A program that is slow to draw is
    /// given twice the time with every press, because what it gets after the dialog goes into its prompt.
    pub fn press_until_gone(&mut self, keys: &str, text: &str) {
        let wanted = squeeze(text);
        let (mut pressed, mut pause): (Option<Instant>, Duration) = (None, Duration::from_secs(1));
        until_seen(SCREEN_DEADLINE, &format!("the end of {text:?} on the screen"), || {
            let seen = self.screen_text();
            if !squeeze(&seen).contains(&wanted) {
                return Ok(());
            }
            if pressed.is_none_or(|at| at.elapsed() > pause) {
                self.send(keys);
                pressed = Some(Instant::now());
                pause *= 2;
            }
            Err(seen)
        });
    }

    /// How the program ended; `None` while it runs.
    pub fn try_wait(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("wait for the program in the terminal")
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let root = self.child.id();
        // Once the child was reaped, its pid may have been reused, so nothing may be searched by it.
        if matches!(self.child.try_wait(), Ok(None)) {
            family::end_tree(root);
            let _ = self.child.wait();
        }
    }
}

/// Starts the command through `setsid --ctty`, with the terminal as its stdin, stdout and stderr.
fn in_terminal(command: &Command, terminal: OwnedFd) -> anyhow::Result<Child> {
    let mut wrapped = Command::new("setsid");
    wrapped.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
    wrapped.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    let copy = |end: &OwnedFd| end.as_fd().try_clone_to_owned().context("clone the terminal side");
    wrapped
        .stdin(Stdio::from(copy(&terminal)?))
        .stdout(Stdio::from(copy(&terminal)?))
        .stderr(Stdio::from(terminal));
    wrapped.spawn().context("run setsid")
}

/// Draws the program's output and answers its queries, until the terminal is closed.
fn watch(output: &mut File, screen: &Mutex<Screen>) {
    let mut buffer = [0; 8192];
    // Reading fails with EIO when no process has the other side open any more.
    while let Ok(count @ 1..) = output.read(&mut buffer) {
        let answers = screen.lock().unwrap_or_else(PoisonError::into_inner).feed(&buffer[..count]);
        if output.write_all(&answers).is_err() {
            return;
        }
    }
}

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
