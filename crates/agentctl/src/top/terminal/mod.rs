//! The terminal while `top` has it: raw mode and the alternate screen. It is given back on every end: by this process
//! where it can, and by the guard where this process was killed.

pub(crate) mod guard;
mod signals;

pub(crate) use signals::{Signal, listen};

use std::io::{self, Stdout, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::process::{Signal as KernelSignal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use self::guard::Guard;

/// The alternate screen, without a cursor, with pasted text marked as such; the title is put aside.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[22;0t\u{1b}[?25l\u{1b}[?2004h\u{1b}[2J\u{1b}[H";
/// All of that undone. It is also what the guard writes.
pub(crate) const LEAVE: &str = "\u{1b}[?2004l\u{1b}[0m\u{1b}[?25h\u{1b}[23;0t\u{1b}[?1049l";

pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
    before: Termios,
    guard: Option<Guard>,
    title: String,
}

impl Screen {
    /// Takes the terminal. From here on it is given back whatever happens.
    pub(crate) fn take(program: &std::path::Path) -> io::Result<Self> {
        let before = tcgetattr(io::stdin().as_fd())?;
        let _ = BEFORE.set(before.clone());
        // Without a guard `top` works as well; only a kill would leave the terminal as it is.
        let guard = Guard::start(program).ok();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let mut screen = Self { terminal, before, guard, title: String::new() };
        screen.enter()?;
        Ok(screen)
    }

    fn enter(&mut self) -> io::Result<()> {
        if let Some(guard) = &mut self.guard {
            guard.taken();
        }
        IS_TAKEN.store(true, Ordering::SeqCst);
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &raw)?;
        let mut out = io::stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        self.title.clear();
        self.redraw()
    }

    /// Gives the terminal back as it was. Nothing here may fail early: each step is tried.
    pub(crate) fn leave(&mut self) {
        give_back_now();
        if let Some(guard) = &mut self.guard {
            guard.given_back();
        }
    }

    /// Stops this process like any other, and takes the terminal again when it goes on.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        self.leave();
        let _ = kill_process(getpid(), KernelSignal::STOP);
        self.enter()
    }

    /// The next frame is drawn whole, whatever others wrote meanwhile. The terminal is not asked for its cursor, as ratatui
    /// does to clear it: the answer would go to the thread that reads keys.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        let mut out = io::stdout();
        out.write_all(b"\x1b[2J")?;
        out.flush()?;
        self.terminal = Terminal::new(CrosstermBackend::new(out))?;
        Ok(())
    }

    pub(crate) fn set_title(&mut self, title: &str) {
        if self.title != title {
            title.clone_into(&mut self.title);
            let mut out = io::stdout();
            let _ = write!(out, "\u{1b}]2;{title}\u{1b}\\");
            let _ = out.flush();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Gives the terminal back from wherever this is called, also from a panic, whose words must be seen. It is done once:
/// a second time would put the cursor back over what the shell has written since.
pub(crate) fn give_back_now() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut out = io::stdout();
    let _ = out.write_all(LEAVE.as_bytes());
    let _ = out.flush();
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, before);
    }
}

/// The modes of the terminal before `top`.
static BEFORE: OnceLock<Termios> = OnceLock::new();
/// Whether the terminal is ours now.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
