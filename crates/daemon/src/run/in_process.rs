//! The API without a daemon: one connection, served by threads of the command that asked for it. It holds no lock,
//! binds no socket, tells nobody and writes nothing of the daemon's.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use agentctl_files::kernel;
use agentctl_fleet::keep::outbox::OutboxFolder;
use data_encoding::HEXLOWER;
use tokio::sync::watch;

use crate::fuses::{Fuses, SessionStopper};
use crate::home::Home;
use crate::run::clock;
use crate::run::log::Log;
use crate::serve::body_budget::BodyBudget;
use crate::serve::server;
use crate::serve::single_flight::SingleFlight;
use crate::settings::Settings;
use crate::shared::{Phase, Shared};
use crate::tell::commands::Commands;
use crate::tell::events::Hub;
use crate::tell::metrics::Metrics;
use crate::tell::notices::Notices;
use crate::tell::webhooks::Outbox;
use crate::watch::Waker;
use crate::watch::live::Live;

pub struct InProcess {
    pub home: Home,
    pub version: String,
    pub host: String,
    pub settings: Arc<dyn Settings>,
    pub stopper: Arc<dyn SessionStopper>,
}

/// Serves one connection until its other end, which is returned, is closed.
pub fn serve_in_process(options: InProcess) -> io::Result<UnixStream> {
    let InProcess { home, version, host, settings, stopper } = options;
    let began_at = clock::now();
    let life = format!("{:x}{}", began_at.as_millisecond(), HEXLOWER.encode(&kernel::random::<2>()?));
    let log = Log::none();
    let shared = Arc::new(Shared {
        settings,
        daemon_lock: None,
        version,
        host,
        started_at: began_at,
        began: Instant::now(),
        read_only: false,
        http: None,
        http_from_config: false,
        token: None,
        hub: Hub::new(life),
        live: Live::new()?,
        own_files: Waker::new()?,
        metrics: Metrics::default(),
        answers: SingleFlight::new(),
        body_budget: BodyBudget::default(),
        has_surveyed: watch::channel(false).0,
        phase: watch::channel(Phase::Serving).0,
        outbox: Outbox::unused(OutboxFolder::of(home.folder())),
        fuses: Fuses::to_read(&home),
        stopper,
        commands: Commands::new(log.clone()),
        notices: Notices::default(),
        log,
        requests: AtomicU64::new(0),
        watches_on_demand: AtomicBool::new(false),
        home,
    });
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    std::thread::Builder::new().name("api".into()).spawn(move || {
        runtime.block_on(server::serve_one(shared.clone(), ours));
        shared.stop(false);
    })?;
    Ok(theirs)
}
