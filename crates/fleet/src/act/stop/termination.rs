//! Ending a family of processes: found by looking, told to end, killed, until nobody is left.
//!
//! Who belongs to it is found before the first signal, and again before each further step: what a tool started in a
//! session of its own survives its agent. Every signal goes to one process that was looked at anew and may be signalled.

use std::time::{Duration, Instant};

use agentctl_model::{Observed, Process, ProcessEntry, ProcessHead, ProcessRef};
use agentctl_process::{InspectRequest, Kernel, Proven, Sent, Signal, SignalError, is_agentctl, wait_gone};

use crate::Source;
use crate::act::launch::RUNNER;
use crate::keep::launches::MARK;
use crate::read::survey::family::{Member, family};
use crate::read::survey::kernel::is_of;
use crate::read::survey::root_membership::may_own;

/// How long what was told to end may take before it is killed, and what was killed before it counts as surviving.
const TOLD: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(10);

/// A family being ended.
pub(crate) struct Hunt<'a> {
    pub(crate) kernel: &'a dyn Kernel,
    /// The processes that all others come from.
    pub(crate) carriers: Vec<ProcessRef>,
    /// The launch that they carry; whoever carries another one is left alone.
    pub(crate) launch: Option<String>,
    /// What names the family in an environment, and the source under whose root that counts.
    pub(crate) marks: Vec<(&'static str, String)>,
    pub(crate) source: Option<&'a Source>,
    /// Everybody that was ever found to belong to it.
    pub(crate) known: Vec<(ProcessRef, ProcessEntry)>,
}

/// Who ended and who did not.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Bag {
    pub(crate) ended: Vec<ProcessEntry>,
    pub(crate) survived: Vec<ProcessEntry>,
}

impl Hunt<'_> {
    /// Looks for everybody that belongs to the family now.
    pub(crate) fn gather(&mut self) {
        let Observed::Seen(heads) = self.kernel.heads() else { return };
        let us = self.kernel.own_uid();
        let ours = heads.into_iter().filter(|head| is_of(us, head));
        let members: Vec<Member> = ours.filter_map(|head| self.member(head)).collect();
        // Whoever was known once stays: a parent that ended in between leaves children without a chain.
        let mut anchors = self.carriers.clone();
        anchors.extend(self.known.iter().map(|(process, _)| *process));
        for member in family(&members, &anchors, self.launch.as_deref()) {
            let process = member.head.process;
            if !self.known.iter().any(|(known, _)| *known == process) {
                self.known.push((process, entry(&member.head, "tool")));
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

    pub(crate) fn wait_for_carriers(&self, time: Duration) {
        let began = Instant::now();
        for carrier in &self.carriers {
            wait_gone(*carrier, time.saturating_sub(began.elapsed()));
        }
    }

    /// Everybody who is left: the carriers are killed, the others told once and then killed, until nobody comes after.
    pub(crate) fn finish(mut self) -> Bag {
        // Processes that are just being started by one that ends are found in the next round.
        for _ in 0..8 {
            self.gather();
            let known = self.known.iter().map(|(process, _)| *process).chain(self.carriers.iter().copied());
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
        Bag { ended: entries(ended), survived: entries(survived) }
    }

    /// Whether all of them ended.
    fn end(&self, mut left: Vec<ProcessRef>) -> bool {
        for process in &left {
            let hard = self.carriers.contains(process);
            // One that cannot or may not be signalled is found alive in the end, and reported.
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

    /// Proof that this process may be signalled, from a look at it in this moment. A carrier must still be the agent, under
    /// its source's root; where there is no source, it is our own child or what our own record says that we started.
    /// Everybody else must not have become a part of another launch.
    fn prove(&self, process: ProcessRef) -> Result<Option<Proven>, SignalError> {
        let is_carrier = self.carriers.contains(&process);
        Proven::of(self.kernel, process, InspectRequest::default(), |seen| match (is_carrier, self.source) {
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

/// A runner of ours, whatever its program is called: somebody may have renamed it, or replaced it while it runs.
fn is_runner(head: &ProcessHead) -> bool {
    matches!(head.argv.as_slice(), [_, word, folder] if word == RUNNER && folder.contains("/launches/"))
}

/// A process for a report. A runner is called what it is.
pub(crate) fn entry(head: &ProcessHead, role: &str) -> ProcessEntry {
    ProcessEntry {
        pid: head.process.pid,
        started_at: head.started_at,
        role: if is_runner(head) { "runner" } else { role }.to_owned(),
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
            let head =
                ProcessHead { process, parent: 1, uid: None, comm: "x".into(), argv, started_at: None };
            entry(&head, "tool").role
        };
        let folder = "/home/dev/.agentctl/launches/l-1";
        assert_eq!(role(&["/usr/bin/agentctl", "__run", folder]), "runner");
        assert_eq!(role(&["/opt/act (deleted)", "__run", folder]), "runner", "replaced while it runs");
        assert_eq!(role(&["/bin/sh", "-c", "agentctl __run"]), "tool");
        assert_eq!(role(&["agentctl", "list"]), "tool");
    }
}
