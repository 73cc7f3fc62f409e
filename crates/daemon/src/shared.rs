//! The state that every part of the daemon can reach.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use agentctl_files::kernel;
use agentctl_fleet::Store;
use agentctl_fleet::keep::launches::LaunchFolder;
use agentctl_fleet::keep::outbox::body;
use agentctl_model::{EventKind, Session, Status};
use axum::body::Bytes;
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::fuses::{Fuses, SessionStopper};
use crate::home::{DaemonLock, Home};
use crate::run;
use crate::run::log::Log;
use crate::serve::body_budget::BodyBudget;
use crate::serve::problem::Problem;
use crate::serve::single_flight::SingleFlight;
use crate::serve::token::Token;
use crate::serve::web::Web;
use crate::settings::{NotifySettings, Settings};
use crate::tell::commands::Commands;
use crate::tell::events::{EventMessage, Hub, PublishedEvent};
use crate::tell::metrics::Metrics;
use crate::tell::notices::{Notices, Ways};
use crate::tell::webhooks::Outbox;
use crate::watch::Waker;
use crate::watch::live::Live;

/// Whether the daemon serves or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    Ending { home_gone: bool },
}

pub(crate) struct Shared {
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) home: Home,
    /// `None` where the API is served in a command's own process: then nothing is told to anybody else, and
    /// changes are watched only once a reader asks for them.
    pub(crate) daemon_lock: Option<DaemonLock>,
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) started_at: Timestamp,
    pub(crate) began: Instant,
    pub(crate) read_only: bool,
    pub(crate) http: Option<std::net::SocketAddr>,
    pub(crate) http_from_config: bool,
    pub(crate) token: Option<Token>,
    pub(crate) web: Web,
    pub(crate) log: Log,
    pub(crate) hub: Hub,
    pub(crate) live: Live,
    /// Wakes the thread that watches our own files and the holders of directories.
    pub(crate) own_files: Waker,
    pub(crate) metrics: Metrics,
    pub(crate) answers: Arc<SingleFlight<Result<Bytes, Problem>>>,
    pub(crate) body_budget: BodyBudget,
    /// Whether the first survey has finished. Before that the view knows nothing, which does not mean that
    /// nothing is there.
    pub(crate) has_surveyed: watch::Sender<bool>,
    pub(crate) fuses: Fuses,
    pub(crate) stopper: Arc<dyn SessionStopper>,
    pub(crate) outbox: Outbox,
    pub(crate) commands: Commands,
    pub(crate) notices: Notices,
    pub(crate) phase: watch::Sender<Phase>,
    /// How many requests have arrived.
    pub(crate) requests: AtomicU64,
    /// Whether a process that is not the daemon has begun to watch.
    pub(crate) watches_on_demand: AtomicBool,
}

/// What differs between a daemon and a process that serves the API for itself.
pub(crate) struct Parts {
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) home: Home,
    pub(crate) daemon_lock: Option<DaemonLock>,
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) started_at: Timestamp,
    pub(crate) read_only: bool,
    pub(crate) http: Option<std::net::SocketAddr>,
    pub(crate) http_from_config: bool,
    pub(crate) token: Option<Token>,
    pub(crate) log: Log,
    pub(crate) fuses: Fuses,
    pub(crate) stopper: Arc<dyn SessionStopper>,
    pub(crate) outbox: Outbox,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let Parts { settings, home, daemon_lock, version, host, started_at, .. } = parts;
        let store = Store::at(home.folder());
        let Parts { read_only, http, http_from_config, token, log, fuses, stopper, outbox, .. } = parts;
        let life = format!("{:x}{}", started_at.as_millisecond(), HEXLOWER.encode(&kernel::random::<2>()?));
        Ok(Self {
            web: Web::new(&home, daemon_lock.is_some()),
            settings,
            home,
            daemon_lock,
            version,
            host,
            started_at,
            began: Instant::now(),
            read_only,
            http,
            http_from_config,
            token,
            hub: Hub::new(life),
            live: Live::new()?,
            own_files: Waker::new()?,
            metrics: Metrics::default(),
            answers: SingleFlight::new(),
            body_budget: BodyBudget::default(),
            has_surveyed: watch::channel(false).0,
            phase: watch::channel(Phase::Serving).0,
            outbox,
            fuses,
            stopper,
            commands: Commands::new(log.clone()),
            notices: Notices::new(store, log.clone()),
            log,
            requests: AtomicU64::new(0),
            watches_on_demand: AtomicBool::new(false),
        })
    }

    pub(crate) fn stop(&self, home_gone: bool) {
        self.phase.send_replace(Phase::Ending { home_gone });
        self.live.stop();
        self.own_files.wake();
        self.outbox.close();
        self.fuses.close();
    }

    /// Waits for the first survey.
    pub(crate) async fn first_survey(self: &Arc<Self>) {
        if self.daemon_lock.is_none() {
            run::watch_on_demand(self);
        }
        let _ = self.has_surveyed.subscribe().wait_for(|done| *done).await;
    }

    /// Passes a posted event to everything that acts on events.
    pub(crate) fn on_event(&self, posted: &PublishedEvent) {
        let event = &posted.message.event;
        self.metrics.on_event(&posted.message);
        if event.kind.is_of_session() {
            self.own_files.wake();
        }
        if self.daemon_lock.is_none() {
            return;
        }
        let notify = self.settings.notify();
        self.notices.on_event(event, notify.as_ref().map(|settings| self.ways(settings)));
        if self.settings.webhook().is_some_and(|webhook| webhook.events.contains(&event.kind))
            && let Some(error) = self.put_webhook(posted)
        {
            let words = "waits in memory alone, the outbox cannot be written";
            self.log.say(&format!("webhook {}: {words}: {error}", posted.message.cursor));
        }
    }

    /// Tells of sessions that waited already when they were first seen.
    pub(crate) fn on_found<'s>(&self, sessions: impl Iterator<Item = &'s Session>) {
        let mut sessions = sessions.filter(|session| session.status == Status::Waiting).peekable();
        if self.daemon_lock.is_none() || sessions.peek().is_none() {
            return;
        }
        let notify = self.settings.notify();
        for session in sessions {
            self.notices.on_found(session, notify.as_ref().map(|settings| self.ways(settings)));
        }
    }

    fn ways<'s>(&'s self, settings: &'s NotifySettings) -> Ways<'s> {
        Ways { settings, commands: &self.commands, outbox: &self.outbox }
    }

    /// Puts the webhook of an event into the outbox, and returns why that failed.
    fn put_webhook(&self, posted: &PublishedEvent) -> Option<io::Error> {
        let EventMessage { cursor, at, event, .. } = &posted.message;
        let order = event.session_id.as_deref().unwrap_or(event.kind.as_str());
        let body = body(event, *at, false);
        let Some((launch, folder)) = self.launch_that_ended(posted) else {
            return self.outbox.put_somehow(cursor, order, body);
        };
        // The runner of the launch announces its end too. The first of the two does it, under the one id that
        // both use.
        match folder.tell_end(|| self.outbox.put(launch, order, None, body.clone())) {
            Ok(true) => None,
            Ok(false) => self.outbox.rescan().err(),
            Err(_) => self.outbox.put_somehow(launch, order, body),
        }
    }

    /// The launch whose own end this event is. A session that was launched may have been continued by hand
    /// later: then its owners are younger than the end of the launch, and this event is not the launch's end.
    /// In a gateway, where no runner works, one launch may see many ends, and each has its own id.
    fn launch_that_ended<'p>(&self, posted: &'p PublishedEvent) -> Option<(&'p str, LaunchFolder)> {
        let event = &posted.message.event;
        let session = event.session.as_deref().filter(|_| event.kind == EventKind::SessionStopped)?;
        let launch = session.launch.as_ref()?;
        let folder = LaunchFolder::at(self.home.launches().join(&launch.id));
        if folder.record().is_ok_and(|record| record.lives_in_a_server()) {
            return None;
        }
        let end = launch.exited_at.or_else(|| folder.told_at());
        let by_others = end.zip(event.owned_since).is_some_and(|(end, since)| since > end);
        (!by_others).then_some((launch.id.as_str(), folder))
    }
}
