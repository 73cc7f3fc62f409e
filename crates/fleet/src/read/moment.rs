//! A moment of the past that a fleet is asked about instead of now: its sources and its kernel are what was kept of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::Fleet;
use crate::worktree::head::branch_of;

/// What was true at that moment and is in no record.
#[derive(Debug, Clone)]
pub struct Moment {
    pub at: Timestamp,
    /// The name of the machine.
    pub host: String,
    /// The branch that was checked out in each folder where a live session worked.
    pub branches: BTreeMap<String, String>,
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

    /// The branch in the directory where a live process works.
    pub(crate) fn branch_in(&self, cwd: &str) -> Option<String> {
        match &self.moment {
            Some(moment) => moment.branches.get(cwd).cloned(),
            None => branch_of(Path::new(cwd)),
        }
    }
}
