//! Finds sessions whose owner may exist where we cannot see it. Such a session is not called stopped.
//!
//! Two things hide an owner. First, the agent's own note may name a process of another user, or one that is not
//! recognised as the agent: we would not signal it, but it may be working. Second, a pid namespace hides what runs
//! above and beside it: there, the absence of a process proves its end only if it ran within. `docs/namespaces.md` says
//! what ties a record to our namespace or to another one.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentctl_adapters::Trace;
use agentctl_adapters::join::subagent_of;
use agentctl_model::{
    Found, Harvest, Joined, NamespaceView, Observed, OwnerIdentity, ProcessHead, Registration,
    RootMembership, TurnState,
};
use agentctl_process::{InspectRequest, Kernel, OpenHow, is_agentctl};
use jiff::Timestamp;

use crate::Source;
use crate::read::survey::kernel::{KernelSnapshot, is_of};
use crate::read::survey::root_membership::root_membership;

/// Why no status is derived for a session, by its id and variant.
pub(crate) type UnseenOwners = HashMap<(String, Option<String>), String>;

pub(crate) fn unseen_owners(
    kernel: &dyn Kernel,
    snapshot: &KernelSnapshot,
    source: &Source,
    harvest: &Harvest,
    joined: &Joined,
) -> UnseenOwners {
    let claimed: HashSet<&str> = joined
        .claims
        .iter()
        .map(|claim| claim.id.as_str())
        .chain(harvest.remote.iter().map(|remote| remote.id.as_str()))
        .collect();
    let view = kernel.namespace_view();
    let Some(heads) = snapshot.living() else { return UnseenOwners::new() };
    let visibility = Visibility {
        kernel,
        snapshot,
        source,
        heads,
        view,
        lent: !view.sees_all && kernel.is_lent(&source.root.path),
    };
    let mut unseen = UnseenOwners::new();
    for note in harvest.registrations.iter().filter(|note| !claimed.contains(note.id.as_str())) {
        if let Some(why) =
            visibility.unrecognised_owner(note).or_else(|| visibility.owner_elsewhere(note, harvest))
        {
            unseen.insert((note.id.clone(), note.variant.clone()), why);
        }
    }
    if !view.sees_all {
        // A sub-agent works in the process of its parent, which we can see.
        let is_claimed = |found: &Found| {
            claimed.contains(found.id.as_str()) || subagent_of(found).is_some_and(|id| claimed.contains(id))
        };
        let free = harvest.found.iter().filter(|found| !is_claimed(found));
        let alone = visibility.files_of_one_session(harvest);
        for found in free.filter(|found| may_be_working(found) || alone.contains(found.place.as_path())) {
            let id = (found.id.clone(), found.variant.clone());
            let inherited = || {
                let parent = subagent_of(found)?;
                unseen.iter().find(|((id, _), _)| id == parent).map(|(_, why)| why.clone())
            };
            if !unseen.contains_key(&id)
                && let Some(why) = inherited().or_else(|| visibility.may_be_owned_elsewhere(found))
            {
                unseen.insert(id, why);
            }
        }
    }
    unseen
}

struct Visibility<'a> {
    kernel: &'a dyn Kernel,
    snapshot: &'a KernelSnapshot,
    source: &'a Source,
    heads: &'a [ProcessHead],
    view: NamespaceView,
    /// The root was mounted from outside of our namespace.
    lent: bool,
}

impl Visibility<'_> {
    /// The reason to doubt if a note names a live process that does not count as an owner.
    fn unrecognised_owner(&self, note: &Registration) -> Option<String> {
        let by_pid = |pid: u32| self.heads.iter().find(|head| head.process.pid == pid);
        let head = match &note.holder {
            OwnerIdentity::Process { pid, start, .. } => {
                by_pid(*pid).filter(|head| head.process.start == *start)?
            }
            // A process that got that pid later never wrote the note.
            OwnerIdentity::Since { pid, at } => by_pid(*pid).filter(|head| {
                self.source.adapter.recognises(head) && head.started_at.is_none_or(|start| start <= *at)
            })?,
            OwnerIdentity::Lock { device, inode } => {
                let locks = self.snapshot.locks(self.kernel).seen()?;
                by_pid(locks.iter().find(|lock| lock.device == *device && lock.inode == *inode)?.pid)?
            }
            OwnerIdentity::OpenFile { pid, path } => by_pid(*pid).filter(|head| {
                let seen = self
                    .kernel
                    .inspect(head, InspectRequest { open_files: true, ..InspectRequest::default() });
                seen.is_some_and(|seen| {
                    seen.open_files.seen().is_none_or(|files| files.iter().any(|file| file.path == *path))
                })
            })?,
        };
        let process = self.kernel.inspect(head, InspectRequest::default())?;
        if is_agentctl(&process) {
            return None;
        }
        let (pid, name) = (head.process.pid, name_of(&note.place));
        if !is_of(self.kernel.own_uid(), head) {
            // A user who could not write here is not meant.
            let owner = fs::metadata(&self.source.root.path).ok()?.uid();
            let uid = head.uid.filter(|uid| *uid == owner)?;
            return Some(format!("{name} names process {pid}, which is user {uid}'s: ask as that user"));
        }
        let title = self.source.adapter.card().title;
        match root_membership(self.kernel, self.source, &process) {
            RootMembership::Ours if !self.source.adapter.recognises(head) => {
                Some(format!("{name} names process {pid}, which lives and is not known as {title}"))
            }
            RootMembership::Ours | RootMembership::Elsewhere => None,
            RootMembership::Unseen(why) => {
                Some(format!("{name} names process {pid}; under which root it works cannot be seen: {why}"))
            }
        }
    }

    /// The reason to doubt if a note names a process that is not here and may be in another pid namespace.
    fn owner_elsewhere(&self, note: &Registration, harvest: &Harvest) -> Option<String> {
        if self.view.sees_all {
            return None;
        }
        let name = name_of(&note.place);
        let noted_at = note.found.as_ref().and_then(|found| found.facts.started_at);
        match &note.holder {
            // Every process of our own namespace is visible.
            OwnerIdentity::Process { namespace: Some(there), .. } if self.view.namespace == Some(*there) => {
                None
            }
            OwnerIdentity::Process { pid, namespace, .. } => {
                let which = if namespace.is_some() { "of another" } else { "and does not say of which" };
                (!self.is_before_boot(noted_at.or_else(|| last_written(&note.place))))
                    .then(|| maybe_elsewhere(&format!("{name} names process {pid} {which} pid namespace")))
            }
            OwnerIdentity::Since { pid, at } => (!self.is_before_boot(Some(*at))).then(|| {
                maybe_elsewhere(&format!(
                    "{name} names process {pid} and does not say of which pid namespace"
                ))
            }),
            OwnerIdentity::Lock { .. } => {
                self.file_held_elsewhere(&note.place, OpenHow::ForWriting, note, harvest)
            }
            OwnerIdentity::OpenFile { path, .. } => {
                self.file_held_elsewhere(path, OpenHow::AtAll, note, harvest)
            }
        }
    }

    /// The agent keeps this file open while it has the session, so the kernel can tell whether a process has it.
    fn file_held_elsewhere(
        &self,
        file: &Path,
        how: OpenHow,
        note: &Registration,
        harvest: &Harvest,
    ) -> Option<String> {
        let name = name_of(file);
        match self.kernel.is_open(file, how) {
            Observed::Seen(false) => None,
            Observed::Seen(true) => {
                Some(maybe_elsewhere(&format!("somebody has {name} open who is not here")))
            }
            Observed::Unobservable(why) => {
                // Taking a lock again does not write its file again.
                let records = harvest.found.iter().filter(|found| found.id == note.id);
                let last =
                    records.map(|found| found.facts.updated_at).chain([last_written(file)]).max().flatten();
                (!self.is_before_boot(last)).then(|| maybe_elsewhere(&format!("{name} may be held ({why})")))
            }
        }
    }

    /// Returns the files that an agent keeps open for exactly one session, if it does so at all. A process that holds
    /// such a file has that session, even while it is idle. A file that was not written since the boot is open in no
    /// process.
    fn files_of_one_session<'h>(&self, harvest: &'h Harvest) -> HashSet<&'h Path> {
        let keeps_open = |found: &&Found| self.source.adapter.trace(&found.place) == Trace::OpenFile;
        let mut sessions: HashMap<&Path, usize> = HashMap::new();
        let since_boot = harvest.found.iter().filter(|found| !self.is_before_boot(found.facts.updated_at));
        for found in since_boot.filter(keeps_open) {
            *sessions.entry(&found.place).or_default() += 1;
        }
        sessions.into_iter().filter(|(_, count)| *count == 1).map(|(place, _)| place).collect()
    }

    /// The reason to doubt for a session without an owner here: its file may be open elsewhere, or its turn is open or
    /// has not begun.
    fn may_be_owned_elsewhere(&self, found: &Found) -> Option<String> {
        let name = name_of(&found.place);
        let trace = self.source.adapter.trace(&found.place);
        // If a process here has the file open (a database holds many sessions), that says nothing about other
        // processes.
        let opened = if self.is_open_here(&found.place) {
            Observed::Unobservable("somebody here has it open".to_owned())
        } else {
            self.kernel.is_open(&found.place, OpenHow::ForWriting)
        };
        match (&opened, trace) {
            (Observed::Seen(true), _) => {
                return Some(maybe_elsewhere(&format!("somebody has {name} open who is not here")));
            }
            (Observed::Seen(false), Trace::OpenFile) => return None,
            (Observed::Seen(false), Trace::Note | Trace::Nothing) | (Observed::Unobservable(_), _) => {}
        }
        let turn = found.facts.turn.as_ref();
        let last = turn.and_then(|turn| turn.last);
        if !may_be_working(found) || self.is_before_boot(last.or(found.facts.updated_at)) {
            return None;
        }
        match trace {
            Trace::Note => {
                let times = [turn.and_then(|turn| turn.began), last, found.facts.started_at];
                let older = times.into_iter().flatten().any(|at| self.is_before_namespace(at));
                let lent = self.lent.then_some("its folder came in from outside, and its turn is not over");
                let why = older.then_some("it was at work before the first process here started").or(lent);
                why.map(maybe_elsewhere)
            }
            Trace::OpenFile => {
                let why = opened.why_not().unwrap_or_default();
                Some(maybe_elsewhere(&format!(
                    "its turn is not over, and {name} may be open elsewhere ({why})"
                )))
            }
            Trace::Nothing => {
                let title = self.source.adapter.card().title;
                let why =
                    format!("its turn is not over, and {title} leaves nothing that ties it to a process");
                Some(maybe_elsewhere(&why))
            }
        }
    }

    fn is_open_here(&self, file: &Path) -> bool {
        let Some(real) = agentctl_files::real_path_within(file) else { return false };
        let want = InspectRequest { open_files: true, ..InspectRequest::default() };
        let agents = self.heads.iter().filter(|head| self.source.adapter.recognises(head));
        let mut looked = agents.filter_map(|head| self.kernel.inspect(head, want));
        looked.any(|process| {
            process.open_files.seen().is_none_or(|files| files.iter().any(|open| open.path == real))
        })
    }

    /// It was recorded before the machine started, so the process that wrote it is gone.
    fn is_before_boot(&self, at: Option<Timestamp>) -> bool {
        at.zip(self.view.booted_at).is_some_and(|(at, booted)| at < booted)
    }

    /// It was recorded in this boot but before the first process of this namespace started, so another namespace
    /// recorded it.
    fn is_before_namespace(&self, at: Timestamp) -> bool {
        !self.is_before_boot(Some(at)) && self.view.born_at.is_some_and(|born| at < born)
    }
}

/// The time of the last write to a file.
fn last_written(file: &Path) -> Option<Timestamp> {
    let time = fs::symlink_metadata(file).and_then(|file| file.modified()).ok()?;
    Timestamp::try_from(time).ok()
}

fn maybe_elsewhere(what: &str) -> String {
    format!("{what}: its process may run in another pid namespace (the host, or a container)")
}

fn name_of(path: &Path) -> String {
    agentctl_model::text::clean(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// A turn is open, or none has begun yet and one may be about to.
fn may_be_working(found: &Found) -> bool {
    use TurnState::{Approval, NotBegun, Open, Question};
    let state = found.facts.turn.as_ref().map(|turn| turn.state);
    matches!(state, None | Some(NotBegun | Open | Approval | Question))
}
