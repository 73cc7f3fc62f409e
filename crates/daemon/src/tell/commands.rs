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
use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::log::Log;

/// The longest time that a command may run.
const LONGEST: Duration = Duration::from_mins(5);
/// How many commands may run at once, so that a command that hangs does not multiply.
const AT_ONCE: usize = 16;
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
        let child = spawn(line, folder, variables);
        let (this, what) = (self.clone(), what.to_owned());
        std::thread::spawn(move || {
            match child.and_then(wait) {
                Ok(words) => this.log.say(&format!("{what}: {words}")),
                Err(error) => this.log.say(&format!("{what}: cannot be run: {error}")),
            }
            this.running.fetch_sub(1, Ordering::Relaxed);
        });
    }
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

fn wait(mut child: Child) -> io::Result<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(format!("{status} after {} ms", began.elapsed().as_millis()));
        }
        if began.elapsed() > LONGEST {
            // The child has not been waited for yet, so the process group is still its own.
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(format!("ended after {} minutes", LONGEST.as_secs() / 60));
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
