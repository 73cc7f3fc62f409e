//! The list of several machines, looked at again and again. A machine that is not heard says nothing about its sessions:
//! they stay as they were, and it is said that it is not heard.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use agentctl_fleet::Listing;
use agentctl_model::{CoverageKind, HostReport, Session, text};

use super::{PERIOD, draw, face, line};
use crate::cli::host_args::{self, full_id};
use crate::cli::list::Args;
use crate::cli::terminal_notices::TerminalNotices;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::Link;
use crate::link::hosts::{Asked, Roster};
use crate::output::Output;
use crate::render::{json, time};
use crate::surroundings::Surroundings;

/// How soon it is noticed that nobody wants more.
const TICK: Duration = Duration::from_millis(100);

pub(crate) fn run(
    args: &Args,
    (roster, asked): (&Roster, &Asked),
    link: &Link,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let in_place = out.is_terminal() && !args.json();
    let mut changes = Changes::default();
    let mut notices = TerminalNotices::of(surroundings, out);
    let mut unheard = BTreeSet::new();
    loop {
        let listing = roster.list(asked, args.query(surroundings), link);
        let called = |one: &Session| host_args::full_id(one, &listing.hosts);
        notices.see(listing.sessions.iter().map(|one| (&**one, called(one))), surroundings, out);
        if in_place {
            draw(args, &listing, surroundings, out)?;
        } else {
            let (is_new, lines) = changes.since_last(&listing);
            if args.json() && is_new {
                json::line(out, &listing.answer(&surroundings.host()))?;
            } else if !args.json() {
                for line in lines {
                    writeln!(out, "{} {line}", time::clock(listing.as_of, &surroundings.zone))?;
                }
            }
            unheard = tell_hosts(&listing.hosts, &unheard, out);
        }
        out.flush()?;
        for _ in 0..PERIOD.as_millis() / TICK.as_millis() {
            if interrupt.came() {
                return Ok(Exit::Interrupted);
            }
            if out.reader_leaves_within(TICK)? {
                return Ok(host_args::exit(&listing.hosts, args.strict()));
            }
        }
    }
}

/// Says which machines are no longer heard, and which are heard again. Returns those that are not.
fn tell_hosts(hosts: &[HostReport], before: &BTreeSet<String>, out: &mut Output) -> BTreeSet<String> {
    let lost: Vec<HostReport> = hosts.iter().filter(|host| host.error.is_some()).cloned().collect();
    let new: Vec<HostReport> = lost.iter().filter(|host| !before.contains(&host.name)).cloned().collect();
    host_args::warn(&new, out);
    let lost: BTreeSet<String> = lost.into_iter().map(|host| host.name).collect();
    for back in before.difference(&lost) {
        out.warn(&format!("{back} is heard again"));
    }
    lost
}

/// A session: its machine, its agent, where that keeps it, and its id.
type Key = (String, String, String, String);

/// What was shown last, to find what is new.
#[derive(Default)]
struct Changes {
    known: BTreeMap<Key, Box<Session>>,
    begun: bool,
}

impl Changes {
    /// Whether anything changed, and what in words.
    fn since_last(&mut self, listing: &Listing<Box<Session>>) -> (bool, Vec<String>) {
        let mut changed = !std::mem::replace(&mut self.begun, true);
        let mut lines = Vec::new();
        let mut now = BTreeMap::new();
        for session in &listing.sessions {
            let key = key(session);
            let before = self.known.remove(&key);
            changed |= before.as_ref() != Some(session);
            if before.is_none_or(|before| face(&before) != face(session)) {
                lines.push(line(session, &full_id(session, &listing.hosts)));
            }
            now.insert(key, session.clone());
        }
        for (key, session) in std::mem::take(&mut self.known) {
            if is_silent(&session, listing) {
                now.insert(key, session);
                continue;
            }
            changed = true;
            let id = full_id(&session, &listing.hosts);
            lines.push(format!("{} left the list", text::one_line(&id)));
        }
        self.known = now;
        (changed, lines)
    }
}

fn key(session: &Session) -> Key {
    (session.host.clone(), session.adapter.clone(), session.config_root.clone(), session.id.clone())
}

/// Whether nothing is known of a session now: its machine, or the source that stores it, was not heard completely.
fn is_silent(session: &Session, listing: &Listing<Box<Session>>) -> bool {
    let row = listing.hosts.iter().find(|host| host.name == session.host);
    let is_heard = row.is_some_and(|host| host.coverage != CoverageKind::Failed);
    !is_heard
        || listing.sources.iter().any(|source| {
            let is_its = source.host == session.host
                && source.adapter == session.adapter
                && source.root == session.config_root;
            is_its && source.is_incomplete()
        })
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Road, Status};
    use agentctl_testkit::sessions::session;

    use super::*;

    fn listing(hosts: &[(&str, bool)], sessions: &[(&str, &str, Status)]) -> Listing<Box<Session>> {
        let row = |(name, heard): &(&str, bool)| {
            let mut row = HostReport::unheard((*name).to_owned(), Road::Ssh);
            if *heard {
                row.coverage = CoverageKind::Complete;
            }
            row
        };
        let one = |(host, id, status): &(&str, &str, Status)| {
            Box::new(Session { host: (*host).to_owned(), ..session(id, *status, None) })
        };
        Listing {
            as_of: jiff::Timestamp::UNIX_EPOCH,
            sessions: sessions.iter().map(one).collect(),
            left_out: 0,
            sources: Vec::new(),
            hosts: hosts.iter().map(row).collect(),
            strays: 0,
        }
    }

    #[test]
    fn a_machine_that_is_not_heard_changes_nothing() {
        let mut changes = Changes::default();
        let both = [("a", "1", Status::Running), ("b", "1", Status::Idle)];
        let (is_new, lines) = changes.since_last(&listing(&[("a", true), ("b", true)], &both));
        assert!(is_new && lines.len() == 2 && lines[1].starts_with("b/1 "), "{lines:?}");
        let lost = listing(&[("a", true), ("b", false)], &both[..1]);
        assert_eq!(changes.since_last(&lost), (false, Vec::new()));
        // One that is not even in the answer any more says nothing either.
        assert_eq!(changes.since_last(&listing(&[("a", true)], &both[..1])), (false, Vec::new()));
        let (is_new, lines) = changes.since_last(&listing(&[("a", true), ("b", true)], &both[..1]));
        assert_eq!((is_new, lines), (true, vec!["b/1 left the list".to_owned()]));
    }
}
