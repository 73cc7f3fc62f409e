//! The daemon as a process: found by its socket and its lock, started in the background, asked to end. It is
//! never identified by a name or a stored pid.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_daemon::{DaemonLock, DaemonStatus, Home, RunError, is_impostor};
use agentctl_files::own;
use agentctl_fleet::KernelLock;
use agentctl_model::{ErrorKind, ProcessHead};
use agentctl_process::{Proven, Signal, SignalError};

use crate::failure::Failure;
use crate::link::client::{Ask, Client, OWN_VERSION, is_silent};
use crate::output::Output;
use crate::surroundings::Surroundings;

/// How long a daemon may take until it answers, and until it is gone.
const START: Duration = Duration::from_secs(15);
const END: Duration = Duration::from_secs(10);
/// How long the lock of a dying daemon may outlive what else the kernel shows of it.
const ENDING: Duration = Duration::from_secs(2);
/// How often its state is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const LAST_LINES: usize = 5;
/// The log is rotated long before it reaches this size.
const LARGEST_LOG: u64 = 64 << 20;
/// How long to wait for other processes that start or restart the daemon.
const START_LOCK_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a restart is retried because another process started a daemon with other options meanwhile.
const RESTARTS: usize = 5;

/// The options of a daemon.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) read_only: bool,
}

impl Manner {
    /// The requested options that this daemon lacks, as flags. Options that were not requested may have any
    /// value.
    pub(crate) fn missing_in(self, status: &DaemonStatus) -> String {
        let served: Option<SocketAddr> = status.http.as_ref().and_then(|http| http.parse().ok());
        // Port 0 means any port.
        let fits = |asked: SocketAddr| {
            served.is_some_and(|served| {
                served.ip() == asked.ip() && (asked.port() == 0 || served.port() == asked.port())
            })
        };
        let http = self.http.filter(|asked| !fits(*asked)).map(|asked| format!("--http {asked}"));
        let read_only = (self.read_only && !status.read_only).then(|| "--read-only".to_owned());
        http.into_iter().chain(read_only).collect::<Vec<_>>().join(" ")
    }

    /// These options, completed by those that another daemon got by flags.
    fn or(self, other: Self) -> Self {
        Self { http: self.http.or(other.http), read_only: self.read_only || other.read_only }
    }

    /// The options that a responding daemon got by flags. The next daemon reads those of the config itself.
    fn of(status: &DaemonStatus) -> Self {
        let http = status.http.as_ref().filter(|_| !status.http_from_config);
        Self { http: http.and_then(|http| http.parse().ok()), read_only: status.read_only }
    }

    /// The options of a daemon that does not answer, from its command line.
    fn of_line(head: &ProcessHead) -> Self {
        let http = head.option("--http").and_then(|http| http.parse().ok());
        Self { http, read_only: head.argv.iter().any(|word| word == "--read-only") }
    }
}

/// The current state of the daemon.
pub(crate) enum Presence {
    Answers(Box<DaemonStatus>),
    /// A process holds the daemon's lock and does not answer: it is stopped, overloaded, or just starting.
    Silent {
        pid: Option<u32>,
    },
    Nobody,
}

pub(crate) struct DaemonProcess<'a> {
    surroundings: &'a Surroundings,
    home: Home,
    client: Client,
}

/// The result of a start.
pub(crate) enum Started {
    Now(DaemonStatus),
    Already(DaemonStatus),
}

impl<'a> DaemonProcess<'a> {
    /// Fails on a machine without HOME.
    pub(crate) fn new(surroundings: &'a Surroundings) -> Result<Self, Failure> {
        let Some((folder, _)) = surroundings.own_folder() else {
            let failure =
                Failure::new(ErrorKind::NoDaemon, "HOME is not set, so there is no place for a daemon");
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

    /// The daemon's own status; `None` when no daemon answers.
    pub(crate) fn status(&self) -> Option<DaemonStatus> {
        let answer = self.client.ask(Ask::get("/v1/daemon")).ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// A client for requests that could also be handled another way.
    fn hurried_client(&self) -> Client {
        self.client.clone().with_short_timeout(Arc::default())
    }

    /// The state of the daemon, without a long wait.
    pub(crate) fn presence(&self) -> Result<Presence, Failure> {
        let answer = self.hurried_client().ask(Ask::get("/v1/daemon"));
        if let Ok(status) = answer.map(|answer| serde_json::from_slice(&answer.body))
            && let Ok(status) = status
        {
            return Ok(Presence::Answers(Box::new(status)));
        }
        if self.is_free()? {
            return Ok(Presence::Nobody);
        }
        Ok(Presence::Silent { pid: self.holder().map(|holder| holder.process.pid) })
    }

    /// The message that a process holds the lock and does not answer, with a hint.
    pub(crate) fn silent(pid: Option<u32>) -> (String, &'static str) {
        let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let words = format!("the daemon{pid} holds its lock and does not answer");
        (words, "`agentctl daemon restart` ends it and starts another one; agents go on")
    }

    /// A daemon of this version, started if none runs. For commands that require it.
    pub(crate) fn needed(&self) -> Result<&Client, Failure> {
        if self.surroundings.client().is_none() {
            let failure =
                Failure::new(ErrorKind::NoDaemon, "this needs the daemon, and AGENTCTL_NO_DAEMON is set");
            return Err(failure.hint("unset AGENTCTL_NO_DAEMON"));
        }
        self.start(Manner::default())?;
        Ok(&self.client)
    }

    /// Starts a daemon in the background unless one runs, without waiting for it. For commands that can do
    /// without: they continue when it cannot be started, and `daemon logs` shows why. A configured port that
    /// is taken is reported at once.
    pub(crate) fn wanted(surroundings: &'a Surroundings, out: &mut Output) {
        let mut start = || -> Result<(), Failure> {
            let process = Self::new(surroundings)?;
            if surroundings.client().is_none() || process.client.is_heard() {
                return Ok(());
            }
            process.prepare()?;
            // Another process is starting a daemon just now.
            let Some(start_lock) = process.try_start_lock(Duration::ZERO)? else { return Ok(()) };
            if !process.is_free()? {
                return Ok(());
            }
            if let Some(words) = process.taken_port() {
                out.warn(&words);
                return Ok(());
            }
            process.spawn(Manner::default(), Some(start_lock)).map(drop)
        };
        drop(start());
    }

    /// Why the port that the config names cannot be used, so that no daemon would start.
    fn taken_port(&self) -> Option<String> {
        let address = self.surroundings.settings().ok()?.http.value?;
        let error = TcpListener::bind(address).err()?;
        Some(format!("no daemon is started: http = \"{address}\" of config.toml cannot be served: {error}"))
    }

    fn prepare(&self) -> Result<(), Failure> {
        self.home.prepare().map_err(|error| Failure::new(ErrorKind::NoDaemon, error.to_string()))
    }

    /// While this lock is held no other process starts a daemon, so a daemon that a restart ended is not
    /// replaced by one that lacks its options.
    fn try_start_lock(&self, timeout: Duration) -> Result<Option<KernelLock>, Failure> {
        let path = self.home.folder().join("start.lock");
        KernelLock::on_file(&path, timeout).map_err(|error| {
            Failure::new(ErrorKind::NoDaemon, format!("cannot lock {}: {error}", path.display()))
        })
    }

    fn start_lock(&self) -> Result<KernelLock, Failure> {
        self.prepare()?;
        self.try_start_lock(START_LOCK_TIMEOUT)?.ok_or_else(|| {
            Failure::new(ErrorKind::NoDaemon, "another agentctl has been starting the daemon for a minute")
                .hint("`agentctl daemon status` says how far it came")
        })
    }

    /// A responding daemon of this version. A daemon that runs and does not answer is an error: it cannot be
    /// used, and it is not replaced without the user's request.
    fn answering(&self) -> Result<Option<DaemonStatus>, Failure> {
        let deadline = Instant::now() + ENDING;
        loop {
            let asked = self.client.ask(Ask::get("/healthz")).and_then(|answer| {
                let ours = answer.is_of_our_version();
                ours.then(|| self.client.ask(Ask::get("/v1/daemon"))).transpose()
            });
            match asked {
                // A daemon whose answer cannot be parsed may be very old, or just ending.
                Ok(answer) => return Ok(answer.and_then(|answer| serde_json::from_slice(&answer.body).ok())),
                // Another process may listen at the socket while the daemon itself holds its lock. It looks the same for a moment
                // when a daemon dies, whose open files the kernel no longer shows before its lock is free.
                Err(error) if is_impostor(&error) && !self.is_free()? && Instant::now() < deadline => {
                    std::thread::sleep(POLL_INTERVAL);
                }
                Err(error) if is_silent(&error) || (is_impostor(&error) && !self.is_free()?) => {
                    let (words, hint) = Self::silent(self.holder().map(|holder| holder.process.pid));
                    return Err(Failure::new(ErrorKind::NoDaemon, words).hint(hint));
                }
                Err(_) => return Ok(None),
            }
        }
    }

    /// Starts a daemon unless one runs. One of another version is replaced and passes its options on.
    pub(crate) fn start(&self, manner: Manner) -> Result<Started, Failure> {
        if let Some(status) = self.answering()? {
            return Ok(Started::Already(status));
        }
        let _start_lock = self.start_lock()?;
        self.start_locked(manner)
    }

    /// Ends the running daemon and starts one with its options and the requested ones.
    pub(crate) fn restart(&self, manner: Manner) -> Result<DaemonStatus, Failure> {
        let _start_lock = self.start_lock()?;
        let present = self.presence()?;
        let before = match &present {
            Presence::Answers(status) => Manner::of(status),
            Presence::Silent { .. } => self.holder().map(|head| Manner::of_line(&head)).unwrap_or_default(),
            Presence::Nobody => Manner::default(),
        };
        let manner = manner.or(before);
        let wanted = self.under_config(manner)?;
        Self::check_address(wanted, manner.http.is_none(), &present)?;
        let mut ended = false;
        for _ in 0..RESTARTS {
            ended |= self.stop()?;
            let started = self.start_locked(manner);
            match started
                .map_err(|failure| if ended { failure.and("the one before it has ended") } else { failure })?
            {
                Started::Now(status) => return Ok(status),
                Started::Already(status) if wanted.missing_in(&status).is_empty() => return Ok(status),
                // A daemon that another process was already starting does not count.
                Started::Already(_) => {}
            }
        }
        Err(Failure::new(ErrorKind::NoDaemon, "somebody else starts a daemon again and again"))
    }

    /// The options that a daemon started this way will have: the config decides where no flag does.
    pub(crate) fn under_config(&self, manner: Manner) -> Result<Manner, Failure> {
        let settings = self.surroundings.settings()?;
        // Without a flag it is not known whether, and where, http is to be served.
        let invalid = settings.invalid(&["http"]).filter(|_| manner.http.is_none());
        if let Some(mistake) = invalid {
            return Err(self.surroundings.because_of(mistake));
        }
        Ok(Manner { http: manner.http.or(settings.http.value), ..manner })
    }

    /// Refuses an address that the new daemon could not serve, while the old one still runs. The old one's
    /// own address becomes free when it ends.
    fn check_address(wanted: Manner, configured: bool, before: &Presence) -> Result<(), Failure> {
        let Some(address) = wanted.http else { return Ok(()) };
        if !address.ip().is_loopback() {
            return Err(Failure::new(ErrorKind::Usage, RunError::NotLoopback(address).to_string()));
        }
        let may_be_its_own = match before {
            Presence::Answers(status) => {
                status.http.as_ref().and_then(|http| http.parse().ok()) == Some(address)
            }
            Presence::Silent { .. } => true,
            Presence::Nobody => false,
        };
        let Some(source) = TcpListener::bind(address).err().filter(|_| !may_be_its_own) else {
            return Ok(());
        };
        let place = if configured { " (http of config.toml)" } else { "" };
        let goes_on = match before {
            Presence::Answers(status) => format!("; the daemon that runs (pid {}) goes on", status.pid),
            _ => String::new(),
        };
        let words = format!("{}{place}{goes_on}", RunError::Http { address, source });
        Err(Failure::new(ErrorKind::NoDaemon, words)
            .hint("end the program that uses that port, or name another port"))
    }

    fn start_locked(&self, manner: Manner) -> Result<Started, Failure> {
        let mut manner = manner;
        if let Some(status) = self.answering()? {
            return Ok(Started::Already(status));
        }
        if self.client.ask(Ask::get("/healthz")).is_ok() {
            manner = manner.or(self.status().map(|status| Manner::of(&status)).unwrap_or_default());
            self.stop()?;
        }
        let logged = std::fs::metadata(self.home.log()).map_or(0, |log| log.len());
        let mut child = self.spawn(manner, None)?;
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
            // Another daemon may have been faster; it will answer.
            if ended.is_some_and(|ended| !ended.success()) || Instant::now() > deadline {
                let words = "the daemon did not start".to_owned();
                let log = self.words_since(logged);
                let message = if log.is_empty() { words } else { format!("{words}\n{log}") };
                return Err(Failure::new(ErrorKind::NoDaemon, message)
                    .hint("`agentctl daemon run` shows what it does"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Starts the process. A start lock that is passed on stays held, as the standard input of the daemon,
    /// until the daemon holds its own lock, so that a later `daemon stop` does not overlook it.
    #[expect(clippy::disallowed_methods, reason = "the daemon is this program")]
    fn spawn(&self, manner: Manner, start_lock: Option<KernelLock>) -> Result<Child, Failure> {
        let failed =
            |what: &str, error: std::io::Error| Failure::new(ErrorKind::NoDaemon, format!("{what}: {error}"));
        let program = std::env::current_exe().map_err(|error| failed("cannot find this program", error))?;
        let log = own::append(&self.home.log());
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
        // The daemon must not keep a caller's folder or terminal in use.
        let stdin = start_lock.and_then(KernelLock::into_file).map_or_else(Stdio::null, Stdio::from);
        command.current_dir(self.home.folder()).stdin(stdin).stdout(log).stderr(errors);
        command.spawn().map_err(|error| failed("cannot start the daemon", error))
    }

    /// Ends the daemon, also one that another command is just starting. Returns whether one ran.
    pub(crate) fn stop_any(&self) -> Result<bool, Failure> {
        let _start_lock = if self.home.folder().is_dir() { self.try_start_lock(START)? } else { None };
        self.stop()
    }

    /// Ends the daemon and waits until it is gone. Returns whether one ran.
    fn stop(&self) -> Result<bool, Failure> {
        if self.is_free()? {
            return Ok(false);
        }
        // A daemon that accepts the request ends by itself, which shows in the lock. A read-only daemon
        // accepts no request and is ended by a signal.
        let agreed = self.hurried_client().ask(Ask::write("POST", "/v1/daemon/stop", "{}"));
        if agreed.is_ok_and(|answer| answer.is_done()) && self.wait_free(END)? {
            return Ok(true);
        }
        for signal in [Signal::Terminate, Signal::Kill] {
            let Some(holder) = self.holder().map(|holder| holder.process) else { break };
            // Only agentctl is ended, whichever process holds the lock.
            let failed = |error: SignalError| Failure::new(ErrorKind::Failed, error.to_string());
            let proven = Proven::of_agentctl(agentctl_process::system().as_ref(), holder).map_err(failed)?;
            if let Some(proven) = proven {
                proven.signal(signal).map_err(failed)?;
                // A stopped process handles the signal only after it continues.
                proven.signal(Signal::Continue).map_err(failed)?;
            }
            if self.wait_free(END)? {
                return Ok(true);
            }
        }
        Err(Failure::new(
            ErrorKind::Failed,
            format!("the daemon of {} does not end", self.home.folder().display()),
        ))
    }

    fn wait_free(&self, timeout: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + timeout;
        while !self.is_free()? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(true)
    }

    /// Whether no daemon runs. The lock is released at once.
    pub(crate) fn is_free(&self) -> Result<bool, Failure> {
        if self.home.lock_identity().is_none() {
            return Ok(true);
        }
        let held: Option<DaemonLock> =
            self.home.hold().map_err(|error| Failure::new(ErrorKind::Failed, error.to_string()))?;
        Ok(held.is_some())
    }

    /// The process that holds the lock, as the kernel reports it.
    fn holder(&self) -> Option<ProcessHead> {
        let (device, inode) = self.home.lock_identity()?;
        let kernel = agentctl_process::system();
        let locks = kernel.locks();
        let pid = locks.seen()?.iter().find(|lock| lock.device == device && lock.inode == inode)?.pid;
        let heads = kernel.heads();
        heads.seen()?.iter().find(|head| head.process.pid == pid).cloned()
    }

    pub(crate) fn last_lines(&self, count: usize) -> Vec<String> {
        let read = |path: PathBuf| own::read(&path, LARGEST_LOG).unwrap_or_default();
        let mut bytes = read(self.home.log().with_extension("log.1"));
        bytes.extend(read(self.home.log()));
        let text = agentctl_model::text::clean(&String::from_utf8_lossy(&bytes));
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[lines.len().saturating_sub(count)..].to_vec()
    }

    /// The last log lines after this many bytes: earlier lines belong to another daemon.
    fn words_since(&self, logged: u64) -> String {
        let bytes = own::read(&self.home.log(), LARGEST_LOG).unwrap_or_default();
        // A shorter log has been rotated in the meantime.
        let behind = usize::try_from(logged).ok().and_then(|logged| bytes.get(logged..)).unwrap_or(&bytes);
        let text = agentctl_model::text::clean(&String::from_utf8_lossy(behind));
        let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
