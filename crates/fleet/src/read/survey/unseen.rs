//! Sessions whose carrier may be where it cannot be seen: nobody is called stopped because we do not see far enough.
//!
//! Two things hide a carrier. A process of another user, or one that is not known as the agent, may be named by the agent's
//! own note: it is nobody that we would signal, and it may be at work. And a pid namespace hides what runs above and beside
//! it: there, that a process is not to be seen proves its end only for what ran within. What ties a record to our namespace
//! or to another one is in `docs/namespaces.md`.

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
use crate::read::survey::kernel::{Look, is_of};
use crate::read::survey::standing::standing;

/// Why nothing is said of a session, by its id and slot.
pub(crate) type Unseen = HashMap<(String, Option<String>), String>;

pub(crate) fn unseen(
    kernel: &dyn Kernel,
    look: &Look,
    source: &Source,
    harvest: &Harvest,
    joined: &Joined,
) -> Unseen {
    let claimed: HashSet<&str> = joined
        .claims
        .iter()
        .map(|claim| claim.id.as_str())
        .chain(harvest.remote.iter().map(|remote| remote.id.as_str()))
        .collect();
    let seat = kernel.namespace_view();
    let Some(heads) = look.living() else { return Unseen::new() };
    let eyes =
        Eyes { kernel, look, source, heads, seat, lent: !seat.sees_all && kernel.is_lent(&source.root.path) };
    let mut unseen = Unseen::new();
    for note in harvest.registrations.iter().filter(|note| !claimed.contains(note.id.as_str())) {
        if let Some(why) = eyes.stranger(note).or_else(|| eyes.elsewhere(note, harvest)) {
            unseen.insert((note.id.clone(), note.slot.clone()), why);
        }
    }
    if !seat.sees_all {
        // A sub-agent works in the process of its parent, which can be seen.
        let is_claimed = |found: &Found| {
            claimed.contains(found.id.as_str()) || subagent_of(found).is_some_and(|id| claimed.contains(id))
        };
        let free = harvest.found.iter().filter(|found| !is_claimed(found));
        let alone = eyes.with_a_file_of_their_own(harvest);
        for found in free.filter(|found| may_be_at_work(found) || alone.contains(found.place.as_path())) {
            let id = (found.id.clone(), found.slot.clone());
            let inherited = || {
                let parent = subagent_of(found)?;
                unseen.iter().find(|((id, _), _)| id == parent).map(|(_, why)| why.clone())
            };
            if !unseen.contains_key(&id)
                && let Some(why) = inherited().or_else(|| eyes.held_or_at_work(found))
            {
                unseen.insert(id, why);
            }
        }
    }
    unseen
}

struct Eyes<'a> {
    kernel: &'a dyn Kernel,
    look: &'a Look,
    source: &'a Source,
    heads: &'a [ProcessHead],
    seat: NamespaceView,
    /// The root came in from outside.
    lent: bool,
}

impl Eyes<'_> {
    /// The live process that a note names and that is no carrier for us.
    fn stranger(&self, note: &Registration) -> Option<String> {
        let by_pid = |pid: u32| self.heads.iter().find(|head| head.process.pid == pid);
        let head = match &note.holder {
            OwnerIdentity::Process { pid, start, .. } => {
                by_pid(*pid).filter(|head| head.process.start == *start)?
            }
            // Whoever else has that pid since then never wrote the note.
            OwnerIdentity::Since { pid, at } => by_pid(*pid).filter(|head| {
                self.source.adapter.recognises(head) && head.started_at.is_none_or(|start| start <= *at)
            })?,
            OwnerIdentity::Lock { device, inode } => {
                let locks = self.look.locks(self.kernel).seen()?;
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
            // Somebody who could not even write here is not meant.
            let owner = fs::metadata(&self.source.root.path).ok()?.uid();
            let uid = head.uid.filter(|uid| *uid == owner)?;
            return Some(format!("{name} names process {pid}, which is user {uid}'s: ask as that user"));
        }
        let title = self.source.adapter.card().title;
        match standing(self.kernel, self.source, &process) {
            RootMembership::Ours if !self.source.adapter.recognises(head) => {
                Some(format!("{name} names process {pid}, which lives and is not known as {title}"))
            }
            RootMembership::Ours | RootMembership::Elsewhere => None,
            RootMembership::Unseen(why) => {
                Some(format!("{name} names process {pid}; under which root it works cannot be seen: {why}"))
            }
        }
    }

    /// The process that a note names is not here, and may be in another pid namespace.
    fn elsewhere(&self, note: &Registration, harvest: &Harvest) -> Option<String> {
        if self.seat.sees_all {
            return None;
        }
        let name = name_of(&note.place);
        let noted_at = note.found.as_ref().and_then(|found| found.facts.started_at);
        match &note.holder {
            // Everybody in our own namespace can be seen.
            OwnerIdentity::Process { namespace: Some(there), .. } if self.seat.namespace == Some(*there) => {
                None
            }
            OwnerIdentity::Process { pid, namespace, .. } => {
                let which = if namespace.is_some() { "of another" } else { "and does not say of which" };
                (!self.is_before_boot(noted_at.or_else(|| written(&note.place))))
                    .then(|| beyond(&format!("{name} names process {pid} {which} pid namespace")))
            }
            OwnerIdentity::Since { pid, at } => (!self.is_before_boot(Some(*at))).then(|| {
                beyond(&format!("{name} names process {pid} and does not say of which pid namespace"))
            }),
            OwnerIdentity::Lock { .. } => self.held(&note.place, OpenHow::ForWriting, note, harvest),
            OwnerIdentity::OpenFile { path, .. } => self.held(path, OpenHow::AtAll, note, harvest),
        }
    }

    /// A file that the agent keeps open while it has the session: the kernel says whether anybody has.
    fn held(&self, file: &Path, how: OpenHow, note: &Registration, harvest: &Harvest) -> Option<String> {
        let name = name_of(file);
        match self.kernel.is_open(file, how) {
            Observed::Seen(false) => None,
            Observed::Seen(true) => Some(beyond(&format!("somebody has {name} open who is not here"))),
            Observed::Unobservable(why) => {
                // A lock that is taken again is not written again.
                let records = harvest.found.iter().filter(|found| found.id == note.id);
                let last = records.map(|found| found.facts.updated_at).chain([written(file)]).max().flatten();
                (!self.is_before_boot(last)).then(|| beyond(&format!("{name} may be held ({why})")))
            }
        }
    }

    /// The files that an agent keeps open for one session, if it does so at all: whoever holds one has that very session,
    /// also when it rests. What was not written since the boot is open to nobody.
    fn with_a_file_of_their_own<'h>(&self, harvest: &'h Harvest) -> HashSet<&'h Path> {
        let keeps_open = |found: &&Found| self.source.adapter.trace(&found.place) == Trace::OpenFile;
        let mut sessions: HashMap<&Path, usize> = HashMap::new();
        let since_boot = harvest.found.iter().filter(|found| !self.is_before_boot(found.facts.updated_at));
        for found in since_boot.filter(keeps_open) {
            *sessions.entry(&found.place).or_default() += 1;
        }
        sessions.into_iter().filter(|(_, count)| *count == 1).map(|(place, _)| place).collect()
    }

    /// A session that no process here carries: its file, or the turn that is open or did not begin yet.
    fn held_or_at_work(&self, found: &Found) -> Option<String> {
        let name = name_of(&found.place);
        let trace = self.source.adapter.trace(&found.place);
        // Where somebody here has the file open (a database has many sessions), it says nothing about others.
        let opened = if self.is_held_here(&found.place) {
            Observed::Unobservable("somebody here has it open".to_owned())
        } else {
            self.kernel.is_open(&found.place, OpenHow::ForWriting)
        };
        match (&opened, trace) {
            (Observed::Seen(true), _) => {
                return Some(beyond(&format!("somebody has {name} open who is not here")));
            }
            (Observed::Seen(false), Trace::OpenFile) => return None,
            (Observed::Seen(false), Trace::Note | Trace::Nothing) | (Observed::Unobservable(_), _) => {}
        }
        let turn = found.facts.turn.as_ref();
        let last = turn.and_then(|turn| turn.last);
        if !may_be_at_work(found) || self.is_before_boot(last.or(found.facts.updated_at)) {
            return None;
        }
        match trace {
            Trace::Note => {
                let times = [turn.and_then(|turn| turn.began), last, found.facts.started_at];
                let older = times.into_iter().flatten().any(|at| self.is_before_us(at));
                let lent = self.lent.then_some("its folder came in from outside, and its turn is not over");
                let why = older.then_some("it was at work before the first process here started").or(lent);
                why.map(beyond)
            }
            Trace::OpenFile => {
                let why = opened.why_not().unwrap_or_default();
                Some(beyond(&format!("its turn is not over, and {name} may be open elsewhere ({why})")))
            }
            Trace::Nothing => {
                let title = self.source.adapter.card().title;
                let why =
                    format!("its turn is not over, and {title} leaves nothing that ties it to a process");
                Some(beyond(&why))
            }
        }
    }

    fn is_held_here(&self, file: &Path) -> bool {
        let Some(real) = agentctl_files::real_path_within(file) else { return false };
        let want = InspectRequest { open_files: true, ..InspectRequest::default() };
        let agents = self.heads.iter().filter(|head| self.source.adapter.recognises(head));
        let mut looked = agents.filter_map(|head| self.kernel.inspect(head, want));
        looked.any(|process| {
            process.open_files.seen().is_none_or(|files| files.iter().any(|open| open.path == real))
        })
    }

    /// Recorded before the machine started: whoever wrote it is gone.
    fn is_before_boot(&self, at: Option<Timestamp>) -> bool {
        at.zip(self.seat.booted_at).is_some_and(|(at, booted)| at < booted)
    }

    /// Recorded in this boot, and before the first process of this namespace started: it is not of this namespace.
    fn is_before_us(&self, at: Timestamp) -> bool {
        !self.is_before_boot(Some(at)) && self.seat.born_at.is_some_and(|born| at < born)
    }
}

/// When a file was written last.
fn written(file: &Path) -> Option<Timestamp> {
    let time = fs::symlink_metadata(file).and_then(|file| file.modified()).ok()?;
    Timestamp::try_from(time).ok()
}

fn beyond(what: &str) -> String {
    format!("{what}: its process may run in another pid namespace (the host, or a container)")
}

fn name_of(path: &Path) -> String {
    agentctl_model::text::clean(&path.file_name().unwrap_or_default().to_string_lossy())
}

/// A turn is open, or none was begun: then it may be about to be.
fn may_be_at_work(found: &Found) -> bool {
    use TurnState::{Approval, NotBegun, Open, Question};
    let state = found.facts.turn.as_ref().map(|turn| turn.state);
    matches!(state, None | Some(NotBegun | Open | Approval | Question))
}
