//! Reads the kernel on behalf of the adapters: one cheap pass over all processes, then a closer inspection of those
//! that an adapter recognises.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use agentctl_adapters::Looks;
use agentctl_adapters::agents::acp;
use agentctl_model::{
    Harvest, HeldLock, KernelView, Launched, Observed, OwnerIdentity, Process, ProcessHead, RootMembership,
};
use agentctl_process::{InspectRequest, Kernel, in_halves, is_agentctl};
use jiff::Timestamp;

use crate::Source;
use crate::keep::launches::{Ledger, MARK};
use crate::read::survey::root_membership::{is_same_root, root_membership};

/// One pass over the process table, and one over the locks when they are first needed.
pub(crate) struct KernelSnapshot {
    pub(crate) as_of: Timestamp,
    pub(crate) heads: Observed<Vec<ProcessHead>>,
    /// Read only when needed, because reading the lock table blocks every process that takes a lock for some
    /// milliseconds.
    locks: OnceCell<Observed<Vec<HeldLock>>>,
}

impl KernelSnapshot {
    pub(crate) fn take(kernel: &dyn Kernel) -> Self {
        Self::take_of(kernel, None)
    }

    /// Reads the process table; that of a moment of the past counts as read then.
    pub(crate) fn take_of(kernel: &dyn Kernel, past: Option<Timestamp>) -> Self {
        let heads = kernel.heads();
        #[expect(clippy::disallowed_methods, reason = "the moment of the look is part of the evidence")]
        let as_of = past.unwrap_or_else(Timestamp::now);
        Self { as_of, heads, locks: OnceCell::new() }
    }

    /// Every process of this snapshot, if the process table could be read.
    pub(crate) fn living(&self) -> Option<&[ProcessHead]> {
        self.heads.seen().map(Vec::as_slice)
    }

    /// Returns what one source's adapter may see: the processes of this user that it recognises, without those of
    /// agentctl itself. That an agent's storage names a process does not make it one of the agent's.
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
        // Only the launch records know the processes of an agent that only ACP knows.
        let started =
            if acp::is_name(source.name()) { ledger.processes_of(source.name()) } else { HashSet::new() };
        let is_known = |head: &ProcessHead| {
            source.adapter.recognises(head) || (!started.is_empty() && started.contains(&head.process))
        };
        let wanted = |head: &&ProcessHead| is_of(us, head) && is_known(head) && !is_copy(head, heads);
        let recognised: Vec<&ProcessHead> = heads.iter().filter(wanted).collect();
        let offspring = if looks.offspring { descendants(heads, &recognised) } else { Vec::new() };
        let mut processes = inspect(kernel, &recognised, looks);
        processes.retain(|process| !is_agentctl(process));
        for process in &mut processes {
            rename_open_files(kernel, process, source);
        }
        let held = match harvest {
            _ if !looks.locks => Observed::Unobservable("not looked at".to_owned()),
            // No process is alive that could hold a lock, and no file of the agent could be locked.
            harvest if recognised.is_empty() && !harvest.is_some_and(names_locks) => {
                Observed::Seen(Vec::new())
            }
            _ => self.locks(kernel).clone(),
        };
        let root = source.root.path.to_string_lossy();
        // Without processes there are no possible owners.
        let joined = harvest.filter(|_| !processes.is_empty());
        KernelView {
            as_of: self.as_of,
            launched: launched(&processes, heads, source, ledger),
            root_memberships: root_memberships(kernel, source, &processes),
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

/// A process of another user is never an owner, even where we may inspect it (as root).
pub(crate) fn is_of(us: Option<u32>, head: &ProcessHead) -> bool {
    us.is_none() || head.uid.is_none() || head.uid == us
}

/// Whether this is the short-lived copy through which a process starts another program: until that program runs, the
/// copy looks in every way like the agent that forked it.
fn is_copy(head: &ProcessHead, heads: &[ProcessHead]) -> bool {
    head.forked && heads.iter().any(|other| other.process.pid == head.parent && other.argv == head.argv)
}

fn root_memberships(
    kernel: &dyn Kernel,
    source: &Source,
    processes: &[Process],
) -> HashMap<u32, RootMembership> {
    processes.iter().map(|process| (process.pid(), root_membership(kernel, source, process))).collect()
}

/// A process in a container may know our root by another name, and the kernel reports its open files by that name. This
/// gives them the names that we use.
fn rename_open_files(kernel: &dyn Kernel, process: &mut Process, source: &Source) {
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

/// Returns the processes that our launches started. They carry the launch's mark, but tools and what tools start
/// inherit it too. Between a tool's process and the agent stands a process that is no agent. Where the agent is gone,
/// so is that chain; then the variables that an agent sets for its tools tell them apart, since nothing that we start
/// has them.
fn launched(processes: &[Process], heads: &[ProcessHead], source: &Source, ledger: &Ledger) -> Vec<Launched> {
    if ledger.is_empty() {
        return Vec::new();
    }
    let parents: HashMap<u32, u32> = heads.iter().map(|head| (head.process.pid, head.parent)).collect();
    let marks: HashMap<u32, &str> =
        processes.iter().filter_map(|process| Some((process.pid(), process.variable(MARK)?))).collect();
    let is_a_tools_doing = |pid: u32, launch: &str| {
        let (mut current, mut gap) = (pid, false);
        // The number of steps is limited to the number of processes, because a process table that changes while it is
        // read can contain a cycle.
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
        let record = ledger.launch(launch, source.name())?;
        let (id, held) = (record.session_id.clone()?, record.order.hold);
        let of_a_tool = is_a_tools_doing(pid, launch) || has_tool_mark(process, &id);
        (!of_a_tool).then_some(Launched { pid, id, held, on_screen: record.order.terminal })
    });
    started.collect()
}

fn inspect(kernel: &dyn Kernel, heads: &[&ProcessHead], looks: Looks) -> Vec<Process> {
    let want = InspectRequest { open_files: looks.open_files, listening: looks.listening };
    let seen = in_halves(heads, |heads| -> Vec<Process> {
        heads.iter().filter_map(|head| kernel.inspect(head, want)).collect()
    });
    seen.into_iter().flatten().collect()
}

/// All descendants of these processes.
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
