//! Commands of the user that the daemon runs, when a session waits or a fuse expires. This is the only place
//! in the crate that starts processes. The commands run beside the daemon, outlive it, and cannot block it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentctl_fleet::act::hook_variables::{CommandFacts, hook_variables};
use agentctl_model::Session;
use agentctl_model::notice::Notice;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::log::Log;

/// The longest time that a command may run.
const LONGEST: Duration = Duration::from_mins(5);
/// How many commands may run at once, so that a command that hangs does not multiply.
const AT_ONCE: usize = 16;
/// A notice is accepted within this time, or never.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) struct Commands {
    log: Log,
    running: Arc<AtomicUsize>,
}

pub(crate) type Variables = Vec<(&'static str, String)>;

impl Commands {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, running: Arc::new(AtomicUsize::new(0)) }
    }

    /// Starts a shell command and supervises it. Its output is discarded.
    pub(crate) fn run(&self, what: &str, line: &str, folder: Option<&Path>, variables: Variables) {
        if self.running.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.log.say(&format!("{what}: not run, {AT_ONCE} commands run already"));
            return;
        }
        self.supervise(what, spawn(line, folder, variables), LONGEST);
    }

    /// Shows a notice on the desktop.
    pub(crate) fn show(&self, what: &str, notice: &Notice) {
        if self.running.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.log.say(&format!("{what}: not shown, {AT_ONCE} commands run already"));
            return;
        }
        self.supervise(&format!("{what} on the desktop"), spawn_desktop(notice), SHOWN_WITHIN);
    }

    fn supervise(&self, what: &str, child: io::Result<Child>, longest: Duration) {
        let (this, what) = (self.clone(), what.to_owned());
        std::thread::spawn(move || {
            match child.and_then(|child| wait(child, longest)).map(|ended| ended.words) {
                Ok(words) => this.log.say(&format!("{what}: {words}")),
                Err(error) => this.log.say(&format!("{what}: cannot be run: {error}")),
            }
            this.running.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Runs a command of the user now and waits for it; the error says how it went.
pub fn run_and_wait(
    line: &str,
    variables: Vec<(&'static str, String)>,
    longest: Duration,
) -> Result<(), String> {
    went(spawn(line, None, variables).and_then(|child| wait(child, longest)), "sh")
}

/// Shows a notice on the desktop now and waits until it is accepted.
pub fn show_and_wait(notice: &Notice) -> Result<(), String> {
    went(spawn_desktop(notice).and_then(|child| wait(child, SHOWN_WITHIN)), DESKTOP)
}

fn went(ended: io::Result<Ended>, program: &str) -> Result<(), String> {
    match ended {
        Ok(ended) if ended.went_well => Ok(()),
        Ok(ended) => Err(format!("{program}: {}", ended.words)),
        Err(error) => Err(format!("{program} cannot be run: {error}")),
    }
}

/// The program that shows a notice on the desktop of this machine.
#[cfg(target_os = "macos")]
const DESKTOP: &str = "osascript";
#[cfg(not(target_os = "macos"))]
const DESKTOP: &str = "notify-send";

/// The words are arguments of their own, behind the last flag, and cannot be taken for one.
#[expect(clippy::disallowed_methods, reason = "the program that the user's desktop has for notices")]
fn spawn_desktop(notice: &Notice) -> io::Result<Child> {
    let (title, body) = (notice.title(), notice.body());
    let mut command = Command::new(DESKTOP);
    if cfg!(target_os = "macos") {
        let script = [
            "-e",
            "on run argv",
            "-e",
            "display notification (item 1 of argv) with title (item 2 of argv)",
            "-e",
            "end run",
        ];
        command.args(script).args([body, title]);
    } else {
        // The body may be shown as markup.
        let body = body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let urgency = if notice.is_urgent() { "critical" } else { "normal" };
        command.args(["--app-name", "agentctl", "--urgency", urgency, "--", &title, &body]);
    }
    command.process_group(0).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

#[expect(clippy::disallowed_methods, reason = "a command that the user configured")]
fn spawn(line: &str, folder: Option<&Path>, variables: Variables) -> io::Result<Child> {
    let mut command = Command::new("sh");
    // The command line is the user's own. Data of sessions is passed in variables and is never parsed by the
    // shell. The command gets the usual limit of open files instead of the daemon's.
    let usual = agentctl_process::open_files::usual().map(|soft| format!("ulimit -S -n {soft}\n"));
    command.args(["-c", &format!("{}{line}", usual.unwrap_or_default())]).envs(variables).process_group(0);
    command.current_dir(
        folder
            .filter(|folder| agentctl_files::is_folder_within(folder) == Ok(true))
            .unwrap_or(Path::new("/")),
    );
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// How a command ended.
struct Ended {
    words: String,
    went_well: bool,
}

fn wait(mut child: Child, longest: Duration) -> io::Result<Ended> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let words = format!("{status} after {} ms", began.elapsed().as_millis());
            return Ok(Ended { words, went_well: status.success() });
        }
        if began.elapsed() > longest {
            // The child has not been waited for yet, so the process group is still its own.
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            let words = format!("ended after {} seconds", longest.as_secs());
            return Ok(Ended { words, went_well: false });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The variables that describe a session to a command: those of every hook, and those of a notification.
pub(crate) fn about(session: Option<&Session>) -> Variables {
    let text = |pick: fn(&Session) -> Option<&String>| {
        let value = session.and_then(pick).map(|value| agentctl_model::text::one_line(value));
        value.unwrap_or_default().replace('\0', "")
    };
    let status = session.map(|session| session.status.as_str().to_owned()).unwrap_or_default();
    let mut variables = hook_variables(session, &CommandFacts::default());
    variables.extend([
        ("AGENTCTL_STATUS", status),
        ("AGENTCTL_DETAIL", text(|session| session.status_detail.as_ref())),
        ("AGENTCTL_NAME", text(|session| session.name.as_ref().or(session.prompt.as_ref()))),
    ]);
    variables
}
