//! Finds processes that outlived their session: tools of an agent that was killed, and agents that a launch started and
//! that no runner watches any more.
//!
//! A process is considered only if its own environment leads to one of our sources; on a shared machine we neither
//! report nor end the processes of other people.

use std::collections::{HashMap, HashSet};

use agentctl_model::{Observed, Process, ProcessEntry, ProcessHead, ProcessRef, ProcessRole};
use agentctl_process::{InspectRequest, is_agentctl};

use crate::act::stop::termination::{Termination, entry};
use crate::keep::launches::{Ledger, MARK};
use crate::read::query::{Query, Wanted};
use crate::read::survey::kernel::is_of;
use crate::{Fleet, Source};

/// A process without its session, and all its descendants.
#[derive(Debug, Clone, PartialEq)]
pub struct Orphan {
    pub process: ProcessRef,
    pub entry: ProcessEntry,
    pub adapter: String,
    /// The session that it belonged to, if known.
    pub session_id: Option<String>,
    /// The launch whose mark it carries.
    pub launch: Option<String>,
    pub cwd: Option<String>,
    /// Resident bytes.
    pub memory: Option<u64>,
}

/// Which processes ended, and which survived.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reaped {
    pub ended: Vec<ProcessEntry>,
    pub survived: Vec<ProcessEntry>,
}

impl Fleet {
    /// Returns every orphan. For an agent that could not be read completely, none is reported.
    pub fn orphans(&self) -> Vec<Orphan> {
        let survey = self.survey(&Query { subagents: true, ..Query::new(Wanted::Live) });
        let Observed::Seen(heads) = self.kernel.heads() else { return Vec::new() };
        let ledger = self.ledger();
        let unheard: HashSet<&str> = survey
            .sources
            .iter()
            .filter(|source| source.is_incomplete())
            .map(|source| source.adapter.as_str())
            .collect();
        let live: HashSet<(&str, &str)> = survey
            .sessions
            .iter()
            .map(|surveyed| (surveyed.key.adapter.as_str(), surveyed.key.id.as_str()))
            .collect();
        let search = Search {
            fleet: self,
            ledger: &ledger,
            parents: heads.iter().map(|head| (head.process.pid, head.parent)).collect(),
            recognised: heads
                .iter()
                .filter(|head| self.is_an_agent(head))
                .map(|head| head.process.pid)
                .collect(),
            strays: survey.strays.iter().map(|(_, stray)| stray.process).collect(),
            owners: survey
                .sessions
                .iter()
                .flat_map(|surveyed| surveyed.owners.iter().map(|owner| owner.process.pid))
                .collect(),
            live: &live,
        };
        let us = self.kernel.own_uid();
        let ours = heads.iter().filter(|head| is_of(us, head));
        let found = ours
            .filter_map(|head| search.judge(head))
            .filter(|orphan| !unheard.contains(orphan.adapter.as_str()));
        let all: Vec<Orphan> = found.collect();
        // A descendant of an orphan is ended together with it.
        let pids: HashSet<u32> = all.iter().map(|orphan| orphan.process.pid).collect();
        let is_top =
            |orphan: &Orphan| !search.ancestors(orphan.process.pid).any(|above| pids.contains(&above));
        all.iter().filter(|orphan| is_top(orphan)).cloned().collect()
    }

    /// Ends exactly this orphan and its descendants, if it still is one. A person may have thought about it for a long
    /// time, and a process can become another program.
    pub fn reap(&self, orphan: &Orphan) -> Reaped {
        if !self.orphans().iter().any(|now| now.process == orphan.process && now.entry == orphan.entry) {
            return Reaped::default();
        }
        let termination = Termination {
            kernel: self.kernel.as_ref(),
            owners: Vec::new(),
            launch: orphan.launch.clone(),
            marks: Vec::new(),
            source: None,
            known: vec![(orphan.process, orphan.entry.clone())],
        };
        let report = termination.finish();
        Reaped { ended: report.ended, survived: report.survived }
    }

    fn is_an_agent(&self, head: &ProcessHead) -> bool {
        self.sources.iter().any(|source| source.adapter.recognises(head))
    }
}

struct Search<'a> {
    fleet: &'a Fleet,
    ledger: &'a Ledger,
    parents: HashMap<u32, u32>,
    recognised: HashSet<u32>,
    strays: HashSet<ProcessRef>,
    owners: HashSet<u32>,
    live: &'a HashSet<(&'a str, &'a str)>,
}

impl Search<'_> {
    fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        std::iter::successors(self.parents.get(&pid).copied(), |above| self.parents.get(above).copied())
            .take_while(move |above| seen.insert(*above))
    }

    fn judge(&self, head: &ProcessHead) -> Option<Orphan> {
        let pid = head.process.pid;
        let has_owner_above = || self.ancestors(pid).any(|above| self.owners.contains(&above));
        if self.owners.contains(&pid) || has_owner_above() {
            return None;
        }
        let process = self.fleet.kernel.inspect(head, InspectRequest::default())?;
        if is_agentctl(&process) {
            return None;
        }
        if self.recognised.contains(&pid) {
            return self.abandoned_agent(&process);
        }
        // A tool of a live agent that has no session to show belongs to that agent.
        if self.ancestors(pid).any(|above| self.recognised.contains(&above)) {
            return None;
        }
        self.left_tool(&process)
    }

    /// An agent that a launch started, that has no session, and whose runner is gone. Other agents without a session,
    /// including helpers of the vendors, are left to their users.
    fn abandoned_agent(&self, process: &Process) -> Option<Orphan> {
        let launch = process.variable(MARK)?;
        if !self.strays.contains(&process.head.process) || self.has_runner(launch) {
            return None;
        }
        let source = self.source_of(process)?;
        Some(self.orphan(process, source, None))
    }

    /// Whether a runner works on this launch.
    fn has_runner(&self, launch: &str) -> bool {
        let entry = self.ledger.entries().iter().find(|(_, record)| record.id == launch);
        entry.is_some_and(|(folder, _)| !matches!(folder.hold(), Ok(Some(_))))
    }

    /// A process that carries an agent's mark of a session that no process runs.
    fn left_tool(&self, process: &Process) -> Option<Orphan> {
        for source in &self.fleet.sources {
            let Some(control) = source.adapter.control() else { continue };
            for (name, _) in control.tool_marks("", Some(0)) {
                let Some(value) = process.variable(name) else { continue };
                if !leads_to(process, source) {
                    continue;
                }
                // Some agents put the id of the session into the mark, others the pid of the agent.
                let names_session = control
                    .tool_marks(value, None)
                    .iter()
                    .any(|(other, said)| *other == name && said == value);
                let is_live = if names_session {
                    self.live.contains(&(source.name(), value))
                } else {
                    value.parse().is_ok_and(|pid: u32| self.recognised.contains(&pid))
                };
                if is_live {
                    return None;
                }
                return Some(self.orphan(process, source, names_session.then(|| value.to_owned())));
            }
        }
        let launch = process.variable(MARK)?;
        let (_, record) = self.ledger.entries().iter().find(|(_, record)| record.id == launch)?;
        let id = record.session_id.as_deref()?;
        if self.live.contains(&(record.order.adapter.as_str(), id)) || self.has_runner(launch) {
            return None;
        }
        let source = self.fleet.sources.iter().find(|source| source.name() == record.order.adapter)?;
        Some(self.orphan(process, source, Some(id.to_owned())))
    }

    fn source_of(&self, process: &Process) -> Option<&Source> {
        let fits = |source: &&Source| source.adapter.recognises(&process.head) && leads_to(process, source);
        self.fleet.sources.iter().find(fits)
    }

    fn orphan(&self, process: &Process, source: &Source, session_id: Option<String>) -> Orphan {
        let launch = process.variable(MARK).map(str::to_owned);
        let session_id = session_id.or_else(|| {
            launch
                .as_deref()
                .and_then(|launch| self.ledger.session_of(launch, source.name()))
                .map(str::to_owned)
        });
        Orphan {
            process: process.head.process,
            entry: entry(&process.head, ProcessRole::Orphan),
            adapter: source.name().to_owned(),
            session_id,
            launch,
            cwd: process.cwd.seen().map(|cwd| cwd.to_string_lossy().into_owned()),
            memory: self.fleet.kernel.memory(process.head.process),
        }
    }
}

/// Whether the process's own variables lead to this source.
fn leads_to(process: &Process, source: &Source) -> bool {
    let root = process.environ.seen().and_then(|environ| source.adapter.root(environ));
    root.is_some_and(|root| root.path == source.root.path)
}
