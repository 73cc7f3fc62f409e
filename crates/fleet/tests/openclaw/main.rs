//! OpenClaw's sessions against scripted gateways: every recorded exchange, days of cron jobs and hooks in fast motion,
//! and hostile gateways.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conversations;
mod deadlines;
mod doors;
mod floods;
mod ghosts;
mod hostile;
mod questions;
mod recording;
mod replay;
mod scopes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentctl_adapters::agents::openclaw::OpenClaw;
use agentctl_adapters::{Gateway as _, Keys, Peer, PeerCheck, Pin, Root, Secret};
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{Session, Survey};
use agentctl_process::fake::Scripted;
use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway, tls};

const PATIENT: Duration = Duration::from_mins(1);

/// A gateway whose ledger the test holds.
struct Scene {
    ledger: Arc<Mutex<Ledger>>,
    gateway: ScriptedGateway,
}

impl Scene {
    fn set() -> Self {
        let ledger = Arc::new(Mutex::new(Ledger { boot: "b1".into(), ..Ledger::default() }));
        let shared = Arc::clone(&ledger);
        let gateway = ScriptedGateway::start(move |step| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).answer(step)
        });
        Self { ledger, gateway }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn survey(&self) -> Survey {
        fleet(vec![root(&self.gateway)], PATIENT).survey(&everything())
    }
}

/// These keys also work for a gateway that is used without a fleet: here every port is ours.
fn keys() -> Keys {
    let peer_check = PeerCheck::new(|_, _| Peer::Ours);
    Keys { token: Secret::new("s3cret-of-the-test"), peer_check, ..Keys::default() }
}

fn root(gateway: &ScriptedGateway) -> Root {
    let keys = Keys { approvals: Some(true), ..keys() };
    OpenClaw.root_at(&gateway.url(), keys).unwrap()
}

/// The same behind TLS, trusted by its fingerprint.
fn secure_root(gateway: &ScriptedGateway) -> Root {
    let mut root = root(gateway);
    root.keys.as_mut().unwrap().pin = Some(Pin::new(tls::FINGERPRINT));
    root
}

fn fleet(roots: Vec<Root>, timeout: Duration) -> Fleet {
    fleet_of(roots.into_iter().map(|root| (root, timeout)).collect())
}

/// With a timeout for each.
fn fleet_of(roots: Vec<(Root, Duration)>) -> Fleet {
    let source = |(root, timeout)| Source { adapter: &OpenClaw, root, timeout };
    Fleet::new(roots.into_iter().map(source).collect(), Arc::new(Scripted::new()))
}

/// Everything stored, with sub-agents and totals.
fn everything() -> Query {
    Query { subagents: true, usage: true, ..Query::new(Wanted::All { since: Since::Ever }) }
}

fn active(survey: &Survey) -> usize {
    use agentctl_model::Status::{Running, Waiting};
    survey.sessions.iter().filter(|one| matches!(one.session.status, Running | Waiting)).count()
}

fn session<'s>(survey: &'s Survey, id: &str) -> Option<&'s Session> {
    survey.sessions.iter().find(|one| one.session.id == id).map(|one| one.session.as_ref())
}
