//! Where answers come from: the daemon if one runs, or else this process. The same function answers in both,
//! so the answers are the same. Never starts a daemon.

pub(crate) mod asked;
pub(crate) mod client;
pub(crate) mod daemon_process;
pub(crate) mod hints;
pub(crate) mod hosts;
pub(crate) mod waiting;
pub(crate) mod waits;
mod written;

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use agentctl_daemon::wire::{Caller, SessionLookup, WHOLE};
use agentctl_daemon::{FuseList, Problem, encode, joined, list_pairs, usage_pairs};
use agentctl_fleet::{
    FindError, Fleet, Listing, Purpose, Query, SearchEnd, SearchQuery, Selector, Told, UsageAnswer,
    UsageQuery,
};
use agentctl_model::{SourceReport, Surveyed};
use agentctl_snapshot::Replay;

use crate::failure::Failure;
use crate::link::client::{Answer, Ask, Client};
use crate::surroundings::Surroundings;
use written::Written;

pub(crate) struct Link {
    pub(crate) fleet: Fleet,
    /// Only present if the daemon can answer for this caller.
    pub(crate) daemon: Option<Client>,
    /// The snapshot from which the fleet answers.
    pub(crate) replay: Option<Arc<Replay>>,
}

/// Finds one session, through the daemon or in this process.
pub(crate) trait SessionFinder {
    fn fleet(&self) -> &Fleet;

    /// The one session that is meant, and the coverage of the sources.
    fn find(&self, selector: &Selector, purpose: Purpose)
    -> Result<(Surveyed, Vec<SourceReport>), FindError>;
}

/// A command that acts surveys for itself: the processes of a session are not transferred.
impl SessionFinder for Fleet {
    fn fleet(&self) -> &Fleet {
        self
    }

    fn find(
        &self,
        selector: &Selector,
        purpose: Purpose,
    ) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
        self.find(selector, purpose)
    }
}

impl SessionFinder for Link {
    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn find(
        &self,
        selector: &Selector,
        purpose: Purpose,
    ) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
        if let Some(replay) = &self.replay {
            return find_in(replay, &self.fleet, selector, purpose);
        }
        let Some(found) = self.find_there(selector, purpose) else {
            return self.fleet.find(selector, purpose);
        };
        let (found, sources) = found?;
        purpose.prove(selector, &found, &sources)?;
        Ok((found, sources))
    }
}

impl Link {
    pub(crate) fn open(surroundings: &Surroundings) -> Result<Self, Failure> {
        let fleet = surroundings.fleet()?;
        // A path that is not valid UTF-8 cannot be sent; then this process surveys itself.
        let caller = Caller::of(&fleet).and_then(|caller| caller.header());
        let daemon = surroundings.client().zip(caller).map(|(client, caller)| client.on_behalf_of(caller));
        Ok(Self { fleet, daemon, replay: surroundings.replay.clone() })
    }

    /// Whether an agent may have to be started for the answer, which is done in the caller's own environment.
    fn starts_agents<'n>(&self, mut adapters: impl Iterator<Item = &'n String>) -> bool {
        adapters.any(|name| self.fleet.acp_agent(name).is_some_and(|agent| agent.native.is_none()))
    }

    /// The fuses with what was spent of each budget, if a daemon answers.
    pub(crate) fn fuses(&self) -> Option<FuseList> {
        let answer = self.ask("/v1/fuses", "application/json")?.ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    pub(crate) fn list(&self, query: &Query) -> Listing {
        let asked = || {
            if self.starts_agents(query.adapters.iter()) {
                return None;
            }
            let answer = self.ask(&format!("/v1/sessions?{}", list_pairs(query)?), WHOLE)?;
            serde_json::from_slice(&answer.ok()?.body).ok()
        };
        let mut listing = asked().unwrap_or_else(|| self.fleet.list(query));
        if let Some(replay) = &self.replay {
            listing.sessions = listing.sessions.into_iter().map(|session| replay.told(session)).collect();
            listing.sources = listing.sources.into_iter().map(|source| replay.told_source(source)).collect();
        }
        listing
    }

    /// The list as JSON from the daemon, if one is available: long lists need not be parsed and serialized
    /// again.
    pub(crate) fn list_written(&self, query: &Query) -> Option<Written> {
        if self.starts_agents(query.adapters.iter()) {
            return None;
        }
        let answer = self.ask(&format!("/v1/sessions?{}", list_pairs(query)?), "application/json")?.ok()?;
        Written::of(answer.body)
    }

    /// What was spent, counted by the daemon, which does not read unchanged conversations again.
    pub(crate) fn usage(&self, asked: &UsageQuery) -> UsageAnswer {
        let answered = || {
            let answer = self.ask(&format!("/v1/usage?{}", usage_pairs(asked)?), "application/json")?;
            serde_json::from_slice(&answer.ok()?.body).ok()
        };
        answered().unwrap_or_else(|| self.fleet.usage(asked))
    }

    /// Searches the conversations of this machine. The daemon knows nothing that this process does not, so it is not asked.
    pub(crate) fn search(
        &self,
        asked: &SearchQuery,
        tell: &mut dyn FnMut(Told) -> ControlFlow<()>,
    ) -> SearchEnd {
        self.fleet.search(asked, tell)
    }

    fn find_there(
        &self,
        selector: &Selector,
        purpose: Purpose,
    ) -> Option<Result<(Surveyed, Vec<SourceReport>), FindError>> {
        if self.starts_agents(selector.adapter.iter()) {
            return None;
        }
        let narrow = [("adapter", &selector.adapter), ("root", &selector.root), ("cwd", &selector.cwd)];
        let narrow = narrow.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let usage = ("usage", (purpose == Purpose::Show).to_string());
        let pairs: Vec<(&str, String)> = narrow.chain([usage]).collect();
        let target = format!("/v1/sessions/{}?{}", encode(&selector.text), joined(&pairs));
        match self.ask(&target, WHOLE)? {
            Ok(answer) => {
                let whole: SessionLookup = serde_json::from_slice(&answer.body).ok()?;
                Some(Ok((whole.found, whole.sources)))
            }
            Err(problem) => not_one(selector.text.clone(), &problem).map(Err),
        }
    }

    /// Returns `None` when there is no daemon whose answer can be trusted.
    fn ask(&self, target: &str, accept: &str) -> Option<Result<Answer, Problem>> {
        // A daemon that did not answer once is not asked again.
        let daemon = self.daemon.as_ref().filter(|daemon| !daemon.is_silent())?;
        let answer = daemon.ask(Ask { accept, ..Ask::get(target) });
        believed(answer)
    }
}

/// Finds a session of a snapshot, and tells it as its machine would have.
fn find_in(
    replay: &Replay,
    fleet: &Fleet,
    selector: &Selector,
    purpose: Purpose,
) -> Result<(Surveyed, Vec<SourceReport>), FindError> {
    let here = |root: &String| replay.here(Path::new(root)).map(|root| root.to_string_lossy().into_owned());
    let inside = Selector { root: selector.root.as_ref().and_then(here), ..selector.clone() };
    let told =
        |sources: Vec<SourceReport>| sources.into_iter().map(|source| replay.told_source(source)).collect();
    match fleet.find(&inside, purpose) {
        Ok((found, sources)) => Ok((replay.told(found), told(sources))),
        Err(FindError::NotHeard { text, sources }) => {
            Err(FindError::NotHeard { text, sources: told(sources) })
        }
        Err(FindError::NotProven { text, id, sources }) => {
            Err(FindError::NotProven { text, id, sources: told(sources) })
        }
        Err(FindError::Ambiguous { text, candidates }) => {
            let candidates = candidates.into_iter().map(|session| replay.told(session)).collect();
            Err(FindError::Ambiguous { text, candidates })
        }
        Err(error @ FindError::NotFound { .. }) => Err(error),
    }
}

/// The answer of a daemon of this version, or its problem.
fn believed(answer: io::Result<Answer>) -> Option<Result<Answer, Problem>> {
    let answer = answer.ok().filter(Answer::is_of_our_version)?;
    if answer.is_done() {
        return Some(Ok(answer));
    }
    serde_json::from_slice(&answer.body).ok().map(Err)
}

/// The daemon's error for an id that does not match exactly one session. Any other problem is not an answer.
pub(crate) fn not_one(text: String, problem: &Problem) -> Option<FindError> {
    match problem.code.as_str() {
        "not-found" => Some(FindError::NotFound { text }),
        "incomplete" => Some(FindError::NotHeard { text, sources: problem.sources.clone()? }),
        "ambiguous" => {
            let candidates = problem.candidates.clone()?.into_iter();
            let candidates = candidates.map(serde_json::from_value::<Surveyed>);
            Some(FindError::Ambiguous { text, candidates: candidates.collect::<Result<_, _>>().ok()? })
        }
        _ => None,
    }
}
