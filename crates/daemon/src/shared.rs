//! What every part of the daemon can reach.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use axum::body::Bytes;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::commands::Commands;
use crate::events::{Hub, Posted, written};
use crate::fuses::{Fuses, Hands};
use crate::home::{Held, Home};
use crate::live::Live;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::notices::Notices;
use crate::problem::Problem;
use crate::settings::Settings;
use crate::single_flight::SingleFlight;
use crate::token::Token;
use crate::webhooks::{Outbox, of_event};

/// How far the daemon is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    Ending { home_gone: bool },
}

pub(crate) struct Shared {
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) home: Home,
    pub(crate) held: Held,
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) started_at: Timestamp,
    pub(crate) began: Instant,
    pub(crate) read_only: bool,
    pub(crate) http: Option<std::net::SocketAddr>,
    pub(crate) token: Option<Token>,
    pub(crate) log: Log,
    pub(crate) hub: Hub,
    pub(crate) live: Live,
    pub(crate) metrics: Metrics,
    pub(crate) answers: Arc<SingleFlight<Result<Bytes, Problem>>>,
    pub(crate) fuses: Fuses,
    pub(crate) hands: Arc<dyn Hands>,
    pub(crate) outbox: Outbox,
    pub(crate) commands: Commands,
    pub(crate) notices: Notices,
    pub(crate) phase: watch::Sender<Phase>,
    /// How many requests came in.
    pub(crate) requests: AtomicU64,
}

impl Shared {
    pub(crate) fn stop(&self, home_gone: bool) {
        self.phase.send_replace(Phase::Ending { home_gone });
        self.live.stop();
        self.outbox.close();
        self.fuses.close();
    }

    /// An event was posted: whoever acts on events does so now.
    pub(crate) fn told(&self, posted: &Posted) {
        let event = &posted.event;
        self.metrics.told(event);
        self.notices.told(event, &*self.settings, &self.commands);
        if self.settings.webhook().is_some_and(|webhook| webhook.events.contains(&event.kind)) {
            let order = event.session_id.as_deref().unwrap_or(&event.kind);
            let put = self.outbox.put(&event.cursor, order, None, written(&of_event(event)));
            if let Err(error) = put {
                self.log
                    .say(&format!("webhook {} is lost, the outbox cannot be written: {error}", event.cursor));
            }
        }
    }
}
