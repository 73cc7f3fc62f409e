//! The daemon as a process: found by its socket and its lock, started in the background, asked to end. Never by a name or
//! a pid that was written down.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentctl_daemon::{DaemonStatus, Held, Home};
use agentctl_model::ProcessRef;
use agentctl_process::{Proven, Signal, SignalError};

use crate::client::{Ask, Client, OWN_VERSION};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;

/// How long a daemon may take until it answers, and until it is gone.
const START: Duration = Duration::from_secs(15);
const END: Duration = Duration::from_secs(10);
/// How often it is looked whether it is so far.
const LOOK: Duration = Duration::from_millis(10);
const LAST_LINES: usize = 5;

/// How a daemon is to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) read_only: bool,
}

pub(crate) struct DaemonProcess<'a> {
    surroundings: &'a Surroundings,
    home: Home,
    client: Client,
}

/// What starting did.
pub(crate) enum Started {
    Now(DaemonStatus),
    Already(DaemonStatus),
}

impl<'a> DaemonProcess<'a> {
    /// `None` for a home is a machine without HOME.
    pub(crate) fn new(surroundings: &'a Surroundings) -> Result<Self, Failure> {
        let Some((folder, _)) = surroundings.own_folder() else {
            let failure = Failure::new(Exit::NoDaemon, "HOME is not set, so there is no place for a daemon");
            return Err(failure.hint("set HOME or AGENTCTL_HOME"));
        };
        let home = Home::at(folder);
        let client = Client::at(home.socket());
        Ok(Self { surroundings, home, client })
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What the daemon says of itself; `None` when none answers.
    pub(crate) fn status(&self) -> Option<DaemonStatus> {
        let answer = self.client.ask(Ask::get("/v1/daemon")).ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// A daemon of this version, started if there is none. For commands that cannot do without.
    pub(crate) fn needed(&self) -> Result<&Client, Failure> {
        if self.surroundings.client().is_none() {
            let failure =
                Failure::new(Exit::NoDaemon, "this needs the daemon, and AGENTCTL_NO_DAEMON is set");
            return Err(failure.hint("unset AGENTCTL_NO_DAEMON"));
        }
        self.start(Manner::default())?;
        Ok(&self.client)
    }

    /// Starts one in the background unless one runs, and does not wait for it. For commands that do without: where none can
    /// be had they go on, and `daemon logs` says why.
    pub(crate) fn wanted(surroundings: &'a Surroundings) {
        let start = || -> Result<(), Failure> {
            let process = Self::new(surroundings)?;
            if surroundings.client().is_none() || process.client.is_heard() {
                return Ok(());
            }
            process.home.prepare().map_err(|error| Failure::new(Exit::NoDaemon, error.to_string()))?;
            // Of several that are started at once one stays.
            process.spawn(Manner::default()).map(drop)
        };
        drop(start());
    }

    /// Starts one unless one runs. An older or newer one makes way, and passes its manner on.
    pub(crate) fn start(&self, manner: Manner) -> Result<Started, Failure> {
        let mut manner = manner;
        // One that answers nothing we understand may be very old, or just ending.
        let answers = self.client.ask(Ask::get("/healthz"));
        if let Ok(answer) = answers {
            let status = self.status();
            match status {
                Some(status) if answer.is_of_our_version() => return Ok(Started::Already(status)),
                other => {
                    let http = other.as_ref().and_then(|status| status.http.as_ref()?.parse().ok());
                    manner.http = manner.http.or(http);
                    manner.read_only |= other.is_some_and(|status| status.read_only);
                    self.stop()?;
                }
            }
        }
        self.home.prepare().map_err(|error| Failure::new(Exit::NoDaemon, error.to_string()))?;
        let logged = std::fs::metadata(self.home.log()).map_or(0, |log| log.len());
        let mut child = self.spawn(manner)?;
        let deadline = Instant::now() + START;
        loop {
            if let Some(status) = self.status().filter(|status| status.version == OWN_VERSION) {
                return Ok(if status.pid == child.id() {
                    Started::Now(status)
                } else {
                    Started::Already(status)
                });
            }
            let ended = child.try_wait().ok().flatten();
            // Another one may have been faster; it will answer.
            if ended.is_some_and(|ended| !ended.success()) || Instant::now() > deadline {
                let words = "the daemon did not start".to_owned();
                let log = self.words_since(logged);
                let message = if log.is_empty() { words } else { format!("{words}\n{log}") };
                return Err(
                    Failure::new(Exit::NoDaemon, message).hint("`agentctl daemon run` shows what it does")
                );
            }
            std::thread::sleep(LOOK);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the daemon is this program")]
    fn spawn(&self, manner: Manner) -> Result<Child, Failure> {
        let failed =
            |what: &str, error: std::io::Error| Failure::new(Exit::NoDaemon, format!("{what}: {error}"));
        let program = std::env::current_exe().map_err(|error| failed("cannot find this program", error))?;
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).mode(0o600).open(self.home.log());
        let log =
            log.map_err(|error| failed(&format!("cannot write {}", self.home.log().display()), error))?;
        let errors = log.try_clone().map_err(|error| failed("cannot share the log", error))?;
        let mut command = Command::new(program);
        command.args(["daemon", "run", "--detached"]);
        if let Some(http) = manner.http {
            command.args(["--http", &http.to_string()]);
        }
        if manner.read_only {
            command.arg("--read-only");
        }
        command.env("AGENTCTL_HOME", self.home.folder()).env_remove("NOTIFY_SOCKET");
        for mark in agentctl_fleet::all_marks() {
            command.env_remove(mark);
        }
        // It must not keep anybody's folder or terminal busy.
        command.current_dir(self.home.folder()).stdin(Stdio::null()).stdout(log).stderr(errors);
        command.spawn().map_err(|error| failed("cannot start the daemon", error))
    }

    /// Ends the daemon and waits until it is gone. Says whether there was one.
    pub(crate) fn stop(&self) -> Result<bool, Failure> {
        if self.is_free()? {
            return Ok(false);
        }
        // One that agreed ends by itself; what became of it shows in the lock. One that only reads agrees to nothing, and is
        // ended by a signal.
        let agreed = self.client.ask(Ask::write("POST", "/v1/daemon/stop", "{}"));
        if agreed.is_ok_and(|answer| answer.is_done()) && self.wait_free(END)? {
            return Ok(true);
        }
        for signal in [Signal::Terminate, Signal::Kill] {
            let Some(holder) = self.holder() else { break };
            // Whoever holds the lock, only agentctl is ended.
            let failed = |error: SignalError| Failure::new(Exit::Failed, error.to_string());
            let proven = Proven::of_agentctl(agentctl_process::system().as_ref(), holder).map_err(failed)?;
            if let Some(proven) = proven {
                proven.signal(signal).map_err(failed)?;
            }
            if self.wait_free(END)? {
                return Ok(true);
            }
        }
        Err(Failure::new(
            Exit::Failed,
            format!("the daemon of {} does not end", self.home.folder().display()),
        ))
    }

    fn wait_free(&self, patience: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + patience;
        while !self.is_free()? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Whether nobody is the daemon. The lock is given back at once.
    pub(crate) fn is_free(&self) -> Result<bool, Failure> {
        if self.home.lock_identity().is_none() {
            return Ok(true);
        }
        let held: Option<Held> =
            self.home.hold().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(held.is_some())
    }

    /// The process that holds the lock, as the kernel knows it.
    fn holder(&self) -> Option<ProcessRef> {
        let (device, inode) = self.home.lock_identity()?;
        let kernel = agentctl_process::system();
        let locks = kernel.locks();
        let pid = locks.seen()?.iter().find(|lock| lock.device == device && lock.inode == inode)?.pid;
        let heads = kernel.heads();
        heads.seen()?.iter().map(|head| head.process).find(|process| process.pid == pid)
    }

    pub(crate) fn last_lines(&self, count: usize) -> Vec<String> {
        let read = |path| std::fs::read(path).unwrap_or_default();
        let mut bytes = read(self.home.log().with_extension("log.1"));
        bytes.extend(read(self.home.log()));
        let text = agentctl_model::text::clean(&String::from_utf8_lossy(&bytes));
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    /// The last of what was logged behind so many bytes: what one before it said is not its words.
    fn words_since(&self, logged: u64) -> String {
        let bytes = std::fs::read(self.home.log()).unwrap_or_default();
        // A log that is shorter was begun anew meanwhile.
        let behind = usize::try_from(logged).ok().and_then(|logged| bytes.get(logged..)).unwrap_or(&bytes);
        let text = agentctl_model::text::clean(&String::from_utf8_lossy(behind));
        let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
