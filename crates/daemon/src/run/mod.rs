//! The life of the daemon, from taking the lock to the last answer.

pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod in_process;
pub(crate) mod log;
mod sd_notify;

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use agentctl_fleet::keep::outbox::OutboxFolder;
use agentctl_fleet::{KernelLock, Store, StoreError};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::connect;
use crate::fuses::{Fuses, SessionStopper, run_fuses};
use crate::home::{DaemonLock, Home, HomeError};
use crate::run::log::Log;
use crate::serve::token::Token;
use crate::serve::web::port;
use crate::settings::Settings;
use crate::shared::{Parts, Phase, Shared};
use crate::tell::webhooks::{Outbox, start_senders};
use crate::watch::live;

use crate::serve::{nats, server};
use crate::watch::{launches, own_files};

/// How long open requests may take after the daemon was asked to end.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How long a status or snapshot request may wait for the first survey.
const FIRST_SURVEY: Duration = Duration::from_secs(5);

/// How long to wait for a lock whose holder does not answer before another daemon is assumed to hold it.
const UNTIL_ANSWERED: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// How soon a process that was killed closes its connections, also on a busy machine.
const UNTIL_CLOSED: Duration = Duration::from_secs(1);

pub struct Options {
    pub home: Home,
    /// The lock of the command that started this daemon, held until the daemon has its own.
    pub start_lock: Option<KernelLock>,
    pub version: String,
    pub host: String,
    /// A loopback address to serve beside the socket.
    pub http: Option<SocketAddr>,
    /// Whether `config.toml` names that address, so that every daemon of this folder serves it.
    pub http_from_config: bool,
    /// Whether every write is refused.
    pub read_only: bool,
    /// Whether the log also goes to standard error, as in the foreground.
    pub aloud: bool,
    /// The `NOTIFY_SOCKET` of a service manager.
    pub notify_socket: Option<OsString>,
    pub settings: Arc<dyn Settings>,
    /// How fuses end sessions.
    pub stopper: Arc<dyn SessionStopper>,
}

/// How the daemon ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Stopped,
    /// Another daemon serves this folder.
    AlreadyRuns,
    HomeGone,
}

#[derive(Debug, Error)]
pub enum RunError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot serve {}: {source}", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("{0} is no loopback address; nothing else is served")]
    NotLoopback(SocketAddr),
    #[error("cannot serve {address}: {source}")]
    Http { address: SocketAddr, source: io::Error },
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

/// Takes the daemon's lock unless another daemon serves. A killed daemon, or a process that it was just
/// starting, can hold the lock a moment longer. Then nobody listens at the socket, or a connection to it is
/// soon closed, so the lock is tried again.
fn hold(home: &Home) -> Result<Option<DaemonLock>, HomeError> {
    let until = Instant::now() + UNTIL_ANSWERED;
    loop {
        let lock = home.hold()?;
        // A stopped daemon may have so many waiting connections that it accepts no more, but it still exists.
        let is_there = || match connect(&home.socket()) {
            Ok(stream) => stays_open(stream),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if lock.is_some() || is_there() || Instant::now() > until {
            return Ok(lock);
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// Whether the other end keeps this connection. A daemon that lives waits for a request; the kernel closes the
/// connections of one that is just dying.
fn stays_open(mut stream: UnixStream) -> bool {
    let is_waiting =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
    let read = stream.set_read_timeout(Some(UNTIL_CLOSED)).and_then(|()| stream.read(&mut [0]));
    read.is_err_and(|error| is_waiting(&error))
}

/// Serves until the daemon is asked to stop.
pub fn run(options: Options) -> Result<Ended, RunError> {
    let home = options.home.clone();
    if let Some(address) = options.http.filter(|address| !address.ip().is_loopback()) {
        return Err(RunError::NotLoopback(address));
    }
    // This comes before anything is opened: connections, watched processes and surveys all need descriptors.
    agentctl_process::open_files::raise();
    home.prepare()?;
    let Some(daemon_lock) = hold(&home)? else { return Ok(Ended::AlreadyRuns) };
    drop(options.start_lock);
    let began_at = clock::now();
    let aside = Store::at(home.folder()).prepare()?;
    let log = Log::open(home.log(), options.aloud);
    if let Some(aside) = aside {
        log.say(&format!("what an older agentctl left was moved to {}", aside.display()));
    }
    let tcp = options.http.map(|address| {
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map_err(|source| RunError::Http { address, source })
    });
    let tcp = tcp.transpose()?;
    let http = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
    let token = if tcp.is_some() { Some(Token::at(&home.token())?) } else { None };
    let unix =
        server::bind(&home.socket()).map_err(|source| RunError::Socket { path: home.socket(), source })?;
    let socket = SocketFile(home.socket());
    let outbox = Outbox::open(OutboxFolder::of(home.folder())).map_err(|source| HomeError::Failed {
        what: "open",
        path: home.outbox(),
        source,
    })?;
    let fuses = Fuses::at(&home);
    let shared = Arc::new(Shared::new(Parts {
        settings: options.settings,
        home,
        daemon_lock: Some(daemon_lock),
        version: options.version,
        host: options.host,
        started_at: began_at,
        read_only: options.read_only,
        http,
        http_from_config: options.http_from_config,
        token,
        log,
        fuses,
        stopper: options.stopper,
        outbox,
    })?);
    let ended = serve(&shared, unix, tcp, options.notify_socket.as_deref())?;
    shared.log.say("stopped");
    // The socket goes first, then the lock, so that no client finds a socket without a daemon.
    drop(socket);
    Ok(ended)
}

/// The socket file. It is removed however the daemon ends, as long as the process can still act.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn serve(
    shared: &Arc<Shared>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<TcpListener>,
    notify_socket: Option<&std::ffi::OsStr>,
) -> Result<Ended, RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // The handlers are installed before clients can know that the daemon exists, so that a serving daemon
    // always ends cleanly.
    let (mut terminated, mut interrupted) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let watching = start_watching(shared)?;
    // The listeners are already open, so that other requests do not take the daemon for hung.
    let served = runtime.spawn(server::serve(shared.clone(), unix, tcp));
    runtime.spawn(nats::serve(shared.clone()));
    {
        let _inside = runtime.enter();
        port::reopen(shared);
    }
    watching.await_first_looks();
    shared.has_surveyed.send_replace(true);
    launches::announce_abandoned(shared);
    start_senders(shared)?;
    let expiring = start_thread("fuses", shared, run_fuses)?;
    let waiting = start_thread("own-files", shared, |shared| own_files::watch(shared, || {}))?;
    shared.log.say(&format!("agentctl {} serves {}", shared.version, shared.home.socket().display()));
    if let Some(http) = shared.http {
        shared.log.say(&format!("and http://{http}, with the token of {}", shared.home.token().display()));
    }
    let tell = |state: &str| {
        if let Err(error) = sd_notify::tell(notify_socket, state) {
            shared.log.say(&format!("cannot tell the service manager {}: {error}", state.trim()));
        }
    };
    tell("READY=1\n");
    let ended = runtime.block_on(async {
        let mut phase = shared.phase.subscribe();
        let home_gone = tokio::select! {
            _ = terminated.recv() => false,
            _ = interrupted.recv() => false,
            phase = phase.wait_for(|phase| *phase != Phase::Serving) => {
                phase.is_ok_and(|phase| *phase == Phase::Ending { home_gone: true })
            }
        };
        shared.stop(home_gone);
        tell("STOPPING=1\n");
        // Requests that are not finished by then are cut off.
        let _ = tokio::time::timeout(LAST_ANSWERS, served).await;
        if home_gone { Ended::HomeGone } else { Ended::Stopped }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    for thread in watching.threads.into_iter().chain([expiring, waiting]) {
        let _ = thread.join();
    }
    Ok(ended)
}

/// The threads that look at the fleet, and what each says after its first look.
struct WatchThreads {
    threads: [JoinHandle<()>; 2],
    first_looks: [Receiver<()>; 2],
}

impl WatchThreads {
    /// A status request must not report an empty view only because no survey has finished yet.
    fn await_first_looks(&self) {
        for first in &self.first_looks {
            let _ = first.recv_timeout(FIRST_SURVEY);
        }
    }
}

fn start_watching(shared: &Arc<Shared>) -> io::Result<WatchThreads> {
    let (surveyed, first) = channel();
    let (remote_surveyed, remote_first) = channel();
    let local = start_thread("live", shared, move |shared| live::watch_local(shared, &surveyed))?;
    let remote = start_thread("remote", shared, move |shared| live::watch_remote(shared, &remote_surveyed))?;
    Ok(WatchThreads { threads: [local, remote], first_looks: [first, remote_first] })
}

fn start_thread(
    name: &str,
    shared: &Arc<Shared>,
    work: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    std::thread::Builder::new().name(name.into()).spawn(move || work(&shared))
}

/// Begins to watch for a process that serves the API without being the daemon, once a reader of events asks.
pub(crate) fn watch_on_demand(shared: &Arc<Shared>) {
    if shared.watches_on_demand.swap(true, Ordering::Relaxed) {
        return;
    }
    let started = start_watching(shared).and_then(|watching| {
        start_thread("own-files", shared, move |shared| {
            // Directories that sessions held before are no news, and what is locked once the reader is told how things
            // stand is.
            watching.await_first_looks();
            own_files::watch(shared, || {
                shared.has_surveyed.send_replace(true);
            });
        })
    });
    // Without threads nothing will ever be seen, and the reader is not left waiting for the first survey.
    if started.is_err() {
        shared.has_surveyed.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every failure after the socket was bound returns through `?`.
    #[test]
    fn a_daemon_that_cannot_begin_leaves_no_socket_behind() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("agentctl.sock");
        let begin = || -> io::Result<()> {
            let _listener = server::bind(&path)?;
            let _socket = SocketFile(path.clone());
            assert!(path.exists());
            Err(io::ErrorKind::OutOfMemory.into())
        };
        assert!(begin().is_err());
        assert!(!path.exists());
    }
}
