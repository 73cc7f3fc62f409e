//! All output goes through [`Output`], so that a closed pipe is noticed in one place and colours are decided
//! once.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::render::style::Colour;
use crate::render::style::Paint;
use crate::render::width::{DEFAULT_COLUMNS, UNBOUNDED, cut_end, wrap};
use crate::surroundings::Surroundings;

pub(crate) struct Output {
    out: BufWriter<Stdout>,
    /// Colours of standard output.
    pub(crate) paint: Paint,
    errors: Paint,
    terminal: bool,
    /// The width that the user has set, for when there is no terminal to ask.
    columns: Option<usize>,
}

impl Output {
    pub(crate) fn new(surroundings: &Surroundings, colour: Colour) -> Self {
        let terminal = io::stdout().is_terminal();
        Self {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            paint: Paint::new(surroundings.wants_colour(colour, terminal)),
            errors: Paint::new(surroundings.wants_colour(colour, io::stderr().is_terminal())),
            terminal,
            columns: surroundings.columns(),
        }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How many columns a line may take. The terminal is asked each time, because it may be resized during a
    /// watch. Output into a pipe is not cut, unless the user has set a width.
    pub(crate) fn width(&self) -> usize {
        let unasked = if self.terminal { DEFAULT_COLUMNS } else { UNBOUNDED };
        self.size().map(|(columns, _)| columns).or(self.columns).unwrap_or(unasked)
    }

    /// Whether lines may have any length.
    pub(crate) fn is_unbounded(&self) -> bool {
        self.width() == UNBOUNDED
    }

    /// How many columns a line on standard error may take: it may be a terminal when standard output is not.
    pub(crate) fn aside_width(&self) -> usize {
        if !io::stderr().is_terminal() {
            return self.width();
        }
        let size = rustix::termios::tcgetwinsize(io::stderr().as_fd()).ok();
        size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
    }

    /// How many lines fit, if there is a terminal to ask.
    pub(crate) fn height(&self) -> Option<usize> {
        self.size().map(|(_, rows)| rows)
    }

    fn size(&self) -> Option<(usize, usize)> {
        if !self.terminal {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout().as_fd()).ok()?;
        (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col.into(), size.ws_row.into()))
    }

    /// Whether a person sits before standard error or standard output.
    pub(crate) fn has_own_terminal(&self) -> bool {
        io::stderr().is_terminal() || self.terminal
    }

    /// Writes a sequence to the terminal of this command, and never into a pipe.
    pub(crate) fn ring(&mut self, sequence: &str) {
        let _ = self.out.flush();
        if io::stderr().is_terminal() {
            let _ = io::stderr().write_all(sequence.as_bytes());
        } else if self.terminal {
            let _ = self.out.write_all(sequence.as_bytes());
            let _ = self.out.flush();
        }
    }

    /// Prints lines for a person on standard error, before anything else happens.
    pub(crate) fn beside(&mut self, lines: impl IntoIterator<Item = String>) {
        let _ = self.out.flush();
        for line in lines {
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Prints a warning on standard error, which does not change the exit code.
    pub(crate) fn warn(&mut self, words: &str) {
        let label = self.errors.attention("warning:");
        self.aside("warning:", &label, words);
    }

    pub(crate) fn hint(&mut self, words: &str) {
        let label = self.errors.dim("hint:");
        self.aside("hint:", &label, words);
    }

    pub(crate) fn error(&mut self, words: &str) {
        let label = self.errors.bad("error:");
        self.aside("error:", &label, words);
    }

    /// Shows one line of progress, which the next one replaces; `None` removes it. Only on a terminal.
    pub(crate) fn progress(&mut self, words: Option<&str>) {
        if !io::stderr().is_terminal() {
            return;
        }
        let line =
            words.map(|words| cut_end(words, self.aside_width().saturating_sub(1))).unwrap_or_default();
        let _ = self.out.flush();
        let _ = write!(io::stderr(), "\r{}\u{1b}[K", self.errors.dim(&line));
    }

    /// Errors of standard error are ignored: if it is closed, no one reads them. On a terminal lines
    /// are wrapped between words.
    fn aside(&mut self, label: &str, painted: &str, words: &str) {
        let whole = format!("{label} {words}");
        let whole =
            if io::stderr().is_terminal() { wrap(&whole, self.aside_width()).join("\n") } else { whole };
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "{painted}{}", whole.strip_prefix(label).unwrap_or(words));
    }

    /// Waits, and returns early if the reader of the output has gone. Polling for no events still reports a
    /// closed pipe.
    pub(crate) fn reader_leaves_within(&mut self, duration: Duration) -> io::Result<bool> {
        self.flush()?;
        let deadline = Instant::now() + duration;
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let timeout = Timespec::try_from(duration).ok();
        if !self.terminal
            && matches!(poll(&mut watched, timeout.as_ref()), Ok(ready) if ready > 0)
            && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
        {
            return Ok(true);
        }
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        Ok(false)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
