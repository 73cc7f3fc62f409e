//! A launch that a gateway carries out: it begins there, is recorded here, and is observed until its turn is shown.

use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_adapters::gateway::{Begun, Gateway, Request, TurnRequest};
use agentctl_model::{Conversation, Error, ErrorKind, Outcome, Status, Surveyed, text};
use jiff::Timestamp;

use super::refuse::refuse_what_needs_a_process;
use super::{GatewayServer, POLL_INTERVAL};
use crate::act::caller::Caller;
use crate::act::launch::show;
use crate::act::runner::ready::refuse_a_held_directory;
use crate::keep::launches;
use crate::keep::launches::{Exit, LaunchFolder, LaunchOrder, Record};
use crate::keep::new_names;
use crate::{Fleet, Source};

/// A turn that the server accepted is normally shown within a moment. Nothing is concluded if it is not, but the caller
/// waits no longer.
const SHOWN_WITHIN: Duration = Duration::from_mins(1);

/// A launch that a server has accepted.
#[derive(Debug)]
pub(crate) struct GatewayLaunch {
    record: Record,
    folder: Option<LaunchFolder>,
    begun: Begun,
    /// How long to wait for its turn.
    until: Instant,
    looked_at: Option<Instant>,
    cancelled: Option<Cancelled>,
    /// Where to cancel it.
    source: GatewaySource,
}

/// The result of cancelling it.
#[derive(Debug)]
enum Cancelled {
    Interrupted,
    /// The turn may continue: the server did not answer, or refused.
    Failed(String),
}

/// The source and its gateway, owned so that they outlive the fleet.
struct GatewaySource(Source, &'static dyn Gateway);

impl std::fmt::Debug for GatewaySource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.root.path.fmt(out)
    }
}

impl GatewayServer<'_> {
    pub(super) fn request(&self, order: &LaunchOrder, words: &str) -> Result<Request, Error> {
        refuse_what_needs_a_process(order)?;
        self.gateway.request(&self.source.root, &turn_request(order, words))
    }

    pub(crate) fn launch(
        &self,
        order: LaunchOrder,
        words: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<GatewayLaunch, Error> {
        self.request(&order, words)?;
        // No session here holds a directory of another machine.
        let is_ours = order.cwd_is_chosen && self.gateway.is_here(&self.source.root);
        if is_ours && !order.force && order.is_new() {
            refuse_a_held_directory(self.fleet, caller, &order.cwd)?;
        }
        let id = new_names::launch_id().map_err(|error| Error::agent_failed(error.to_string()))?;
        let begun = self.gateway.begin(&self.source.root, &turn_request(&order, words));
        // The launch was tried, so a refusal by the server is a launch that failed.
        let begun = begun.map_err(|error| error.of_kind(ErrorKind::AgentFailed))?;
        let record = Record {
            version: launches::VERSION,
            id,
            launched_at: now,
            order,
            session_id: Some(begun.id.clone()),
            settled: true,
            made: None,
            process: None,
        };
        // The session exists whether or not the record can be written; without it only its labels are lost.
        let folder = write_record(&caller.launches(), &record, words, now).ok();
        let source = GatewaySource(self.source.clone(), self.gateway);
        Ok(GatewayLaunch {
            record,
            folder,
            begun,
            until: Instant::now() + SHOWN_WITHIN,
            looked_at: None,
            cancelled: None,
            source,
        })
    }
}

impl GatewayLaunch {
    /// Interrupts the turn that was begun. The session itself belongs to the server and stays. If the turn may
    /// continue, its record stays too.
    pub(crate) fn cancel(&mut self) {
        if self.cancelled.is_some() {
            return;
        }
        let GatewaySource(source, gateway) = &self.source;
        self.cancelled = Some(match gateway.stop(&source.root, &self.begun.id) {
            Ok(_) => {
                self.forget();
                Cancelled::Interrupted
            }
            Err(error) => Cancelled::Failed(error.message),
        });
    }

    fn forget(&self) {
        if let Some(folder) = &self.folder {
            let _ = folder.remove();
        }
    }

    pub(crate) fn outcome(&mut self, fleet: &Fleet) -> Option<Result<Surveyed, Error>> {
        let id = &self.begun.id;
        match &self.cancelled {
            None => {}
            Some(Cancelled::Interrupted) => {
                let message = format!("it was taken back; the gateway keeps session {id}");
                return Some(Err(Error::agent_failed(message)));
            }
            Some(Cancelled::Failed(why)) => {
                let message = format!("it could not be taken back, session {id} may go on: {why}");
                return Some(Err(
                    Error::agent_failed(message).hint(format!("`agentctl stop {}`", text::shell_word(id)))
                ));
            }
        }
        if self.looked_at.is_some_and(|at| at.elapsed() < POLL_INTERVAL) {
            return None;
        }
        let seen = show(fleet, &self.record, true);
        self.looked_at = Some(Instant::now());
        match seen.filter(|seen| self.source.1.shows(&seen.session, &self.begun)) {
            Some(seen) if seen.session.outcome == Some(Outcome::Failed) && !is_at_work(&seen) => {
                // As everywhere, a launch that failed leaves no record here; the gateway keeps its own.
                self.forget();
                let why = seen.session.status_detail.as_deref().unwrap_or("it does not say why");
                let message = format!("the turn failed at once: {why}");
                Some(Err(Error::agent_failed(message)
                    .hint(format!("the gateway keeps it: `agentctl peek {}`", text::shell_word(id)))))
            }
            Some(seen) => Some(Ok(seen)),
            // The gateway has the session all the same, so our record stays.
            None if Instant::now() >= self.until => {
                let message = format!("the gateway took it as {id}, but its list does not show the turn");
                Some(Err(Error::agent_failed(message)
                    .hint(format!("`agentctl status {}` looks again", text::shell_word(id)))))
            }
            None => None,
        }
    }
}

fn write_record(
    launches: &Path,
    record: &Record,
    words: &str,
    now: Timestamp,
) -> std::io::Result<LaunchFolder> {
    // No process of it ever runs here, so its retention time begins now.
    let exit = Exit {
        exit_code: None,
        exit_signal: None,
        exited_at: None,
        timed_out: false,
        asked: false,
        ended_by: None,
        found_gone_at: Some(now),
    };
    LaunchFolder::create_over(launches, record, words, &exit)
}

fn turn_request<'a>(order: &'a LaunchOrder, words: &'a str) -> TurnRequest<'a> {
    TurnRequest {
        session: match &order.conversation {
            Conversation::New | Conversation::ForkOf { .. } => None,
            Conversation::Stored { id, .. } => Some(id),
        },
        words,
        model: order.model.as_deref(),
        permission: order.permission,
        cwd: Some(order.cwd.as_path()).filter(|_| order.cwd_is_chosen),
        once: &order.fresh_id,
    }
}

fn is_at_work(session: &Surveyed) -> bool {
    matches!(session.session.status, Status::Running | Status::Waiting)
}

#[cfg(test)]
#[path = "launch_tests.rs"]
mod tests;
