//! Ends a family of processes: finds them, asks them to end, kills them, until none is left.
//!
//! The members are determined before the first signal, and again before each further step, because what a tool started
//! in a session of its own survives its agent. Every signal goes to one process that was inspected anew and may be
//! signalled.

use std::time::{Duration, Instant};

use agentctl_model::{Observed, Process, ProcessEntry, ProcessHead, ProcessRef, ProcessRole};
use agentctl_process::{InspectRequest, Kernel, Proven, Sent, Signal, SignalError, is_agentctl, wait_gone};

use crate::Source;
use crate::act::launch::RUNNER;
use crate::keep::launches::MARK;
use crate::read::survey::family::{Member, family};
use crate::read::survey::kernel::is_of;
use crate::read::survey::root_membership::may_own;

/// How long a process may take after SIGTERM before it is killed, and how long after SIGKILL before it counts as
/// surviving.
const TOLD: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(10);

/// A family being ended.
pub(crate) struct Termination<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    /// The owners, from which all other processes descend.
    pub(crate) owners: Vec<ProcessRef>,
    /// Their launch; a process that carries the mark of another launch is left alone.
    pub(crate) launch: Option<String>,
    /// The variables that mark a member of the family, and the source under whose root they count.
    pub(crate) marks: Vec<(&'static str, String)>,
    pub(crate) source: Option<&'a Source>,
    /// Every process that was ever found to belong to the family.
    pub(crate) known: Vec<(ProcessRef, ProcessEntry)>,
}

/// The result of ending the processes of a session, or its turn.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct TerminationReport {
    /// Nobody ran it.
    pub was_stopped: bool,
    /// What was done first, in words.
    pub how: String,
    pub ended: Vec<ProcessEntry>,
    pub survived: Vec<ProcessEntry>,
    /// Where the session is still open, in words: only its turn was ended, by the server that keeps it.
    pub open_in: Option<String>,
}

impl TerminationReport {
    /// There was nothing to end.
    pub(crate) fn nothing_ran() -> Self {
        Self { was_stopped: true, ..Self::default() }
    }
}

impl Termination<'_> {
    /// Finds all processes that belong to the family now.
    pub(crate) fn gather(&mut self) {
        let Observed::Seen(heads) = self.kernel.heads() else { return };
        let us = self.kernel.own_uid();
        let ours = heads.into_iter().filter(|head| is_of(us, head));
        let members: Vec<Member> = ours.filter_map(|head| self.member(head)).collect();
        // A process that was found once stays a member: a parent that has exited meanwhile leaves children without a
        // chain to their owner.
        let mut anchors = self.owners.clone();
        anchors.extend(self.known.iter().map(|(process, _)| *process));
        for member in family(&members, &anchors, self.launch.as_deref()) {
            let process = member.head.process;
            if !self.known.iter().any(|(known, _)| *known == process) {
                self.known.push((process, entry(&member.head, ProcessRole::Tool)));
            }
        }
    }

    fn member(&self, head: ProcessHead) -> Option<Member> {
        let process = self.kernel.inspect(&head, InspectRequest::default())?;
        let named = self.marks.iter().any(|(name, value)| process.variable(name) == Some(value.as_str()));
        let is_agentctl = is_agentctl(&process) || is_runner(&head);
        let launch = process.variable(MARK).map(str::to_owned);
        let marked = (named && self.is_under_root(&process)) || (launch.is_some() && launch == self.launch);
        Some(Member { head, launch, marked, is_agentctl })
    }

    fn is_under_root(&self, process: &Process) -> bool {
        let Some(source) = self.source else { return true };
        let root = process.environ.seen().and_then(|environ| source.adapter.root(environ));
        root.is_none_or(|root| root.path == source.root.path)
    }

    pub(crate) fn wait_for_owners(&self, time: Duration) {
        let began = Instant::now();
        for owner in &self.owners {
            wait_gone(*owner, time.saturating_sub(began.elapsed()));
        }
    }

    /// Ends all that are left: owners are killed, the others get one SIGTERM and are then killed, until no new ones
    /// appear.
    pub(crate) fn finish(mut self) -> TerminationReport {
        // A process that an ending one is just starting is found in the next round.
        for _ in 0..8 {
            self.gather();
            let known = self.known.iter().map(|(process, _)| *process).chain(self.owners.iter().copied());
            let mut alive: Vec<ProcessRef> = known.filter(|process| self.is_alive(*process)).collect();
            alive.sort_unstable();
            alive.dedup();
            if alive.is_empty() || !self.end(alive) {
                break;
            }
        }
        let (survived, ended): (Vec<_>, Vec<_>) =
            self.known.iter().cloned().partition(|(process, _)| self.is_alive(*process));
        let entries =
            |list: Vec<(ProcessRef, ProcessEntry)>| list.into_iter().map(|(_, entry)| entry).collect();
        TerminationReport {
            ended: entries(ended),
            survived: entries(survived),
            ..TerminationReport::default()
        }
    }

    /// Ends these processes and returns whether all of them ended.
    fn end(&self, mut left: Vec<ProcessRef>) -> bool {
        for process in &left {
            let hard = self.owners.contains(process);
            // A process that cannot or may not be signalled is found alive in the end, and reported.
            if let Ok(Some(proven)) = self.prove(*process) {
                let _ = proven.signal(if hard { Signal::Kill } else { Signal::Terminate });
            }
        }
        let began = Instant::now();
        left.retain(|process| !wait_gone(*process, TOLD.saturating_sub(began.elapsed())));
        left.retain(|process| match self.prove(*process) {
            Ok(None) => false,
            Ok(Some(proven)) => !matches!(proven.signal(Signal::Kill), Ok(Sent::AlreadyGone)),
            Err(_) => true,
        });
        let began = Instant::now();
        left.retain(|process| !wait_gone(*process, KILLED.saturating_sub(began.elapsed())));
        left.is_empty()
    }

    /// Returns the proof that this process may be signalled, from an inspection at this moment. An owner must still be
    /// the agent, under its source's root; without a source, it is our own child or what our own record says that we
    /// started. Any other process must not have become part of another launch.
    fn prove(&self, process: ProcessRef) -> Result<Option<Proven>, SignalError> {
        let is_owner = self.owners.contains(&process);
        Proven::of(self.kernel, process, InspectRequest::default(), |seen| match (is_owner, self.source) {
            (true, Some(source)) => may_own(self.kernel, source, seen),
            (true, None) => Ok(()),
            (false, _) => match seen.variable(MARK) {
                Some(mark) if self.launch.as_deref() != Some(mark) => {
                    Err(format!("it belongs to launch {mark}"))
                }
                _ => Ok(()),
            },
        })
    }

    fn is_alive(&self, process: ProcessRef) -> bool {
        self.kernel.is_alive(process) != Observed::Seen(false)
    }
}

/// Whether this is a runner of ours, whatever its program is called: it may have been renamed, or replaced while it
/// runs.
fn is_runner(head: &ProcessHead) -> bool {
    matches!(head.argv.as_slice(), [_, word, folder] if word == RUNNER && folder.contains("/launches/"))
}

/// Makes the entry of a process for a report. A runner gets its own role.
pub(crate) fn entry(head: &ProcessHead, role: ProcessRole) -> ProcessEntry {
    ProcessEntry {
        pid: head.process.pid,
        started_at: head.started_at,
        role: if is_runner(head) { ProcessRole::Runner } else { role },
        command: head.program().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_called_runner_and_nothing_else_is() {
        let role = |argv: &[&str]| {
            let process = ProcessRef { pid: 7, start: 1, boot: 1 };
            let argv = argv.iter().map(|word| (*word).to_owned()).collect();
            let head = ProcessHead {
                process,
                parent: 1,
                uid: None,
                comm: "x".into(),
                argv,
                started_at: None,
                forked: false,
            };
            entry(&head, ProcessRole::Tool).role.as_str()
        };
        let folder = "/home/dev/.agentctl/launches/l-1";
        assert_eq!(role(&["/usr/bin/agentctl", "__run", folder]), "runner");
        assert_eq!(role(&["/opt/act (deleted)", "__run", folder]), "runner", "replaced while it runs");
        assert_eq!(role(&["/bin/sh", "-c", "agentctl __run"]), "tool");
        assert_eq!(role(&["agentctl", "list"]), "tool");
    }
}
