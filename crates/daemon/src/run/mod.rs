//! The life of the daemon, from the lock to the last answer.

pub(crate) mod clock;
pub(crate) mod descriptors;
pub(crate) mod log;
mod sd_notify;

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use agentctl_files::kernel;
use agentctl_fleet::keep::outbox::OutboxFolder;
use agentctl_fleet::{Store, StoreError};
use data_encoding::HEXLOWER;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::fuses::{Fuses, Hands, keep_burning};
use crate::home::{Held, Home, HomeError};
use crate::knock::knock;
use crate::run::log::Log;
use crate::serve::bodies::Bodies;
use crate::serve::single_flight::SingleFlight;
use crate::serve::token::Token;
use crate::settings::Settings;
use crate::shared::{Phase, Shared};
use crate::tell::commands::Commands;
use crate::tell::events::Hub;
use crate::tell::metrics::Metrics;
use crate::tell::notices::Notices;
use crate::tell::webhooks::{Outbox, keep_sending};
use crate::watch::Bell;
use crate::watch::live;
use crate::watch::live::Live;

use crate::serve::server;
use crate::watch::{launches, own_files};

/// How long what is being answered may take once the end was asked for.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How long the first look may hold up who asks where everything stands.
const FIRST_LOOK: Duration = Duration::from_secs(5);

/// How long a lock may be held by somebody who does not answer, before it is believed.
const UNTIL_ANSWERED: Duration = Duration::from_secs(10);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

pub struct Options {
    pub home: Home,
    pub version: String,
    pub host: String,
    /// Also serve this loopback address.
    pub http: Option<SocketAddr>,
    /// That address stands in `config.toml`: every daemon of this folder serves it.
    pub http_from_config: bool,
    /// Refuse every write.
    pub read_only: bool,
    /// In the foreground: also say on standard error what goes into the log.
    pub aloud: bool,
    /// `NOTIFY_SOCKET` of a service manager.
    pub notify_socket: Option<OsString>,
    pub settings: Arc<dyn Settings>,
    /// What fuses end sessions with.
    pub hands: Arc<dyn Hands>,
}

/// How the daemon ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Stopped,
    /// Another one has this folder.
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

/// The right to be the daemon, unless another one serves. What a killed daemon was just starting can hold its lock for a
/// moment longer than it: nobody answers then, and the lock is worth another try.
fn hold(home: &Home) -> Result<Option<Held>, HomeError> {
    let until = Instant::now() + UNTIL_ANSWERED;
    loop {
        let held = home.hold()?;
        // One that is stopped may have so many waiting that not even a knock is taken: it is there all the same.
        let is_there = || match knock(&home.socket()) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if held.is_some() || is_there() || Instant::now() > until {
            return Ok(held);
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

/// Serves until it is told to stop.
pub fn run(options: Options) -> Result<Ended, RunError> {
    let home = options.home.clone();
    if let Some(address) = options.http.filter(|address| !address.ip().is_loopback()) {
        return Err(RunError::NotLoopback(address));
    }
    // Before anything is opened: connections, watched processes and looks all want descriptors.
    agentctl_process::open_files::raise();
    home.prepare()?;
    let Some(held) = hold(&home)? else { return Ok(Ended::AlreadyRuns) };
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
    let life = format!("{:x}{}", began_at.as_millisecond(), HEXLOWER.encode(&kernel::random::<2>()?));
    let shared = Arc::new(Shared {
        settings: options.settings,
        home,
        held,
        version: options.version,
        host: options.host,
        started_at: began_at,
        began: Instant::now(),
        read_only: options.read_only,
        http,
        http_from_config: options.http_from_config,
        token,
        hub: Hub::new(life),
        live: Live::new()?,
        own_files: Bell::new()?,
        metrics: Metrics::default(),
        answers: SingleFlight::new(),
        bodies: Bodies::default(),
        has_looked: watch::channel(false).0,
        phase: watch::channel(Phase::Serving).0,
        outbox,
        fuses,
        hands: options.hands,
        commands: Commands::new(log.clone()),
        notices: Notices::default(),
        log,
        requests: AtomicU64::new(0),
    });
    let ended = serve(&shared, unix, tcp, options.notify_socket.as_deref())?;
    shared.log.say("stopped");
    // The socket goes first, then the lock: nobody finds a socket behind which nobody is.
    drop(socket);
    Ok(ended)
}

/// The socket's name, which goes however the daemon ends while it can still do something.
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
    // Heard from before anybody can know that we are there: a daemon that serves ends the clean way.
    let (mut terminated, mut interrupted) = {
        let _inside = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let (looked, first) = channel();
    let (far_looked, far_first) = channel();
    let viewing = {
        let shared = shared.clone();
        std::thread::Builder::new().name("live".into()).spawn(move || live::keep(&shared, &looked))?
    };
    let viewing_far = {
        let shared = shared.clone();
        std::thread::Builder::new().name("far".into()).spawn(move || live::keep_far(&shared, &far_looked))?
    };
    // The doors are open meanwhile: whoever asks something else must not take us for one that hangs.
    let served = runtime.spawn(server::serve(shared.clone(), unix, tcp));
    // Who asks where everything stands must not hear that there is nothing, only because nobody looked yet.
    for first in [first, far_first] {
        let _ = first.recv_timeout(FIRST_LOOK);
    }
    shared.has_looked.send_replace(true);
    launches::tell_abandoned(shared);
    keep_sending(shared)?;
    let burning = {
        let shared = shared.clone();
        std::thread::Builder::new().name("fuses".into()).spawn(move || keep_burning(&shared))?
    };
    let waiting = {
        let shared = shared.clone();
        std::thread::Builder::new().name("own-files".into()).spawn(move || own_files::keep(&shared))?
    };
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
        // Whoever is not done by then is cut off.
        let _ = tokio::time::timeout(LAST_ANSWERS, served).await;
        if home_gone { Ended::HomeGone } else { Ended::Stopped }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    for thread in [viewing, viewing_far, burning, waiting] {
        let _ = thread.join();
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever fails after the socket was bound leaves by `?`.
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
