//! What the shell offers at TAB: the sessions that the verb can do something with, and the groups.

use std::ffi::{OsStr, OsString};

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox::{A_DAY, InboxKind};
use agentctl_fleet::{Offer, Query, Wanted};
use agentctl_model::{Capability, Session, Status, Surveyed, text};
use clap_complete::engine::CompletionCandidate;

use crate::render::time::Since;
use crate::render::width::cut_end;
use crate::surroundings::Surroundings;

/// Sessions whose id begins so, or those that are recent; only such as fit the verb that was typed.
pub(super) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let surroundings = Surroundings::gather();
    let Ok(fleet) = surroundings.fleet() else { return Vec::new() };
    let fits = Fits::of(&std::env::args_os().collect::<Vec<_>>());
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
            // One whose folder is gone would be refused.
            && (fits != Fits::Resumable || fleet.offers(surveyed).contains(&Offer::Resume))
    };
    let offered = sessions.iter().filter(meant).map(|surveyed| &*surveyed.session).enumerate();
    offered.map(|(order, session)| candidate(order, session)).collect()
}

/// Failures that the inbox shows, for those who put one away.
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

fn candidate(order: usize, session: &Session) -> CompletionCandidate {
    let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("");
    let look = crate::render::style::look(session.status, session.outcome);
    let help = format!("{} {}: {}", look.glyph, look.word, cut_end(&text::one_line(title), 60));
    CompletionCandidate::new(text::one_line(&session.id)).help(Some(help.into())).display_order(Some(order))
}

/// Groups whose name begins so, the newest first.
pub(super) fn groups(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let Ok(fleet) = Surroundings::gather().fleet() else { return Vec::new() };
    let names = fleet.group_names().into_iter().filter(|name| name.starts_with(typed) && is_plain(name));
    names
        .enumerate()
        .map(|(order, name)| CompletionCandidate::new(text::one_line(&name)).display_order(Some(order)))
        .collect()
}

/// A word that every shell takes as it is. Whoever stores sessions chooses their ids, and bash puts what is offered into the
/// line as it stands: anything else is not offered.
fn is_plain(word: &str) -> bool {
    text::shell_word(word) == word
}

/// What a verb can be done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fits {
    Every,
    Live,
    Waiting,
    /// A question can be answered in words.
    Can(Capability),
    /// Nobody runs it, and the agent can go on with it.
    Resumable,
}

impl Fits {
    /// By the words of the command line: the shell puts them behind `--`.
    fn of(args: &[OsString]) -> Self {
        let words = args.iter().skip_while(|word| *word != "--").skip(2);
        let mut words = words.filter_map(|word| word.to_str());
        // A flag that stands before the verb may have its value behind it.
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
