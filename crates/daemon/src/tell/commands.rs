//! Commands of the user that the daemon runs: what to do when a session waits, when a fuse expires. The only place of
//! this room that starts processes. They run beside the daemon, outlive it, and cannot hold it up.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentctl_model::{Outcome, Session};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::run::log::Log;

/// The longest that a command may run.
const LONGEST: Duration = Duration::from_mins(5);
/// How many may run at once; a command that hangs must not multiply.
const AT_ONCE: usize = 16;
const LOOK: Duration = Duration::from_millis(50);

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

    /// Starts a command line of the shell and looks after it. What it prints goes nowhere.
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
    // The line is the user's own; what comes from sessions travels in variables and never through the shell's eyes. What
    // it starts has the usual limit of open files, not the daemon's.
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
            // Not waited for yet, so the group is still its own.
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(format!("ended after {} minutes", LONGEST.as_secs() / 60));
        }
        std::thread::sleep(LOOK);
    }
}

/// What hooks are told of a session: always all of it, empty where it is not known.
pub(crate) fn about(session: Option<&Session>) -> Variables {
    let text =
        |value: Option<&String>| value.map(|value| agentctl_model::text::one_line(value)).unwrap_or_default();
    let exit = session.and_then(|session| session.launch.as_ref()?.exit_code);
    let status = session.map(|session| session.status.as_str().to_owned()).unwrap_or_default();
    let outcome = session.and_then(|session| session.outcome).map_or("", Outcome::as_str);
    vec![
        ("AGENTCTL_SESSION_ID", text(session.map(|session| &session.id))),
        ("AGENTCTL_CWD", session.and_then(|session| session.cwd.clone()).unwrap_or_default()),
        ("AGENTCTL_ADAPTER", text(session.map(|session| &session.adapter))),
        ("AGENTCTL_BRANCH", text(session.and_then(|session| session.branch.as_ref()))),
        ("AGENTCTL_EXIT_CODE", exit.map(|code| code.to_string()).unwrap_or_default()),
        ("AGENTCTL_GROUP", text(session.and_then(|session| session.group.as_ref()))),
        ("AGENTCTL_MODEL", text(session.and_then(|session| session.model.as_ref()))),
        ("AGENTCTL_OUTCOME", outcome.to_owned()),
        ("AGENTCTL_STATUS", status),
        ("AGENTCTL_DETAIL", text(session.and_then(|session| session.status_detail.as_ref()))),
        (
            "AGENTCTL_NAME",
            text(session.and_then(|session| session.name.as_ref().or(session.prompt.as_ref()))),
        ),
    ]
    .into_iter()
    // A zero byte would end the variable early, and the command could not be started.
    .map(|(name, value)| (name, value.replace('\0', "")))
    .collect()
}
