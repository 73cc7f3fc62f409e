//! Which sessions a question reaches, by their heads alone.

use std::collections::HashSet;

use agentctl_model::Process;
use jiff::Timestamp;

use super::processes::{Kind, directories, id_in_argv, kind};
use super::session::Head;

/// A question by id for more than this many is a second reading of what a whole answer already has.
const NAMED_ONE_BY_ONE: usize = 16;
/// As many as can matter for the rule of the only candidate: two, and those that others carry for certain.
const NEIGHBOURS: usize = 8;

/// What a live process says about which sessions it may carry.
#[derive(Debug, Clone)]
pub(super) struct Carrier {
    started_at: Option<Timestamp>,
    pub(super) id: Option<String>,
    /// `None`: any directory.
    directories: Option<Vec<String>>,
}

impl Carrier {
    /// `None` for processes that never carry a session themselves.
    pub(super) fn of(process: &Process) -> Option<Self> {
        let everywhere = match kind(&process.head) {
            Kind::Wrapper | Kind::Neither => return None,
            Kind::Server | Kind::Editor => true,
            Kind::Run | Kind::Terminal => false,
        };
        Some(Self {
            started_at: process.head.started_at,
            id: id_in_argv(&process.head).map(str::to_owned),
            directories: (!everywhere).then(|| directories(process)),
        })
    }

    pub(super) fn may_carry(&self, head: &Head) -> bool {
        let in_reach = match (&self.directories, &head.directory) {
            (None, _) => true,
            (Some(there), Some(directory)) => there.contains(directory),
            (Some(_), None) => false,
        };
        in_reach && head.updated.is_none_or(|at| self.started_at.is_none_or(|start| at >= start))
    }
}

/// The start of the oldest process; `None` when nothing can be left out by time.
pub(super) fn earliest(carriers: &[Carrier]) -> Option<Timestamp> {
    carriers.iter().map(|carrier| carrier.started_at).min().flatten()
}

pub(super) fn is_named_one_by_one(ids: &[String]) -> bool {
    ids.len() <= NAMED_ONE_BY_ONE
}

/// The sessions beside the named ones that decide whether a process has only one candidate: the newest ones of the
/// same directories, by both times that count there.
pub(super) fn neighbours(named: &[Head], mut beside: Vec<Head>) -> Vec<Head> {
    let known: HashSet<&str> = named.iter().map(|head| head.id.as_str()).collect();
    beside.retain(|head| head.parent.is_none() && !known.contains(head.id.as_str()));
    let directories: HashSet<&Option<String>> = named.iter().map(|head| &head.directory).collect();
    let mut chosen: Vec<Head> = Vec::new();
    for directory in directories {
        let mut there: Vec<&Head> = beside.iter().filter(|head| head.directory == *directory).collect();
        for by in [|head: &Head| head.updated, |head: &Head| head.created] {
            there.sort_by_key(|head| std::cmp::Reverse(by(head)));
            for head in there.iter().take(NEIGHBOURS) {
                if !chosen.contains(head) {
                    chosen.push((*head).clone());
                }
            }
        }
    }
    chosen
}
