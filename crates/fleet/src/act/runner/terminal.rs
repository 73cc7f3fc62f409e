//! An agent on its own screen: a tmux server of this launch alone, with one session, which ends with the agent.
//!
//! tmux only carries the terminal. Its server gets neither the prompt nor the caller's variables, which would be visible
//! in it for as long as it lives, nor the mark of the launch, by which a stop would end it. The process in its pane is
//! `agentctl __screen FOLDER`, which becomes the agent. So the agent is no child of the runner, and killing the runner
//! changes nothing for the session.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_model::{Environ, Error, SpawnPlan, Surveyed, text};
use agentctl_process::{Order, Started, identity, spawn};

use super::{Runner, failed};
use crate::Fleet;
use crate::act::caller::Caller;
use crate::keep::launches::{LaunchFolder, MARK, ScreenOrder};

/// The agentctl command that becomes the agent.
pub const SCREEN: &str = "__screen";

/// How long tmux may take to start. It forks and answers.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The size of the screen until somebody opens it.
const SIZE: [&str; 4] = ["-x", "200", "-y", "50"];

/// How many lines of a screen are told.
const MOST_LINES: usize = 12;

/// What tmux itself needs of the caller's variables.
const FOR_TMUX: [&str; 8] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE"];

/// What tmux tells the process in a pane about its terminal. The caller's own terminal is another one.
const OF_TERMINAL: [&str; 5] = ["TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE"];

/// The longest address of a socket, without its final NUL.
const LONGEST_SOCKET: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// Finds tmux, or says what to do without it.
pub(crate) fn tmux_program(caller: &Caller) -> Result<PathBuf, Error> {
    caller.find_program(Path::new("tmux")).ok_or_else(|| {
        Error::agent_failed("--terminal needs tmux, and there is no program `tmux` on the PATH").hint(
            "install it (`apt install tmux`, `brew install tmux`), or launch without --terminal or with --hold",
        )
    })
}

impl Fleet {
    /// The socket of the tmux server that shows the screen of this session, if its launch opened one.
    pub fn screen_of(&self, target: &Surveyed) -> Option<PathBuf> {
        let socket = self.launch_of(target)?.screen_socket();
        socket.exists().then_some(socket)
    }
}

impl Runner<'_> {
    /// Starts the agent in a pane of its own tmux server.
    pub(super) fn start_on_screen(&self, program: &Path, plan: &SpawnPlan) -> Result<Started, Error> {
        let tmux = tmux_program(self.caller)?;
        let socket = self.folder.screen_socket();
        if socket.as_os_str().len() > LONGEST_SOCKET {
            let reason = format!("the path of tmux's socket is too long for one: {}", socket.display());
            return Err(Error::refused(reason).hint("set AGENTCTL_HOME to a shorter path"));
        }
        let mut environ = self.caller.clean_environ();
        plan.env.iter().for_each(|(name, value)| environ.set(name, value));
        environ.set(MARK, &self.record.id);
        let order = ScreenOrder {
            program: program.into(),
            args: plan.args.iter().map(Into::into).collect(),
            variables: environ.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            cwd: plan.cwd.clone().into(),
        };
        let written = self.folder.write_screen_order(&order);
        written.map_err(|error| failed("write what the screen is to show", &error))?;
        let pid = self.open_screen(&tmux, &socket);
        if pid.is_err() {
            self.folder.forget_screen_order();
        }
        let pid = pid.map_err(|error| failed("open a screen with tmux", &error))?;
        let process = identity(pid).ok_or_else(|| {
            Error::agent_failed(format!("`{}` ended as soon as its screen was opened", plan.program))
        })?;
        Ok(Started::elsewhere(process))
    }

    /// An agent may ask something on its screen before it takes the prompt, such as whether it may trust the directory.
    /// Whoever waited for it in vain is told what it shows.
    pub(super) fn with_screen(&self, error: Error) -> Error {
        let shown = if self.record.order.terminal { self.shown() } else { None };
        match shown {
            Some(shown) if shown.is_empty() => error.hint("its screen shows nothing so far"),
            Some(shown) => error.hint(format!("its screen shows: {shown}")),
            None => error,
        }
    }

    /// The last lines of the screen, as one; `None` if there is no screen any more.
    fn shown(&self) -> Option<String> {
        let tmux = tmux_program(self.caller).ok()?;
        let mut args: Vec<OsString> = vec!["-S".into(), self.folder.screen_socket().into()];
        args.extend(["capture-pane", "-p", "-t", &self.record.id].map(Into::into));
        self.ask_tmux(&tmux, args, "shown").ok()?;
        let screen = self.folder.output("shown", 64 << 10);
        let lines: Vec<&str> = screen.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(MOST_LINES)..];
        Some(text::clean(&last.join(" / ")))
    }

    /// Returns the process in the pane.
    fn open_screen(&self, tmux: &Path, socket: &Path) -> io::Result<u32> {
        // The user's own settings could keep a dead screen, or end one that nobody looks at.
        let mut args: Vec<OsString> = ["-f", "/dev/null", "-S"].map(Into::into).into();
        args.push(socket.into());
        args.extend(["new-session", "-d", "-s", &self.record.id].map(Into::into));
        args.extend(["-n", &self.record.order.adapter, "-P", "-F", "#{pane_pid}"].map(Into::into));
        args.extend(SIZE.map(Into::into));
        args.extend([self.caller.agentctl.clone().into(), SCREEN.into(), self.folder.path().into()]);
        self.ask_tmux(tmux, args, "screen")?;
        self.folder.output("screen", 64).trim().parse().map_err(io::Error::other)
    }

    /// Runs tmux to its end; what it prints goes to this file of the launch folder.
    fn ask_tmux(&self, tmux: &Path, args: Vec<OsString>, answer: &str) -> io::Result<()> {
        let variable = |name: &&str| Some(((*name).to_owned(), self.caller.environ.get(name)?.to_owned()));
        let mut started = spawn(Order {
            program: tmux.to_owned(),
            args,
            environ: FOR_TMUX.iter().filter_map(variable).collect(),
            cwd: self.folder.path().to_owned(),
            stdin: None,
            stdout: self.folder.open_output(answer)?,
            stderr: self.folder.open_output("stderr")?,
        })?;
        match started.ends_within(TIMEOUT)? {
            Some(ending) if ending.is_success() => Ok(()),
            Some(_) => Err(io::Error::other(self.folder.output("stderr", 512).trim().to_owned())),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Becomes the agent whose screen this terminal is to show. Returns only on failure.
pub fn become_agent(folder: &LaunchFolder, terminal: &Environ) -> io::Error {
    let order = match folder.take_screen_order() {
        Ok(order) => order,
        Err(error) => return error,
    };
    let environ = variables(order.variables.into_iter().collect(), terminal);
    agentctl_process::spawn::become_program(
        Path::new(&order.program),
        &order.args,
        &environ,
        Path::new(&order.cwd),
    )
}

/// The caller's variables, with those of this terminal.
fn variables(mut environ: Environ, terminal: &Environ) -> Environ {
    for name in OF_TERMINAL {
        match terminal.get(name) {
            Some(value) => environ.set(name, value),
            None => environ.remove(name),
        }
    }
    environ
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_is_that_of_the_pane_and_the_rest_is_the_callers() {
        let caller = [("TERM", "vt100"), ("TMUX", "/theirs,1,0"), ("TERM_PROGRAM", "x"), ("KEY", "secret")];
        let pane = [("TERM", "screen"), ("TMUX", "/ours,2,0"), ("KEY", "of the server"), ("MORE", "1")];
        let together = variables(caller.into_iter().collect(), &pane.into_iter().collect());
        let wanted: Environ =
            [("TERM", "screen"), ("TMUX", "/ours,2,0"), ("KEY", "secret")].into_iter().collect();
        assert_eq!(together, wanted);
    }
}
