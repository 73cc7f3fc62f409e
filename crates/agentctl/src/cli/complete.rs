//! Completions for the shell: the sessions that a command can act on, and the groups.

use std::ffi::{OsStr, OsString};
use std::sync::mpsc::channel;
use std::time::Duration;

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox::{A_DAY, InboxKind};
use agentctl_fleet::read::recover::RecoverQuery;
use agentctl_fleet::{Offer, Query, Wanted};
use agentctl_hosts::{Ask, HostName};
use agentctl_model::{Capability, Session, Status, Surveyed, text};
use clap_complete::engine::CompletionCandidate;
use serde::Deserialize;

use crate::link::hosts::Roster;
use crate::render::time::Since;
use crate::render::width::cut_end;
use crate::surroundings::Surroundings;

/// How long a key press may wait for another machine.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many machines are offered at once.
const MOST_HOSTS: usize = 100;

/// The sessions whose id begins with the typed text, or else the recent ones; only those that fit the typed
/// command.
pub(super) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let surroundings = Surroundings::gather();
    let Ok(fleet) = surroundings.fleet() else { return Vec::new() };
    let fits = Fits::of(&std::env::args_os().collect::<Vec<_>>());
    if let Some((name, id)) = typed.split_once('/')
        && let Some(sessions) = sessions_of(name, id, fits)
    {
        return sessions;
    }
    let wanted = match (typed.is_empty(), fits.live_only()) {
        (true, true) => Wanted::Live,
        (true, false) => Wanted::All { since: Since::DEFAULT },
        (false, _) => Wanted::Ids(vec![typed.to_owned()]),
    };
    let mut sessions = fleet.survey(&Query::new(wanted)).sessions;
    agentctl_fleet::sort(&mut sessions, agentctl_fleet::Sort::Attention);
    let meant = |surveyed: &&Surveyed| {
        surveyed.session.id.starts_with(typed)
            && is_plain(&surveyed.session.id)
            && fits.session(&surveyed.session)
            // A session whose folder is gone would be refused.
            && (fits != Fits::Resumable || fleet.offers(surveyed).contains(&Offer::Resume))
    };
    let offered = sessions.iter().filter(meant).map(|surveyed| &*surveyed.session).enumerate();
    let mut offered: Vec<CompletionCandidate> =
        offered.map(|(order, session)| candidate(order, session)).collect();
    // What begins like a machine may become HOST/ID.
    if !typed.is_empty() {
        let machines = host_names().into_iter().filter(|name| name.starts_with(typed)).take(MOST_HOSTS);
        let first = offered.len();
        offered.extend(machines.enumerate().map(|(order, name)| {
            CompletionCandidate::new(format!("{name}/")).display_order(Some(first + order))
        }));
    }
    offered
}

/// What `work` says, if it says it while a person may wait for it.
fn within_patience<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    receiver.recv_timeout(PATIENCE).ok()
}

/// The machines of the settings, and those of the bus if it says soon who they are.
fn host_names() -> Vec<String> {
    let surroundings = Surroundings::gather();
    let Ok(settings) = surroundings.settings() else { return Vec::new() };
    let mut names: Vec<String> = settings.hosts.keys().map(ToString::to_string).collect();
    if settings.nats.is_some() {
        let bus = Roster::of(&surroundings).ok().and_then(|roster| roster.bus);
        let of_bus = bus.and_then(|bus| within_patience(move || bus.names().map(<[HostName]>::to_vec)));
        let of_bus = of_bus.and_then(Result::ok).unwrap_or_default();
        names.extend(
            of_bus
                .iter()
                .map(ToString::to_string)
                .filter(|name| !settings.hosts.keys().any(|own| own.as_str() == name)),
        );
    }
    names
}

/// The sessions of another machine; `None` if no machine is called so. A person who pressed a key does not wait long for
/// them.
fn sessions_of(name: &str, typed: &str, fits: Fits) -> Option<Vec<CompletionCandidate>> {
    #[derive(Deserialize)]
    struct Answer {
        sessions: Vec<Session>,
    }
    let name = name.to_owned();
    let target = if fits.live_only() { "/v1/sessions" } else { "/v1/sessions?all" };
    let asked = name.clone();
    let answer = within_patience(move || {
        let roster = Roster::of(&Surroundings::gather()).ok()?;
        Some(roster.get(&asked)?.read::<Answer>(Ask::get(target)).ok())
    });
    let sessions = match answer {
        Some(None) => return None,
        Some(Some(Some(answer))) => answer.sessions,
        Some(Some(None)) | None => Vec::new(),
    };
    let is_meant =
        |session: &&Session| session.id.starts_with(typed) && is_plain(&session.id) && fits.session(session);
    let named = |session: &Session| Session { id: format!("{name}/{}", session.id), ..session.clone() };
    let meant = sessions.iter().filter(is_meant).map(named).enumerate();
    Some(meant.map(|(order, session)| candidate(order, &session)).collect())
}

/// The failures that the inbox shows, for `--done`.
pub(super) fn failures(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let surroundings = Surroundings::gather();
    let (Ok(fleet), Ok(store)) = (surroundings.fleet(), surroundings.store()) else { return Vec::new() };
    let since = if typed.is_empty() { A_DAY } else { Since::Ever };
    let items = fleet.inbox(since, Vec::new(), &Marks::of(store), surroundings.now()).items;
    let meant = items.iter().filter(|item| item.kind == InboxKind::Failure);
    let meant = meant
        .map(|item| &item.session)
        .filter(|session| session.id.starts_with(typed) && is_plain(&session.id));
    meant.enumerate().map(|(order, session)| candidate(order, session)).collect()
}

/// The sessions that went down with the machine.
pub(super) fn lost(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let surroundings = Surroundings::gather();
    let (Ok(fleet), Ok(store)) = (surroundings.fleet(), surroundings.store()) else { return Vec::new() };
    let query = RecoverQuery { since: Since::DEFAULT, adapters: Vec::new() };
    let Ok(found) = fleet.lost(&query, &Marks::of(store)) else { return Vec::new() };
    let sessions = found.lost.iter().map(|lost| &*lost.surveyed.session);
    let meant = sessions.filter(|session| session.id.starts_with(typed) && is_plain(&session.id));
    meant.enumerate().map(|(order, session)| candidate(order, session)).collect()
}

fn candidate(order: usize, session: &Session) -> CompletionCandidate {
    let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("");
    let look = crate::render::style::look(session.status, session.outcome);
    let help = format!("{} {}: {}", look.glyph, look.word, cut_end(&text::one_line(title), 60));
    CompletionCandidate::new(text::one_line(&session.id)).help(Some(help.into())).display_order(Some(order))
}

/// The groups whose name begins with the typed text, newest first.
pub(super) fn groups(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let Ok(fleet) = Surroundings::gather().fleet() else { return Vec::new() };
    let names = fleet.group_names().into_iter().filter(|name| name.starts_with(typed) && is_plain(name));
    names
        .enumerate()
        .map(|(order, name)| CompletionCandidate::new(text::one_line(&name)).display_order(Some(order)))
        .collect()
}

/// The hosts whose name begins with the typed text. None of them is asked.
pub(super) fn hosts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let names = ["all".to_owned(), "local".to_owned()].into_iter().chain(host_names());
    let names = names.filter(|name| name.starts_with(typed)).take(MOST_HOSTS);
    names.enumerate().map(|(order, name)| CompletionCandidate::new(name).display_order(Some(order))).collect()
}

/// Whether every shell takes this word literally. Session ids are chosen by whatever program stores them, and
/// bash inserts a candidate unquoted, so no other words are offered.
fn is_plain(word: &str) -> bool {
    text::shell_word(word) == word
}

/// The sessions that a command can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fits {
    Every,
    Live,
    Waiting,
    /// Sessions whose agent has this capability, such as answering a question in words.
    Can(Capability),
    /// Sessions that no process runs and that the agent can continue.
    Resumable,
}

impl Fits {
    /// Reads the command from the command line, which the shell passes after `--`.
    fn of(args: &[OsString]) -> Self {
        let words = args.iter().skip_while(|word| *word != "--").skip(2);
        let mut words = words.filter_map(|word| word.to_str());
        // A flag before the command may be followed by its value.
        let verb = loop {
            match words.next() {
                Some("--color") => drop(words.next()),
                Some(flag) if flag.starts_with('-') => {}
                verb => break verb,
            }
        };
        match verb {
            Some("stop" | "wait" | "fuse") => Self::Live,
            Some("send") => Self::Can(Capability::Send),
            Some("approve" | "deny" | "answer") => Self::Waiting,
            Some("resume") => Self::Resumable,
            _ => Self::Every,
        }
    }

    fn live_only(self) -> bool {
        matches!(self, Self::Live | Self::Waiting | Self::Can(_))
    }

    fn session(self, session: &Session) -> bool {
        match self {
            Self::Every => true,
            Self::Live => session.is_live(),
            Self::Waiting => session.status == Status::Waiting || !session.pending.is_empty(),
            Self::Can(capability) => session.is_live() && session.capabilities.contains(&capability),
            Self::Resumable => !session.is_live() && session.capabilities.contains(&Capability::Resume),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_not_take_as_it_is_is_not_offered() {
        assert!(is_plain("5f0c-1") && is_plain("agent:main:main"));
        for hostile in ["0a$(touch x)", "a b", "a;b", "*", "--help", "a\u{1b}b", ""] {
            assert!(!is_plain(hostile), "{hostile:?}");
        }
    }

    #[test]
    fn a_verb_offers_what_it_can_be_done_to() {
        let of = |line: &str| Fits::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(of("agentctl -- agentctl stop 5"), Fits::Live);
        assert_eq!(of("agentctl -- agentctl --color=never approve "), Fits::Waiting);
        assert_eq!(of("agentctl -- agentctl --color always stop "), Fits::Live);
        assert_eq!(of("/opt/agentctl -- agentctl resume"), Fits::Resumable);
        assert_eq!(of("agentctl -- agentctl status "), Fits::Every);
        assert_eq!(of("agentctl"), Fits::Every);
    }
}
