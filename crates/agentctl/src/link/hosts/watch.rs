//! Looks at sessions of another machine again and again, beside the command that waits for them. A machine that is not
//! heard changes nothing of what is known.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use agentctl_fleet::{FindError, Purpose};
use agentctl_model::{CoverageKind, SourceReport, Survey, Surveyed};

use super::find::NotLocated;
use super::host::RosterHost;
use super::pauses::Pauses;

/// How often each session is looked at.
const INTERVAL: Duration = Duration::from_millis(700);

/// What a look at the sessions of one machine showed.
pub(crate) enum Look {
    Seen(Survey),
    /// The machine is not heard, and why. It is asked again.
    Lost(String),
    /// It is heard again.
    Back,
}

/// Sends what it sees until nobody listens.
pub(crate) fn watch(host: &Arc<RosterHost>, sessions: &[Surveyed], to: &Sender<Look>) {
    let mut pauses = Pauses::default();
    loop {
        let look = look(host, sessions);
        let is_lost = matches!(look, Look::Lost(_));
        let was_lost = !pauses.is_first();
        let told = match look {
            Look::Lost(_) if was_lost => Ok(()),
            look => {
                let back = if was_lost { to.send(Look::Back) } else { Ok(()) };
                back.and_then(|()| to.send(look))
            }
        };
        if told.is_err() {
            return;
        }
        if is_lost {
            std::thread::sleep(pauses.next());
        } else {
            pauses.reset();
            std::thread::sleep(INTERVAL);
        }
    }
}

fn look(host: &Arc<RosterHost>, sessions: &[Surveyed]) -> Look {
    let mut survey = Survey::default();
    for session in sessions {
        match host.again(session, Purpose::Read) {
            Ok(located) => {
                survey.sessions.push(located.found);
                survey.sources.extend(located.sources);
            }
            // Only a machine that has read everything says so.
            Err(NotLocated::Not(FindError::NotFound { .. })) => survey.sources.push(complete(session)),
            Err(NotLocated::Road(failure)) => return Look::Lost(failure.message),
            Err(NotLocated::Refused(crate::failure::Failure::Said(error))) => {
                return Look::Lost(error.message);
            }
            Err(NotLocated::Not(_) | NotLocated::Refused(_)) => {}
        }
    }
    Look::Seen(survey)
}

fn complete(session: &Surveyed) -> SourceReport {
    SourceReport {
        adapter: session.key.adapter.clone(),
        host: session.session.host.clone(),
        root: session.key.root.clone(),
        coverage: CoverageKind::Complete,
        error: None,
        warnings: Vec::new(),
        sessions: None,
        took_ms: 0,
    }
}
