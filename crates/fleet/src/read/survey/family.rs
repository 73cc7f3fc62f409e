//! Determines which processes belong to a session: its owners, what they started, and what carries the session's mark.
//! Pure.

use std::collections::{HashMap, HashSet};

use agentctl_model::{ProcessHead, ProcessRef};

/// A process with the facts that decide whether it belongs to a session.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) head: ProcessHead,
    /// The launch that its environment names.
    pub(crate) launch: Option<String>,
    /// Its environment names the session.
    pub(crate) marked: bool,
    /// It is agentctl: a command, a runner or the daemon.
    pub(crate) is_agentctl: bool,
}

/// Returns the descendants of the owners, and the processes that lost their parents but still carry the session's mark.
/// A process of another launch, agentctl itself, and whatever those started do not belong to the session.
pub(crate) fn family<'m>(all: &'m [Member], owners: &[ProcessRef], launch: Option<&str>) -> Vec<&'m Member> {
    let by_pid: HashMap<u32, &Member> = all.iter().map(|member| (member.head.process.pid, member)).collect();
    let owners: HashSet<ProcessRef> = owners.iter().copied().collect();
    let is_foreign = |member: &Member| {
        member.is_agentctl || (member.launch.is_some() && member.launch.as_deref() != launch)
    };
    let belongs = |member: &&Member| {
        if owners.contains(&member.head.process) {
            return false;
        }
        let mut marked = false;
        let mut seen = HashSet::new();
        let mut current = *member;
        // A process table that changes while it is read can contain a cycle.
        while seen.insert(current.head.process.pid) {
            if owners.contains(&current.head.process) {
                return true;
            }
            if is_foreign(current) {
                return false;
            }
            marked |= current.marked;
            match by_pid.get(&current.head.parent) {
                Some(parent) => current = parent,
                None => break,
            }
        }
        marked
    };
    all.iter().filter(belongs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: u32, parent: u32) -> Member {
        let process = ProcessRef { pid, start: u64::from(pid), boot: 1 };
        let (uid, comm, argv) = (None, "x".to_owned(), Vec::new());
        let head = ProcessHead { process, parent, uid, comm, argv, started_at: None, forked: false };
        Member { head, launch: None, marked: false, is_agentctl: false }
    }

    fn pids(all: &[Member], owners: &[u32], launch: Option<&str>) -> Vec<u32> {
        let owners: Vec<ProcessRef> =
            owners.iter().map(|pid| ProcessRef { pid: *pid, start: u64::from(*pid), boot: 1 }).collect();
        family(all, &owners, launch).iter().map(|member| member.head.process.pid).collect()
    }

    #[test]
    fn what_a_carrier_started_and_what_lost_its_parents_but_kept_the_mark() {
        let orphan = Member { marked: true, ..member(30, 1) };
        let all = [
            member(1, 0),
            member(10, 1),
            member(11, 10),
            member(12, 11),
            orphan,
            member(31, 30),
            member(40, 1),
        ];
        assert_eq!(pids(&all, &[10], None), [11, 12, 30, 31]);
    }

    #[test]
    fn another_launch_and_agentctl_and_what_they_started_are_left_alone() {
        let launched = |member: Member, launch: &str| Member { launch: Some(launch.to_owned()), ..member };
        let cli = Member { is_agentctl: true, ..launched(member(20, 11), "l-1") };
        let runner = Member { is_agentctl: true, ..launched(member(5, 1), "l-1") };
        let all = [
            runner,
            launched(member(10, 5), "l-1"),
            launched(member(11, 10), "l-1"),
            // The agent's tool called agentctl, which started another agent.
            cli,
            launched(member(21, 20), "l-2"),
            launched(member(22, 21), "l-2"),
            // The same, after the command has exited: its mark still names another launch, whatever else it inherited.
            Member { marked: true, ..launched(member(23, 11), "l-2") },
            // A hook that our own runner started.
            Member { marked: true, ..launched(member(6, 5), "l-1") },
        ];
        assert_eq!(pids(&all, &[10], Some("l-1")), [11]);
        // Stopping a session that was not launched does not take a launched one with it.
        assert_eq!(pids(&all[2..], &[11], None), Vec::<u32>::new());
    }

    #[test]
    fn the_same_pid_at_another_time_is_another_process() {
        let all = [member(10, 1), member(11, 10)];
        let before = ProcessRef { pid: 10, start: 9, boot: 1 };
        assert!(family(&all, &[before], None).is_empty());
    }
}
