//! A tmux server of the test's own, with a shell in its one pane.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::{TestHome, skip, until_seen};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) struct Pane {
    socket: PathBuf,
}

impl Pane {
    /// `None`, with a printed reason, where tmux is not installed.
    pub(crate) fn open(home: &TestHome, width: u16, height: u16) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skip("tmux is not installed");
            return None;
        }
        let socket = home.path().join("tmux.sock");
        let mut server = home.command("tmux");
        server.env("AGENTCTL_NO_DAEMON", "1");
        let (columns, rows) = (width.to_string(), height.to_string());
        server.args(["-f", "/dev/null", "-S"]).arg(&socket);
        server.args(["new-session", "-d", "-x", &columns, "-y", &rows, "env PS1='$ ' bash --norc"]);
        let _ = home.run(server).ok();
        let pane = Self { socket };
        pane.shows("$");
        Some(pane)
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types a command into the shell.
    pub(crate) fn types(&self, command: &str) {
        self.tmux(&["send-keys", "-l", command]);
        self.press("Enter");
    }

    pub(crate) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    #[track_caller]
    pub(crate) fn shows(&self, words: &str) -> String {
        self.until(words, |screen| screen.contains(words))
    }

    #[track_caller]
    pub(crate) fn until(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        until_seen(PATIENCE, what, || {
            let screen = self.screen();
            if fits(&screen) { Ok(screen) } else { Err(screen) }
        })
    }

    /// A frame that was drawn to its end: it was captured several times in a row. Only the clock may have gone on.
    #[track_caller]
    pub(crate) fn steady(&self) -> String {
        const TIMES: usize = 3;
        let body = |screen: &str| screen.split_once('\n').map(|(_, body)| body.to_owned());
        let (mut last, mut times) = (self.screen(), 1);
        until_seen(PATIENCE, "a steady screen", || {
            let screen = self.screen();
            times = if body(&screen) == body(&last) { times + 1 } else { 1 };
            last.clone_from(&screen);
            if times >= TIMES && is_whole(&screen) { Ok(screen) } else { Err(screen) }
        })
    }

    /// Starts `top` and waits until it has looked.
    #[track_caller]
    pub(crate) fn top(&self, more: &str) -> String {
        self.types(&format!("clear; {} top {more}", env!("CARGO_BIN_EXE_agentctl")));
        self.until("the list", |screen| is_whole(screen) && !screen.contains("looking …"))
    }

    /// Answers what is asked with a key. A request that has only just come is answered by the next press.
    #[track_caller]
    pub(crate) fn answers(&self, key: &str, words: &str) {
        const TOO_SOON: &str = "press the key again";
        loop {
            self.press(key);
            let screen = self.until(words, |screen| screen.contains(words) || screen.contains(TOO_SOON));
            if screen.contains(words) {
                return;
            }
            // Another key takes the words away, so that those of the next press are told from these.
            self.press("Home");
            self.until("no words", |screen| !screen.contains(TOO_SOON));
        }
    }

    /// The process of `top`, which the shell has started.
    #[track_caller]
    pub(crate) fn pid(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        until_seen(PATIENCE, "the process of top", || {
            let output = Command::new("pgrep").args(["-P", shell.trim(), "-x", "agentctl"]).output().unwrap();
            let found = String::from_utf8(output.stdout).unwrap();
            match found.split_whitespace().collect::<Vec<_>>().as_slice() {
                [pid] => Ok((*pid).to_owned()),
                other => Err(format!("{other:?}")),
            }
        })
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid()]).status().unwrap().success());
    }

    /// Whether the alternate screen is on, and whether a cursor is seen.
    pub(crate) fn modes(&self) -> (bool, bool) {
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on}#{cursor_flag}"]);
        (modes.starts_with('1'), modes.trim().ends_with('1'))
    }

    /// Waits until the terminal is `top`'s: the alternate screen, without a cursor.
    #[track_caller]
    pub(crate) fn is_taken(&self) {
        until_seen(PATIENCE, "the terminal is taken", || match self.modes() {
            (true, false) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// Waits until the terminal has this title, which is written after the screen.
    #[track_caller]
    pub(crate) fn is_titled(&self, title: &str) {
        until_seen(PATIENCE, title, || {
            let now = self.tmux(&["display-message", "-p", "#{pane_title}"]);
            if now.trim() == title { Ok(()) } else { Err(now) }
        });
    }

    /// The shell has its terminal back: its screen, its cursor, its modes, and it does what is typed.
    #[track_caller]
    pub(crate) fn is_usable(&self, mark: &str) {
        until_seen(PATIENCE, "the shell's screen", || match self.modes() {
            (false, true) => Ok(()),
            other => Err(format!("{other:?}: {}", self.screen())),
        });
        // What is typed before the shell listens again may go to who still listens.
        self.press("Enter");
        self.until("the prompt", |screen| screen.trim_end().ends_with('$'));
        self.types(&format!(
            "echo us''able-{mark}; stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo|opost|isig);?'"
        ));
        let screen = self.shows(&format!("usable-{mark}"));
        let screen = self.until(&screen, |screen| {
            let after = screen.rsplit(&format!("usable-{mark}\n")).next().unwrap_or_default();
            ["icanon", "echo", "opost", "isig"].iter().all(|mode| after.lines().any(|line| line == *mode))
        });
        assert!(!screen.contains("agentctl · "), "{screen}");
    }
}

/// Whether a screen was drawn to its end: a terminal shows what has come so far, and the keys of the last line come last.
pub(crate) fn is_whole(screen: &str) -> bool {
    screen.starts_with(" agentctl · ") && screen.lines().last().is_some_and(|line| line.ends_with(" ?"))
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
