//! The API without a daemon: one connection, served by threads of the command that asked for it. It holds no lock,
//! binds no socket, tells nobody and writes nothing of the daemon's.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use agentctl_fleet::keep::outbox::OutboxFolder;

use crate::fuses::{Fuses, SessionStopper};
use crate::home::Home;
use crate::run::clock;
use crate::run::log::Log;
use crate::serve::server;
use crate::settings::Settings;
use crate::shared::{Parts, Shared};
use crate::tell::webhooks::Outbox;

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
    let shared = Arc::new(Shared::new(Parts {
        settings,
        daemon_lock: None,
        version,
        host,
        started_at: clock::now(),
        read_only: false,
        http: None,
        http_from_config: false,
        token: None,
        log: Log::none(),
        outbox: Outbox::unused(OutboxFolder::of(home.folder())),
        fuses: Fuses::to_read(&home),
        stopper,
        home,
    })?);
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    std::thread::Builder::new().name("api".into()).spawn(move || {
        runtime.block_on(server::serve_one(shared.clone(), ours));
        shared.stop(false);
    })?;
    Ok(theirs)
}
