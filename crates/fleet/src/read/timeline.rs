//! Who worked, waited and rested when. The records of each session are read back to the beginning of the asked time;
//! `model::timeline` makes spans of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_adapters::transcript::marks::marks;
use agentctl_adapters::transcript::parallel;
use agentctl_adapters::{Progress, ReadError};
use agentctl_model::timeline::{Lane, Mark, Present, Step, TimeWindow, Timeline, spans};
use agentctl_model::{CoverageKind, ProcessRole, Relation, SourceReport, Status, Surveyed};

use crate::Fleet;
use crate::read::find::{FindError, Purpose, Selector};
use crate::read::list::{ListFilter, now};
use crate::read::query::{Query, Since, Wanted};

/// Which sessions, and how far back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineQuery {
    pub since: Since,
    /// Full ids, unique beginnings of one, or exact names; empty means every session that did something.
    pub ids: Vec<String>,
    /// Only these adapters; empty means all.
    pub adapters: Vec<String>,
    /// Only sessions of this config root.
    pub root: Option<String>,
    /// Only sessions that work in one of these folders or below; empty means all.
    pub folders: Vec<PathBuf>,
}

impl TimelineQuery {
    /// How far back a timeline reaches unless it is asked for more.
    pub const WINDOW: Since = Since::Back(Duration::from_hours(24));
}

impl Fleet {
    /// The lanes of the sessions that are asked for. A conversation that cannot be read makes its source partial.
    pub fn timeline(&self, asked: &TimelineQuery) -> Result<Timeline, FindError> {
        if asked.ids.is_empty() {
            return Ok(self.whole_timeline(asked));
        }
        let began = Instant::now();
        let mut found: Vec<Surveyed> = Vec::new();
        let mut sources = Vec::new();
        for id in &asked.ids {
            let selector = Selector {
                text: id.clone(),
                adapter: asked.adapters.first().cloned(),
                root: asked.root.clone(),
                cwd: asked.folders.first().map(|folder| folder.to_string_lossy().into_owned()),
            };
            let (one, heard) = self.find(&selector, Purpose::Read)?;
            sources = heard;
            if !found.iter().any(|known| known.key == one.key) {
                found.push(one);
            }
        }
        Ok(self.timeline_of(&found, asked.since, sources, began))
    }

    /// The lanes of every session that did something, whatever ids are asked for.
    pub fn whole_timeline(&self, asked: &TimelineQuery) -> Timeline {
        let filter = ListFilter { folders: asked.folders.clone(), ..ListFilter::default() };
        let query = Query {
            adapters: asked.adapters.clone(),
            root: asked.root.clone(),
            filter,
            ..Query::new(Wanted::All { since: asked.since })
        };
        let mut listing = self.list(&query);
        let window = TimeWindow { since: asked.since.start(listing.as_of), until: listing.as_of };
        let mut lanes = self.lanes(&listing.sessions, window, &mut listing.sources);
        lanes.retain(|lane| !lane.spans.is_empty());
        let (as_of, sources, hosts) = (listing.as_of, listing.sources, listing.hosts);
        Timeline { as_of, host: self.host().to_owned(), window, lanes, sources, hosts }
    }

    /// The lanes of these sessions.
    pub fn timeline_of(
        &self,
        sessions: &[Surveyed],
        since: Since,
        mut sources: Vec<SourceReport>,
        began: Instant,
    ) -> Timeline {
        let as_of = self.past().unwrap_or_else(now);
        let window = TimeWindow { since: since.start(as_of), until: as_of };
        let lanes = self.lanes(sessions, window, &mut sources);
        let hosts = vec![self.own_report(as_of, sessions, &sources, began)];
        Timeline { as_of, host: self.host().to_owned(), window, lanes, sources, hosts }
    }

    fn lanes(&self, sessions: &[Surveyed], window: TimeWindow, sources: &mut [SourceReport]) -> Vec<Lane> {
        let progress = Progress::default();
        let read = parallel::map(sessions, |one, (): &mut ()| self.marks_of(one, window, &progress));
        let lane = |(one, marks): (&Surveyed, Result<Vec<Mark>, ReadError>)| {
            let marks = marks.unwrap_or_else(|error| {
                let of = |source: &&mut SourceReport| {
                    source.adapter == one.key.adapter && source.root == one.key.root
                };
                if let Some(source) = sources.iter_mut().find(of) {
                    source.warnings.push(error.to_string());
                    if source.coverage == CoverageKind::Complete {
                        source.coverage = CoverageKind::Partial;
                    }
                }
                Vec::new()
            });
            self.lane(one, marks, window)
        };
        sessions.iter().zip(read).map(lane).collect()
    }

    /// What its records say. A panic is the failure of this conversation alone.
    fn marks_of(
        &self,
        session: &Surveyed,
        window: TimeWindow,
        progress: &Progress,
    ) -> Result<Vec<Mark>, ReadError> {
        let read = catch_unwind(AssertUnwindSafe(|| {
            self.conversation(session)
                .map_or_else(|| Ok(Vec::new()), |conversation| marks(&conversation, window.since, progress))
        }));
        read.unwrap_or_else(|_| {
            Err(ReadError::new(&session.place, std::io::Error::other("could not be read")))
        })
    }

    fn lane(&self, one: &Surveyed, mut marks: Vec<Mark>, window: TimeWindow) -> Lane {
        let session = &one.session;
        if session.relation == Some(Relation::Fork) {
            // What a fork copied from its parent is the parent's.
            marks.retain(|mark| session.started_at.is_none_or(|started| mark.at >= started));
        }
        let exited = session.launch.as_ref().and_then(|launch| launch.exited_at);
        marks.extend(exited.map(|at| Mark { at, step: Step::Stopped }));
        let is_owner = |role| matches!(role, ProcessRole::Agent | ProcessRole::Server);
        let owners = session.processes.iter().filter(|process| is_owner(process.role));
        let asked_since = session.pending.iter().filter_map(|pending| pending.since).min();
        let present = Present {
            status: session.status,
            since: session.since.or(asked_since.filter(|_| session.status == Status::Waiting)),
            alive_since: owners.filter_map(|process| process.started_at).min(),
            stopped_at: session.stopped_at.or(exited),
        };
        Lane {
            session_id: session.id.clone(),
            host: self.host().to_owned(),
            adapter: session.adapter.clone(),
            config_root: session.config_root.clone(),
            name: session.name.clone().or_else(|| session.prompt.clone()),
            cwd: session.cwd.clone(),
            status: session.status,
            outcome: session.outcome,
            spans: spans(marks, &present, window),
        }
    }
}
