//! A moment of the past that a fleet is asked about instead of now: its sources and its kernel are what was kept of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_model::{Coverage, Harvest};
use jiff::Timestamp;

use crate::read::survey::{SourceReading, SourceRequest, read_sources};
use crate::worktree::head::branch_of;
use crate::{Fleet, Source};

/// What was true at that moment and is in no record.
#[derive(Debug, Clone)]
pub struct Moment {
    pub at: Timestamp,
    /// The name of the machine.
    pub host: String,
    /// The branch that was checked out in each folder where a live session worked.
    pub branches: BTreeMap<String, String>,
    /// The sources that were not heard completely.
    pub unheard: Vec<Unheard>,
}

/// How a source was heard at that moment.
#[derive(Debug, Clone)]
pub struct Unheard {
    pub adapter: String,
    pub root: PathBuf,
    pub coverage: Coverage,
    pub warnings: Vec<String>,
}

impl Fleet {
    /// Returns the same fleet, which answers about that moment: it looks at no clock, no folder of a session and no
    /// server.
    #[must_use]
    pub fn at_moment(self, moment: Moment) -> Self {
        Self { host: moment.host.clone(), moment: Some(Arc::new(moment)), ..self }
    }

    pub(crate) fn is_of_the_past(&self) -> bool {
        self.moment.is_some()
    }

    /// The moment of the question, if it is not now.
    pub(crate) fn past(&self) -> Option<Timestamp> {
        self.moment.as_ref().map(|moment| moment.at)
    }

    /// Reads the sources. One that did not answer at that moment is not asked, and one of which only a part was heard
    /// is no more complete now, because what could not be read was not kept either.
    pub(crate) fn readings(&self, requests: Vec<(Source, SourceRequest)>) -> Vec<SourceReading> {
        let Some(moment) = &self.moment else { return read_sources(requests, self.memory.as_ref()) };
        let then: Vec<Option<&Unheard>> = requests.iter().map(|(source, _)| moment.unheard(source)).collect();
        let is_asked = |then: Option<&Unheard>| then.is_none_or(|then| then.coverage == Coverage::Partial);
        let asked = requests.into_iter().zip(&then).filter(|(_, then)| is_asked(**then));
        let mut heard = read_sources(asked.map(|(request, _)| request).collect(), None).into_iter();
        let reading = |then: Option<&Unheard>| {
            let Some(Unheard { coverage, warnings, .. }) = then else { return heard.next() };
            let mut reading = match coverage {
                Coverage::Partial => heard.next()?,
                other => SourceReading { harvest: Harvest::nothing(other.clone()), took: Duration::ZERO },
            };
            if reading.harvest.coverage == Coverage::Complete {
                reading.harvest.coverage = Coverage::Partial;
            }
            reading.harvest.warnings.extend(warnings.iter().cloned());
            Some(reading)
        };
        then.into_iter().filter_map(reading).collect()
    }

    /// The branch in the directory where a live process works.
    pub(crate) fn branch_in(&self, cwd: &str) -> Option<String> {
        match &self.moment {
            Some(moment) => moment.branches.get(cwd).cloned(),
            None => branch_of(Path::new(cwd)),
        }
    }
}

impl Moment {
    fn unheard(&self, source: &Source) -> Option<&Unheard> {
        self.unheard.iter().find(|one| one.adapter == source.name() && one.root == source.root.path)
    }
}
