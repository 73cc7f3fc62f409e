//! Decides what can be done with a session now, for every hint and for the inbox. Having one place for this ensures
//! that no hint names a command that would be refused.

use std::path::Path;

use agentctl_model::{
    Capability, Observed, PendingKind, ProcessHead, ProcessRole, Session, Status, StopWay, Surveyed, text,
};

use crate::Fleet;

/// A command that works for a session in its present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Approve,
    Deny,
    Answer,
    Send,
    /// Continue a session that no process runs.
    Resume,
    /// Go to the terminal where it runs.
    Attach,
    /// Print the agent's own command that opens a session which no process runs.
    Open,
    /// Wait for the end of a run that ends with its turn.
    Wait,
    Fork,
    Stop,
    Peek,
}

impl Offer {
    pub fn command(self, id: &str) -> String {
        let id = text::shell_word(id);
        match self {
            Self::Approve => format!("agentctl approve {id}"),
            Self::Deny => format!("agentctl deny {id}"),
            Self::Answer => format!("agentctl answer {id} TEXT"),
            Self::Send => format!("agentctl send {id} MESSAGE"),
            Self::Resume => format!("agentctl resume {id} MESSAGE"),
            Self::Attach | Self::Open => format!("agentctl attach {id}"),
            Self::Wait => format!("agentctl wait {id}"),
            Self::Fork => format!("agentctl resume {id} MESSAGE --fork"),
            Self::Stop => format!("agentctl stop {id}"),
            Self::Peek => format!("agentctl peek {id}"),
        }
    }

    fn effect(self) -> &'static str {
        match self {
            Self::Approve => "says yes to what it waits for",
            Self::Deny => "says no to it",
            Self::Answer => "answers its question",
            Self::Send => "speaks to it",
            Self::Resume => "takes it up again",
            Self::Attach => "goes to the terminal where it runs",
            Self::Open => "prints the command that opens it",
            Self::Wait => "waits for its end, after which it can be resumed",
            Self::Fork => "goes on in a copy",
            Self::Stop => "ends it",
            Self::Peek => "shows what was said",
        }
    }
}

/// What is known about a session beside the session object.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "five facts that do not depend on each other")]
pub(crate) struct Reachability {
    /// A server accepts messages for it.
    pub(crate) accepts_messages: bool,
    /// One of its processes runs in a pane of tmux.
    pub(crate) is_in_tmux: bool,
    /// Its agent can continue it, and its directory exists.
    pub(crate) can_continue: bool,
    /// Its agent has a command that opens it.
    pub(crate) can_be_opened: bool,
    /// It lives in a gateway, where an idle session can be resumed.
    pub(crate) is_in_gateway: bool,
}

/// Returns the commands that work, most useful first.
pub(crate) fn offers(session: &Session, ways_in: Reachability) -> Vec<Offer> {
    let can = |capability| session.capabilities.contains(&capability);
    let waits = |kind| session.pending.iter().any(|pending| pending.kind == kind && pending.answerable);
    let is_own = !session.is_subagent();
    let runs = session.status != Status::Stopped;
    // A launch is one turn, so its process ends with that turn.
    let ends_by_itself = session.launch.is_some() && session.pid.is_some() && !ways_in.accepts_messages;
    let rests = !runs || (ways_in.is_in_gateway && session.status == Status::Idle);
    let all = [
        (Offer::Approve, waits(PendingKind::Approval)),
        (Offer::Deny, waits(PendingKind::Approval)),
        (Offer::Answer, waits(PendingKind::Question)),
        (Offer::Send, runs && can(Capability::Send) && ways_in.accepts_messages),
        (Offer::Attach, runs && ways_in.is_in_tmux),
        (Offer::Resume, rests && is_own && can(Capability::Resume) && ways_in.can_continue),
        (Offer::Open, !runs && is_own && ways_in.can_be_opened && ways_in.can_continue),
        (Offer::Wait, runs && ends_by_itself),
        (Offer::Stop, session.is_live() && is_own && can(Capability::Stop)),
        (Offer::Fork, !rests && is_own && can(Capability::Fork) && ways_in.can_continue),
        (Offer::Peek, can(Capability::Peek)),
    ];
    all.into_iter().filter(|(_, works)| *works).map(|(offer, _)| offer).collect()
}

impl Fleet {
    /// Returns the commands that work for a session now, most useful first.
    pub fn offers(&self, target: &Surveyed) -> Vec<Offer> {
        offers(&target.session, self.ways_in(target))
    }

    /// Returns a hint for a caller whose command was refused: what works instead.
    pub fn instead_of(&self, refused: &[Offer], target: &Surveyed) -> String {
        let session = &target.session;
        let works = self.offers(target);
        let two = works.iter().filter(|offer| !refused.contains(offer) && **offer != Offer::Deny).take(2);
        let two: Vec<String> =
            two.map(|offer| format!("`{}` {}", offer.command(&session.id), offer.effect())).collect();
        let closed = ![Offer::Send, Offer::Attach].iter().any(|offer| works.contains(offer));
        let place = place(session).filter(|_| closed && session.status != Status::Stopped);
        let place = place.map(|place| format!("it takes words only where it runs, in {place}; "));
        let gone = gone_folder(session).filter(|_| session.status == Status::Stopped);
        let gone = gone.map(|folder| format!("its folder {folder} is gone; "));
        format!("{}{}{}", place.unwrap_or_default(), gone.unwrap_or_default(), two.join(", "))
    }

    pub(crate) fn ways_in(&self, target: &Surveyed) -> Reachability {
        let session = &target.session;
        let is_in_gateway = self.is_in_gateway(target);
        let has_folder = session.cwd.is_some() && gone_folder(session).is_none();
        Reachability {
            accepts_messages: self.accepts_messages(target, is_in_gateway),
            is_in_tmux: session.pid.is_some_and(|pid| match self.kernel.heads() {
                Observed::Seen(heads) => is_in_tmux(&heads, pid),
                Observed::Unobservable(_) => false,
            }),
            can_continue: is_in_gateway || (has_folder && self.may_resume(target).is_ok()),
            can_be_opened: self.opening(target, &agentctl_model::Environ::default()).is_some(),
            is_in_gateway,
        }
    }

    /// A runner that holds it accepts messages, and so does a server that can be asked to interrupt a turn.
    fn accepts_messages(&self, target: &Surveyed, is_in_gateway: bool) -> bool {
        if target.session.status == Status::Stopped || is_in_gateway {
            return is_in_gateway;
        }
        if self.holder(target).is_some() {
            return true;
        }
        let Ok((_, control)) = self.control_of(target) else { return false };
        let asked = |owners: &[(agentctl_model::Process, ProcessRole)]| {
            let agents = owners.iter().filter(|(_, role)| *role != ProcessRole::Wrapper);
            agents.into_iter().any(|(process, _)| control.stop_way(&target.session, process) == StopWay::Ask)
        };
        self.owners(target).is_ok_and(|owners| asked(&owners))
    }
}

/// Describes where a live session runs.
pub(crate) fn place(session: &Session) -> Option<String> {
    let pid = session.pid?;
    let process = session.processes.iter().find(|process| process.pid == pid);
    let name = process.and_then(|process| process.command.split_whitespace().next());
    let name = name.and_then(|name| name.rsplit('/').next()).filter(|name| !name.is_empty());
    Some(name.map_or_else(|| format!("process {pid}"), |name| format!("process {pid} ({name})")))
}

/// Returns the directory of a session if it no longer exists. For a session in a gateway, and where a file system does
/// not answer, nothing is known.
pub fn gone_folder(session: &Session) -> Option<&str> {
    session.cwd.as_deref().filter(|cwd| agentctl_files::is_folder_within(Path::new(cwd)) == Ok(false))
}

/// One of its ancestors is a server of tmux.
fn is_in_tmux(heads: &[ProcessHead], pid: u32) -> bool {
    const DEEPEST: usize = 64;
    let parent = |pid: u32| heads.iter().find(|head| head.process.pid == pid).map(|head| head.parent);
    let is_server =
        |pid: u32| heads.iter().any(|head| head.process.pid == pid && head.comm.starts_with("tmux"));
    std::iter::successors(parent(pid), |pid| parent(*pid)).take(DEEPEST).any(is_server)
}

#[cfg(test)]
mod tests {
    use agentctl_model::{LaunchInfo, Pending, ProcessRef};

    use super::*;
    use agentctl_testkit::sessions::session;

    fn able(status: Status) -> Session {
        let pid = (status != Status::Stopped).then_some(42);
        Session { capabilities: Capability::ALL.to_vec(), pid, ..session("s", status, None) }
    }

    #[test]
    fn nothing_is_offered_that_would_be_refused() {
        use Offer as O;
        let here = Reachability { can_continue: true, can_be_opened: true, ..Reachability::default() };
        let gone = Reachability { can_continue: false, ..here };
        assert_eq!(offers(&able(Status::Stopped), here), [O::Resume, O::Open, O::Peek]);
        assert_eq!(offers(&able(Status::Stopped), gone), [O::Peek], "its folder is gone");
        // In a terminal of its own there is no way in.
        assert_eq!(offers(&able(Status::Idle), here), [O::Stop, O::Fork, O::Peek]);
        let pane = Reachability { is_in_tmux: true, ..here };
        assert_eq!(offers(&able(Status::Idle), pane)[0], O::Attach);
        let served = Reachability { accepts_messages: true, ..here };
        assert_eq!(offers(&able(Status::Running), served)[0], O::Send);
        let launched = Session { launch: Some(LaunchInfo::default()), ..able(Status::Running) };
        assert_eq!(offers(&launched, here), [O::Wait, O::Stop, O::Fork, O::Peek]);
        let hosted = Reachability {
            is_in_gateway: true,
            accepts_messages: true,
            can_continue: true,
            ..Reachability::default()
        };
        let resting = Session { pid: None, ..able(Status::Idle) };
        assert_eq!(offers(&resting, hosted), [O::Send, O::Resume, O::Peek]);
        let pending = |kind, answerable| Session {
            pending: vec![Pending::new(kind, None, None).answerable(answerable)],
            ..able(Status::Waiting)
        };
        assert_eq!(
            offers(&pending(PendingKind::Approval, true), served)[..3],
            [O::Approve, O::Deny, O::Send]
        );
        assert_eq!(offers(&pending(PendingKind::Question, true), served)[0], O::Answer);
        assert_eq!(offers(&pending(PendingKind::Approval, false), here)[0], O::Stop);
    }

    #[test]
    fn a_pane_of_tmux_is_known_by_its_ancestors() {
        let head = |pid: u32, parent: u32, comm: &str| ProcessHead {
            process: ProcessRef { pid, start: 1, boot: 1 },
            parent,
            uid: None,
            comm: comm.to_owned(),
            argv: Vec::new(),
            started_at: None,
            forked: false,
        };
        let heads = [
            head(1, 0, "init"),
            head(5, 1, "tmux: server"),
            head(6, 5, "bash"),
            head(7, 6, "claude"),
            head(8, 1, "pi"),
        ];
        assert!(is_in_tmux(&heads, 7) && !is_in_tmux(&heads, 8) && !is_in_tmux(&heads, 99));
    }
}
