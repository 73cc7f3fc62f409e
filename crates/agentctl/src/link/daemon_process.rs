//! The daemon as a process: found by its socket and its lock, started in the background, asked to end. Never by a name or
//! a pid that was written down.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_daemon::{DaemonLock, DaemonStatus, Home, RunError, is_impostor};
use agentctl_files::own;
use agentctl_fleet::KernelLock;
use agentctl_model::ProcessHead;
use agentctl_process::{Proven, Signal, SignalError};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::client::{Ask, Client, OWN_VERSION, is_silent};
use crate::output::Output;
use crate::surroundings::Surroundings;

/// How long a daemon may take until it answers, and until it is gone.
const START: Duration = Duration::from_secs(15);
const END: Duration = Duration::from_secs(10);
/// How often it is looked whether it is so far.
const LOOK: Duration = Duration::from_millis(10);
const LAST_LINES: usize = 5;
/// A log is begun anew long before.
const LARGEST_LOG: u64 = 64 << 20;
/// How long others may take to start or restart it, before nobody waits for them any more.
const OTHERS: Duration = Duration::from_mins(1);
/// How often a restart is tried again because somebody else started one in another manner meanwhile.
const RESTARTS: usize = 5;

/// How a daemon is to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    pub(crate) http: Option<SocketAddr>,
    pub(crate) read_only: bool,
}

impl Manner {
    /// What is asked for and this daemon does not do, as flags. What is not asked for may be as it is.
    pub(crate) fn missing_in(self, status: &DaemonStatus) -> String {
        let served: Option<SocketAddr> = status.http.as_ref().and_then(|http| http.parse().ok());
        // Port 0 is any port.
        let fits = |asked: SocketAddr| {
            served.is_some_and(|served| {
                served.ip() == asked.ip() && (asked.port() == 0 || served.port() == asked.port())
            })
        };
        let http = self.http.filter(|asked| !fits(*asked)).map(|asked| format!("--http {asked}"));
        let read_only = (self.read_only && !status.read_only).then(|| "--read-only".to_owned());
        http.into_iter().chain(read_only).collect::<Vec<_>>().join(" ")
    }

    /// The same, with what another one was told by flags.
    fn or(self, other: Self) -> Self {
        Self { http: self.http.or(other.http), read_only: self.read_only || other.read_only }
    }

    /// What a daemon that answers was told by flags. What it has from the config the next one reads for itself.
    fn of(status: &DaemonStatus) -> Self {
        let http = status.http.as_ref().filter(|_| !status.http_from_config);
        Self { http: http.and_then(|http| http.parse().ok()), read_only: status.read_only }
    }

    /// What one that does not answer was told, by its command line.
    fn of_line(head: &ProcessHead) -> Self {
        let http = head.option("--http").and_then(|http| http.parse().ok());
        Self { http, read_only: head.argv.iter().any(|word| word == "--read-only") }
    }
}

/// Who is the daemon now.
pub(crate) enum Presence {
    Answers(Box<DaemonStatus>),
    /// Somebody holds its lock and does not answer: it is stopped, has too much to do, or is just starting.
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

    /// For what can be done another way, too.
    fn hurried(&self) -> Client {
        self.client.clone().hurried(Arc::default())
    }

    /// Who is the daemon, without waiting for long.
    pub(crate) fn presence(&self) -> Result<Presence, Failure> {
        let answer = self.hurried().ask(Ask::get("/v1/daemon"));
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

    /// That somebody holds the lock and does not answer, and what to do about it.
    pub(crate) fn silent(pid: Option<u32>) -> (String, &'static str) {
        let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let words = format!("the daemon{pid} holds its lock and does not answer");
        (words, "`agentctl daemon restart` ends it and starts another one; agents go on")
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
    /// be had they go on, and `daemon logs` says why. That the configured port is taken is said at once.
    pub(crate) fn wanted(surroundings: &'a Surroundings, out: &mut Output) {
        let mut start = || -> Result<(), Failure> {
            let process = Self::new(surroundings)?;
            if surroundings.client().is_none() || process.client.is_heard() {
                return Ok(());
            }
            process.prepare()?;
            // Somebody starts one just now, or one is starting.
            let Some(_alone) = process.try_alone(Duration::ZERO)? else { return Ok(()) };
            if !process.is_free()? {
                return Ok(());
            }
            if let Some(words) = process.taken_port() {
                out.warn(&words);
                return Ok(());
            }
            process.spawn(Manner::default()).map(drop)
        };
        drop(start());
    }

    /// Why the port that the config names cannot be had, so that no daemon would start.
    fn taken_port(&self) -> Option<String> {
        let address = self.surroundings.settings().ok()?.http.value?;
        let error = TcpListener::bind(address).err()?;
        Some(format!("no daemon is started: http = \"{address}\" of config.toml cannot be served: {error}"))
    }

    fn prepare(&self) -> Result<(), Failure> {
        self.home.prepare().map_err(|error| Failure::new(Exit::NoDaemon, error.to_string()))
    }

    /// While this is held nobody else starts a daemon: what a restart ended is not replaced by somebody's who knows
    /// nothing of its manner.
    fn try_alone(&self, patience: Duration) -> Result<Option<KernelLock>, Failure> {
        let path = self.home.folder().join("start.lock");
        KernelLock::on_file(&path, patience)
            .map_err(|error| Failure::new(Exit::NoDaemon, format!("cannot lock {}: {error}", path.display())))
    }

    fn alone(&self) -> Result<KernelLock, Failure> {
        self.prepare()?;
        self.try_alone(OTHERS)?.ok_or_else(|| {
            Failure::new(Exit::NoDaemon, "another agentctl has been starting the daemon for a minute")
                .hint("`agentctl daemon status` says how far it came")
        })
    }

    /// One of this version that answers. One that is there and does not is an error: it cannot be had, and not be replaced
    /// without being asked.
    fn answering(&self) -> Result<Option<DaemonStatus>, Failure> {
        let asked = self.client.ask(Ask::get("/healthz")).and_then(|answer| {
            let ours = answer.is_of_our_version();
            ours.then(|| self.client.ask(Ask::get("/v1/daemon"))).transpose()
        });
        match asked {
            // One that answers nothing we understand may be very old, or just ending.
            Ok(answer) => Ok(answer.and_then(|answer| serde_json::from_slice(&answer.body).ok())),
            // Somebody else may have its socket while the daemon itself holds its lock.
            Err(error) if is_silent(&error) || (is_impostor(&error) && !self.is_free()?) => {
                let (words, hint) = Self::silent(self.holder().map(|holder| holder.process.pid));
                Err(Failure::new(Exit::NoDaemon, words).hint(hint))
            }
            Err(_) => Ok(None),
        }
    }

    /// Starts one unless one runs. An older or newer one makes way, and passes its manner on.
    pub(crate) fn start(&self, manner: Manner) -> Result<Started, Failure> {
        if let Some(status) = self.answering()? {
            return Ok(Started::Already(status));
        }
        let _alone = self.alone()?;
        self.start_alone(manner)
    }

    /// Ends the one that runs and starts one in its manner, with what is asked for beside it.
    pub(crate) fn restart(&self, manner: Manner) -> Result<DaemonStatus, Failure> {
        let _alone = self.alone()?;
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
            let started = self.start_alone(manner);
            match started
                .map_err(|failure| if ended { failure.and("the one before it has ended") } else { failure })?
            {
                Started::Now(status) => return Ok(status),
                Started::Already(status) if wanted.missing_in(&status).is_empty() => return Ok(status),
                // One that was on its way before us is none of ours.
                Started::Already(_) => {}
            }
        }
        Err(Failure::new(Exit::NoDaemon, "somebody else starts a daemon again and again"))
    }

    /// What a daemon that is started so will do: the config has the word where no flag has.
    pub(crate) fn under_config(&self, manner: Manner) -> Result<Manner, Failure> {
        let settings = self.surroundings.settings()?;
        // Without a flag it is not known whether, and where, http is to be served.
        let spoilt = settings.spoilt(&["http"]).filter(|_| manner.http.is_none());
        if let Some(mistake) = spoilt {
            return Err(self.surroundings.because_of(mistake));
        }
        Ok(Manner { http: manner.http.or(settings.http.value), ..manner })
    }

    /// Refuses an address that the one to come could not serve, while the one before it still runs. What that one serves
    /// itself becomes free with its end.
    fn check_address(wanted: Manner, configured: bool, before: &Presence) -> Result<(), Failure> {
        let Some(address) = wanted.http else { return Ok(()) };
        if !address.ip().is_loopback() {
            return Err(Failure::new(Exit::Usage, RunError::NotLoopback(address).to_string()));
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
        Err(Failure::new(Exit::NoDaemon, words).hint("end whoever has that port, or name another one"))
    }

    fn start_alone(&self, manner: Manner) -> Result<Started, Failure> {
        let mut manner = manner;
        if let Some(status) = self.answering()? {
            return Ok(Started::Already(status));
        }
        if self.client.ask(Ask::get("/healthz")).is_ok() {
            manner = manner.or(self.status().map(|status| Manner::of(&status)).unwrap_or_default());
            self.stop()?;
        }
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
        let agreed = self.hurried().ask(Ask::write("POST", "/v1/daemon/stop", "{}"));
        if agreed.is_ok_and(|answer| answer.is_done()) && self.wait_free(END)? {
            return Ok(true);
        }
        for signal in [Signal::Terminate, Signal::Kill] {
            let Some(holder) = self.holder().map(|holder| holder.process) else { break };
            // Whoever holds the lock, only agentctl is ended.
            let failed = |error: SignalError| Failure::new(Exit::Failed, error.to_string());
            let proven = Proven::of_agentctl(agentctl_process::system().as_ref(), holder).map_err(failed)?;
            if let Some(proven) = proven {
                proven.signal(signal).map_err(failed)?;
                // One that is stopped hears nothing before it goes on.
                proven.signal(Signal::Continue).map_err(failed)?;
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
        let held: Option<DaemonLock> =
            self.home.hold().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        Ok(held.is_some())
    }

    /// The process that holds the lock, as the kernel knows it.
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

    /// The last of what was logged behind so many bytes: what one before it said is not its words.
    fn words_since(&self, logged: u64) -> String {
        let bytes = own::read(&self.home.log(), LARGEST_LOG).unwrap_or_default();
        // A log that is shorter was begun anew meanwhile.
        let behind = usize::try_from(logged).ok().and_then(|logged| bytes.get(logged..)).unwrap_or(&bytes);
        let text = agentctl_model::text::clean(&String::from_utf8_lossy(behind));
        let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}
