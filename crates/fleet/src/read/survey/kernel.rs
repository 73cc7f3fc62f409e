//! Looking at the kernel on behalf of the adapters: one cheap pass, then a close look at what they recognise.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use agentctl_adapters::Looks;
use agentctl_model::{
    Harvest, HeldLock, KernelView, Launched, Observed, OwnerIdentity, Process, ProcessHead, RootMembership,
};
use agentctl_process::{InspectRequest, Kernel, is_agentctl};
use jiff::Timestamp;

use crate::Source;
use crate::keep::launches::{Ledger, MARK};
use crate::read::survey::standing::{is_same_root, standing};

/// One pass over the process table, and over the locks once somebody needs them.
pub(crate) struct Look {
    pub(crate) as_of: Timestamp,
    pub(crate) heads: Observed<Vec<ProcessHead>>,
    /// Read at the first need: for a look at its locks the kernel holds up everybody who takes one, for milliseconds.
    locks: OnceCell<Observed<Vec<HeldLock>>>,
}

impl Look {
    pub(crate) fn take(kernel: &dyn Kernel) -> Self {
        let heads = kernel.heads();
        #[expect(clippy::disallowed_methods, reason = "the moment of the look is part of the evidence")]
        let as_of = Timestamp::now();
        Self { as_of, heads, locks: OnceCell::new() }
    }

    /// Every process of this look, where it could look at all.
    pub(crate) fn living(&self) -> Option<&[ProcessHead]> {
        self.heads.seen().map(Vec::as_slice)
    }

    /// What one source's adapter gets to see: the processes that it recognises, of this user, and none of agentctl's own.
    /// That its storage names a process makes nobody one of its own.
    pub(crate) fn view(
        &self,
        kernel: &dyn Kernel,
        source: &Source,
        harvest: Option<&Harvest>,
        ledger: &Ledger,
    ) -> KernelView {
        let looks = source.adapter.card().looks;
        let empty = Vec::new();
        let heads = self.heads.seen().unwrap_or(&empty);
        let us = kernel.own_uid();
        let wanted = |head: &&ProcessHead| is_of(us, head) && source.adapter.recognises(head);
        let recognised: Vec<&ProcessHead> = heads.iter().filter(wanted).collect();
        let offspring = if looks.offspring { descendants(heads, &recognised) } else { Vec::new() };
        let mut processes = inspect(kernel, &recognised, looks);
        processes.retain(|process| !is_agentctl(process));
        for process in &mut processes {
            call_files_as_we_do(kernel, process, source);
        }
        let held = match harvest {
            _ if !looks.locks => Observed::Unobservable("not looked at".to_owned()),
            // Nobody lives who could hold one, and there is no file of the agent's that could be held.
            harvest if recognised.is_empty() && !harvest.is_some_and(names_locks) => {
                Observed::Seen(Vec::new())
            }
            _ => self.locks(kernel).clone(),
        };
        let root = source.root.path.to_string_lossy();
        // Where nobody lives, nobody could be taken for a carrier.
        let joined = harvest.filter(|_| !processes.is_empty());
        KernelView {
            as_of: self.as_of,
            launched: launched(&processes, heads, source, ledger),
            standings: standings(kernel, source, &processes),
            ended: joined
                .map(|harvest| ledger.ended(source.name(), &root, &harvest.found, self.living(), kernel))
                .unwrap_or_default(),
            processes,
            offspring: inspect(kernel, &offspring, Looks::default()),
            locks: held,
        }
    }

    pub(crate) fn locks(&self, kernel: &dyn Kernel) -> &Observed<Vec<HeldLock>> {
        self.locks.get_or_init(|| kernel.locks())
    }
}

/// Another user's process is never a carrier, also where we may look at it (as root).
pub(crate) fn is_of(us: Option<u32>, head: &ProcessHead) -> bool {
    us.is_none() || head.uid.is_none() || head.uid == us
}

fn standings(kernel: &dyn Kernel, source: &Source, processes: &[Process]) -> HashMap<u32, RootMembership> {
    processes.iter().map(|process| (process.pid(), standing(kernel, source, process))).collect()
}

/// A process in a container may have our root under another name, and the kernel names its open files by that one.
fn call_files_as_we_do(kernel: &dyn Kernel, process: &mut Process, source: &Source) {
    let own = process.environ.seen().and_then(|environ| source.adapter.root(environ));
    let Some(own) = own.filter(|own| own.path != source.root.path) else { return };
    if !is_same_root(kernel, process, &own, &source.root) {
        return;
    }
    let Observed::Seen(files) = &mut process.open_files else { return };
    let Some(ours) = agentctl_files::real_path_within(&source.root.path) else { return };
    for file in files {
        if !file.path.starts_with(&ours)
            && let Ok(inside) = file.path.strip_prefix(&own.path)
        {
            file.path = ours.join(inside);
        }
    }
}

fn names_locks(harvest: &Harvest) -> bool {
    harvest.registrations.iter().any(|note| matches!(note.holder, OwnerIdentity::Lock { .. }))
}

/// The processes that our launches started: by the mark, unless they are only a tool's doing. A tool and what it starts
/// inherit the mark, but between them and the agent stands a process that is no agent. Where the agent is gone, so is that
/// chain: what an agent leaves in the environment of its tools tells them apart, since nothing that we start has it.
fn launched(processes: &[Process], heads: &[ProcessHead], source: &Source, ledger: &Ledger) -> Vec<Launched> {
    if ledger.is_empty() {
        return Vec::new();
    }
    let parents: HashMap<u32, u32> = heads.iter().map(|head| (head.process.pid, head.parent)).collect();
    let marks: HashMap<u32, &str> =
        processes.iter().filter_map(|process| Some((process.pid(), process.variable(MARK)?))).collect();
    let is_a_tools_doing = |pid: u32, launch: &str| {
        let (mut current, mut gap) = (pid, false);
        // As many steps as there are processes: a table that changes while it is read can hold a circle.
        for _ in 0..heads.len() {
            let Some(parent) = parents.get(&current) else { return false };
            match marks.get(parent) {
                Some(mark) if *mark == launch && gap => return true,
                Some(mark) if *mark == launch => {}
                _ => gap = true,
            }
            current = *parent;
        }
        false
    };
    let has_tool_mark = |process: &Process, id: &str| {
        let marks = source.adapter.control().map(|control| control.tool_marks(id, None)).unwrap_or_default();
        marks.iter().any(|(name, value)| process.variable(name) == Some(value.as_str()))
    };
    let started = processes.iter().filter_map(|process| {
        let (pid, launch) = (process.pid(), *marks.get(&process.pid())?);
        let id = ledger.session_of(launch, source.name())?.to_owned();
        let of_a_tool = is_a_tools_doing(pid, launch) || has_tool_mark(process, &id);
        (!of_a_tool).then_some(Launched { pid, id })
    });
    started.collect()
}

fn inspect(kernel: &dyn Kernel, heads: &[&ProcessHead], looks: Looks) -> Vec<Process> {
    let want = InspectRequest { open_files: looks.open_files, listening: looks.listening };
    heads.iter().filter_map(|head| kernel.inspect(head, want)).collect()
}

/// Everything below these processes by parentage.
fn descendants<'h>(heads: &'h [ProcessHead], of: &[&ProcessHead]) -> Vec<&'h ProcessHead> {
    let mut family: HashSet<u32> = of.iter().map(|head| head.process.pid).collect();
    let mut below: Vec<&ProcessHead> = Vec::new();
    loop {
        let fresh: Vec<&ProcessHead> = heads
            .iter()
            .filter(|head| family.contains(&head.parent) && !family.contains(&head.process.pid))
            .collect();
        if fresh.is_empty() {
            return below;
        }
        family.extend(fresh.iter().map(|head| head.process.pid));
        below.extend(fresh);
    }
}
