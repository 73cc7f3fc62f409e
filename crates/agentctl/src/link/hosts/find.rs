//! Finds one session on another machine. What is found is named after the machine that was asked.

use std::sync::Arc;

use agentctl_daemon::wire::{SessionLookup, WHOLE};
use agentctl_daemon::{encode, joined};
use agentctl_fleet::worktree::Changes;
use agentctl_fleet::{FindError, Purpose, Selector};
use agentctl_hosts::{Ask, RoadFailure};
use agentctl_model::{Entry, SessionKey, SourceReport, Surveyed};
use jiff::Timestamp;
use serde::Deserialize;

use super::host::{RosterHost, Unanswered, is_not_known_there};
use crate::failure::Failure;
use crate::link::not_one;

/// A session that was found, and where.
#[derive(Clone)]
pub(crate) struct Located {
    pub(crate) found: Surveyed,
    pub(crate) sources: Vec<SourceReport>,
    /// `None`: on this machine.
    pub(crate) far: Option<Arc<RosterHost>>,
    /// The clock of that machine when it answered; `None` on this one.
    pub(crate) as_of: Option<Timestamp>,
}

/// Why a machine did not name exactly one session.
pub(crate) enum NotLocated {
    /// It was not heard.
    Road(RoadFailure),
    Not(FindError),
    Refused(Failure),
}

impl Located {
    /// The id as it is typed here.
    pub(crate) fn id(&self) -> String {
        full(self.far.as_deref(), &self.found.key.id)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let name = |located: &Self| located.far.as_ref().map(|far| far.name.to_string());
        self.found.key == other.found.key && name(self) == name(other)
    }
}

/// An id with its machine in front of it, if it is another one.
pub(crate) fn full(far: Option<&RosterHost>, id: &str) -> String {
    match far.filter(|far| !far.is_here()) {
        Some(far) => format!("{}/{id}", far.name),
        None => id.to_owned(),
    }
}

impl RosterHost {
    pub(crate) fn find(
        self: &Arc<Self>,
        selector: &Selector,
        purpose: Purpose,
    ) -> Result<Located, NotLocated> {
        let narrow = [("adapter", &selector.adapter), ("root", &selector.root), ("cwd", &selector.cwd)];
        let narrow = narrow.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        let usage = ("usage", (purpose == Purpose::Show).to_string());
        let pairs: Vec<(&str, String)> = narrow.chain([usage]).collect();
        let target = format!("/v1/sessions/{}?{}", encode(&selector.text), joined(&pairs));
        let looked_up = self.read::<SessionLookup>(Ask { accept: WHOLE, ..Ask::get(&target) });
        let SessionLookup { mut found, mut sources, as_of } = looked_up.map_err(|why| match why {
            Unanswered::Road(failure) => NotLocated::Road(failure),
            // A version without this route has not looked for the session.
            Unanswered::Problem(problem) if is_not_known_there(&problem) => {
                NotLocated::Refused(self.refused(Unanswered::Problem(problem)))
            }
            Unanswered::Problem(problem) => match not_one(selector.text.clone(), &problem) {
                Some(not) => NotLocated::Not(self.named_in(not)),
                None => NotLocated::Refused(self.refused(Unanswered::Problem(problem))),
            },
        })?;
        self.name_session(&mut found);
        self.name_sources(&mut sources);
        purpose.prove(selector, &found, &sources).map_err(NotLocated::Not)?;
        Ok(Located { found, sources, far: Some(self.clone()), as_of })
    }

    fn named_in(&self, mut not: FindError) -> FindError {
        match &mut not {
            FindError::NotFound { .. } => {}
            FindError::NotHeard { sources, .. } | FindError::NotProven { sources, .. } => {
                self.name_sources(sources);
            }
            FindError::Ambiguous { candidates, .. } => {
                for one in candidates {
                    self.name_session(one);
                }
            }
        }
        not
    }

    fn name_session(&self, found: &mut Surveyed) {
        found.session.host = self.known_as();
    }

    pub(crate) fn name_sources(&self, sources: &mut [SourceReport]) {
        for source in sources {
            source.host = self.known_as();
        }
    }

    /// The same session as it is now; `None` when it is not there any more or was not heard.
    pub(crate) fn again(self: &Arc<Self>, found: &Surveyed, purpose: Purpose) -> Result<Located, NotLocated> {
        self.find(&exactly(found), purpose)
    }

    /// The last entries of its conversation, oldest first.
    pub(crate) fn entries(&self, found: &Surveyed, count: usize) -> Result<Vec<Entry>, Failure> {
        self.page(&path_of(found, "/messages", [("limit", count.to_string())]))
    }

    /// What it has changed in its working tree.
    pub(crate) fn changes(&self, found: &Surveyed) -> Result<Changes, Failure> {
        self.read(Ask::get(&path_of(found, "/changes", []))).map_err(|why| self.refused(why))
    }

    /// The entries around a hit of a search, and which of them it is.
    pub(crate) fn entries_around(
        &self,
        found: &Surveyed,
        hit: &str,
        count: usize,
    ) -> Result<(Vec<Entry>, usize), Failure> {
        let page = |count: usize| {
            let pairs = [("limit", count.to_string()), ("at", hit.to_owned())];
            self.page(&path_of(found, "/messages", pairs))
        };
        let (alone, entries) = (page(1)?, page(count)?);
        let at = entries.iter().position(|entry| alone.contains(entry)).unwrap_or(count / 2);
        Ok((entries, at))
    }

    fn page(&self, target: &str) -> Result<Vec<Entry>, Failure> {
        #[derive(Deserialize)]
        struct Messages {
            entries: Vec<Entry>,
        }
        let page: Messages = self.read(Ask::get(target)).map_err(|why| self.refused(why))?;
        Ok(page.entries)
    }
}

/// What selects a session that was found, and no other.
fn exactly(found: &Surveyed) -> Selector {
    let SessionKey { adapter, root, id, variant } = &found.key;
    let cwd = variant.as_ref().and_then(|_| found.session.cwd.clone());
    Selector { text: id.clone(), adapter: Some(adapter.clone()), root: Some(root.clone()), cwd }
}

/// The path of a session that was found, with a resource below it.
pub(crate) fn path_of<const N: usize>(
    found: &Surveyed,
    below: &str,
    more: [(&'static str, String); N],
) -> String {
    let Selector { text, adapter, root, cwd } = exactly(found);
    let narrow = [("adapter", adapter), ("root", root), ("cwd", cwd)];
    let narrow = narrow.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let pairs: Vec<(&str, String)> = narrow.chain(more).collect();
    format!("/v1/sessions/{}{below}?{}", encode(&text), joined(&pairs))
}
