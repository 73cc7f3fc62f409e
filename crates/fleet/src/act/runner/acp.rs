//! The first turn of an agent that is started over ACP: within which time it must open a session, and whose session it is.

use std::time::{Duration, Instant};

use agentctl_adapters::agents::acp;
use agentctl_model::{Error, Surveyed, text};
use jiff::SignedDuration;

use super::{Runner, Running};
use crate::act::launch::{glance, look};
use crate::hold::{Holder, Report};
use crate::keep::launches::Record;

/// How long the records of an agent may take to show a session whose first turn is over by the agent's word. After that
/// the session is elsewhere.
const RECORDS: Duration = Duration::from_secs(10);

/// What a look at the records of the agent's own adapter has shown.
enum Seen {
    Turn(Box<Surveyed>),
    /// Not yet, or not all was heard.
    Nothing,
    /// It is not there, and the turn is over.
    Elsewhere,
}

impl Runner<'_> {
    pub(super) fn opening_deadline(&self) -> Option<Instant> {
        let agent = self.fleet.acp_agent(self.record.order.via.as_deref()?)?;
        Some(Instant::now() + agent.opening_timeout)
    }

    /// Gives an agent up that speaks no ACP, or stopped speaking it before there was a session.
    pub(super) fn check_opening(&self, running: &Running) -> Result<(), Error> {
        let is_late = running.opening.is_some_and(|deadline| Instant::now() >= deadline);
        let Some(report) = running.holder.as_ref().map(Holder::report).filter(|_| is_late) else {
            return Ok(());
        };
        if report.state.session.is_some() {
            return Ok(());
        }
        let via = self.record.order.via.as_deref().unwrap_or_default();
        let agent = self.fleet.acp_agent(via);
        let limit = agent.and_then(|agent| SignedDuration::try_from(agent.opening_timeout).ok());
        let limit = limit.unwrap_or_default();
        let asked = match report.about.and_then(|about| about.agent) {
            None => "`initialize`",
            Some(_) if self.record.order.is_new() => "`session/new`",
            Some(_) => "the wish to go on with the session",
        };
        let program = agent.map(|agent| agent.command.join(" ")).unwrap_or_default();
        let name = via.trim_start_matches(acp::PREFIX);
        Err(Error::agent_failed(format!("`{}` did not answer {asked} within {limit:#}", text::one_line(&program)))
            .hint(format!("check that it speaks ACP on its standard input and output; `timeout` of [acp.{name}] lets it take longer")))
    }

    /// The session, once its first turn was seen: in the records of its agent, or, where only ACP knows the agent, by the
    /// agent's word.
    pub(super) fn turn_seen(&mut self, running: &mut Running) -> Result<Option<Surveyed>, Error> {
        let order = &self.record.order;
        let Some(report) = running.holder.as_ref().map(Holder::report).filter(|_| order.via.is_some()) else {
            let session = glance(self.fleet, &self.record);
            return Ok(session.filter(|session| running.shows_turn(order, session)));
        };
        if !acp::is_name(&order.adapter) {
            let (adapter, root) = (order.adapter.clone(), order.root.clone());
            return match self.seen_by(running, &report, &adapter, &root) {
                Seen::Turn(session) => Ok(Some(*session)),
                Seen::Nothing => Ok(None),
                Seen::Elsewhere => Err(Error::agent_failed(format!(
                    "the agent has a session, and {adapter} has no record of it under {root}"
                ))
                .hint("name the folder that it uses in `roots` of its adapter in config.toml")),
            };
        }
        let named = report.about.as_ref().and_then(|about| about.agent.as_ref()?.name.as_deref());
        let native = named.and_then(acp::native_of);
        let sources = self.fleet.sources.iter().filter(|source| Some(source.name()) == native);
        let roots: Vec<String> =
            sources.map(|source| source.root.path.to_string_lossy().into_owned()).collect();
        if let Some(native) = native.filter(|_| !roots.is_empty()) {
            let mut is_elsewhere = true;
            for root in &roots {
                match self.seen_by(running, &report, native, root) {
                    Seen::Turn(session) => {
                        // From here on it is one of that agent's, which was started over ACP.
                        (self.record.order.adapter, self.record.order.root) =
                            (native.to_owned(), root.clone());
                        return Ok(Some(*session));
                    }
                    Seen::Nothing => is_elsewhere = false,
                    Seen::Elsewhere => {}
                }
            }
            if !is_elsewhere {
                return Ok(None);
            }
        }
        let has_begun =
            report.first_taken || report.state.last_end.is_some() || !report.state.pending.is_empty();
        if !has_begun || report.state.session != self.record.session_id {
            return Ok(None);
        }
        // Such a session is one from the moment on at which its launch is done.
        self.settle()?;
        Ok(glance(self.fleet, &self.record))
    }

    /// What the records of this adapter show of the session.
    fn seen_by(&self, running: &mut Running, report: &Report, adapter: &str, root: &str) -> Seen {
        let mut probe: Record = self.record.clone();
        (probe.order.adapter, probe.order.root) = (adapter.to_owned(), root.to_owned());
        match look(self.fleet, &probe, false) {
            (Some(session), _) if running.shows_turn(&probe.order, &session) => Seen::Turn(Box::new(session)),
            (Some(_), _) | (None, false) => Seen::Nothing,
            (None, true) if report.state.last_end.is_none() => Seen::Nothing,
            (None, true) => {
                let since = *running.absent_since.get_or_insert_with(Instant::now);
                if since.elapsed() < RECORDS { Seen::Nothing } else { Seen::Elsewhere }
            }
        }
    }
}
