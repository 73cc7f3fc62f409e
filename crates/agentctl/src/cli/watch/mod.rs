//! `agentctl list --watch`: the list, redrawn in place; into a pipe, one line for each change.

mod over_hosts;

pub(crate) use over_hosts::run as run_over_hosts;

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use agentctl_fleet::{FindError, Listing, Purpose, Selector};
use agentctl_model::{Session, SessionKey, SourceReport, Surveyed, text};

use super::list::Args;
use super::terminal_notices::TerminalNotices;
use super::{coverage, host_args};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::hints::{HINT_TIMEOUT, Hints};
use crate::link::{Link, SessionFinder};
use crate::output::Output;
use crate::render::{json, sessions, style, time};
use crate::surroundings::Surroundings;

const PERIOD: Duration = Duration::from_secs(1);

pub(crate) fn run(
    args: &Args,
    link: &Link,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let in_place = out.is_terminal() && !args.json();
    let mut changes = Changes::default();
    let mut notices = TerminalNotices::of(surroundings, out);
    let mut warned = Vec::new();
    let mut hints = Hints::of_changes(link);
    loop {
        let listing = link.list(&args.query(surroundings));
        let sessions = listing.sessions.iter().map(|one| (&*one.session, one.session.id.clone()));
        notices.see(sessions, surroundings, out);
        if in_place {
            draw(args, &listing, surroundings, out)?;
        } else {
            let report = changes
                .since_last(&listing, |key, session| link.find(&selector(key, session), Purpose::Read));
            if args.json() && report.changed {
                json::line(out, &listing.answer(&surroundings.host()))?;
            } else if !args.json() {
                for line in report.lines {
                    writeln!(out, "{} {line}", time::clock(listing.as_of, &surroundings.zone))?;
                }
            }
        }
        let unheard: Vec<String> = listing
            .sources
            .iter()
            .filter(|source| source.is_incomplete())
            .map(|source| source.root.clone())
            .collect();
        // The warning is printed once per change, not once per second.
        if !in_place && unheard != warned {
            coverage::warn(&listing.sources, surroundings, out);
        }
        warned = unheard;
        let waits = PERIOD.as_millis() / HINT_TIMEOUT.as_millis();
        for _ in 0..waits {
            if interrupt.came() {
                return Ok(Exit::Interrupted);
            }
            let pause = if hints.are_given() { Duration::ZERO } else { HINT_TIMEOUT };
            if out.reader_leaves_within(pause)? {
                return Ok(coverage::exit(&listing.sources, args.strict(), surroundings));
            }
            if hints.next().is_some() {
                hints.pass_over();
                break;
            }
        }
    }
}

/// Draws one frame. Every line is overwritten to its end instead of clearing the screen, so that nothing
/// flickers.
fn draw<S: AsRef<Session>>(
    args: &Args,
    listing: &Listing<S>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let mut lines = args.lines(listing, surroundings, out);
    let sources = listing.sources.iter().filter(|source| source.is_incomplete());
    let sources = sources.map(|source| coverage::words(source, surroundings));
    for words in sources.chain(host_args::unheard(&listing.hosts)) {
        lines.push(out.paint.attention(&crate::render::width::cut_end(&words, out.width())));
    }
    let room = out.height().unwrap_or(usize::MAX).saturating_sub(1).max(1);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        lines.push(out.paint.dim(&format!("… {hidden} more lines")));
    }
    write!(out, "\u{1b}[H")?;
    for line in lines {
        write!(out, "{line}\u{1b}[K\r\n")?;
    }
    write!(out, "\u{1b}[J")?;
    out.flush()?;
    Ok(())
}

/// What was shown last, to find what is new.
#[derive(Default)]
struct Changes {
    known: BTreeMap<SessionKey, Box<Session>>,
    begun: bool,
}

struct Report {
    changed: bool,
    lines: Vec<String>,
}

impl Changes {
    /// A session that left the list is looked up by id, so that the reason can be shown.
    fn since_last(
        &mut self,
        listing: &Listing,
        find: impl Fn(&SessionKey, &Session) -> Result<(Surveyed, Vec<SourceReport>), FindError>,
    ) -> Report {
        let mut report = Report { changed: !self.begun, lines: Vec::new() };
        self.begun = true;
        let mut now = BTreeMap::new();
        for surveyed in &listing.sessions {
            let session = &surveyed.session;
            let before = self.known.remove(&surveyed.key);
            report.changed |= before.as_ref() != Some(session);
            if before.is_none_or(|before| face(&before) != face(session)) {
                report.lines.push(line(session, &session.id));
            }
            now.insert(surveyed.key.clone(), session.clone());
        }
        for (key, session) in std::mem::take(&mut self.known) {
            let silent = listing.sources.iter().any(|source| {
                source.adapter == key.adapter && source.root == key.root && source.is_incomplete()
            });
            // A source that was not read says nothing about its sessions: they stay as they were.
            if silent {
                now.insert(key, session);
            } else {
                report.changed = true;
                let found = find(&key, &session);
                report.lines.push(format!("{} left the list{}", text::one_line(&session.id), how(found)));
            }
        }
        self.known = now;
        report
    }
}

fn selector(key: &SessionKey, session: &Session) -> Selector {
    Selector {
        text: key.id.clone(),
        adapter: Some(key.adapter.clone()),
        root: Some(key.root.clone()),
        cwd: session.cwd.clone(),
    }
}

/// How a session left the list: its current state, if that can be known.
fn how(found: Result<(Surveyed, Vec<SourceReport>), FindError>) -> String {
    match found {
        Ok((now, _)) => {
            let look = style::look(now.session.status, now.session.outcome);
            let detail =
                sessions::detail(&now.session).map(|detail| format!(" ({detail})")).unwrap_or_default();
            format!(": {} {}{detail}", look.glyph, look.word)
        }
        Err(FindError::NotFound { .. }) => ": its records are gone".to_owned(),
        Err(_) => "; its state afterwards could not be read".to_owned(),
    }
}

fn face(session: &Session) -> (agentctl_model::Status, Option<agentctl_model::Outcome>, Option<String>) {
    (session.status, session.outcome, sessions::detail(session))
}

/// The id is as it is typed here.
fn line(session: &Session, id: &str) -> String {
    let look = style::look(session.status, session.outcome);
    let title = session.name.as_deref().or(session.prompt.as_deref()).unwrap_or("-");
    let detail = sessions::detail(session).map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!(
        "{} {} {}{detail} {} {}",
        text::one_line(id),
        look.glyph,
        look.word,
        text::one_line(&session.adapter),
        text::one_line(title)
    )
}

#[cfg(test)]
mod tests {
    use agentctl_model::{Outcome, Status};

    use agentctl_model::CoverageKind;

    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    fn listing(sessions: Vec<Session>, coverage: CoverageKind) -> Listing {
        let source = SourceReport {
            adapter: "claude-code".into(),
            host: String::new(),
            root: "/home/dev/.claude".into(),
            coverage,
            error: None,
            warnings: vec![],
            sessions: None,
            took_ms: 1,
        };
        Listing {
            as_of: jiff::Timestamp::UNIX_EPOCH,
            sessions: sessions.into_iter().map(surveyed).collect(),
            left_out: 0,
            sources: vec![source],
            hosts: Vec::new(),
            strays: 0,
        }
    }

    #[test]
    fn only_changes_are_told_and_silence_is_no_change() {
        let mut changes = Changes::default();
        let running = || session("a", Status::Running, None);
        let mut since_last = |listing: &Listing| {
            let ended = session("a", Status::Stopped, Some(Outcome::Died));
            changes.since_last(listing, |_, _| Ok((surveyed(ended.clone()), Vec::new())))
        };
        assert_eq!(since_last(&listing(vec![running()], CoverageKind::Complete)).lines.len(), 1);
        assert!(!since_last(&listing(vec![running()], CoverageKind::Complete)).changed);
        assert!(!since_last(&listing(vec![], CoverageKind::TimedOut)).changed);
        let waiting = session("a", Status::Waiting, None);
        let report = since_last(&listing(vec![waiting], CoverageKind::Complete));
        assert!(report.lines[0].contains("◐ waiting"), "{:?}", report.lines);
        assert_eq!(since_last(&listing(vec![], CoverageKind::Complete)).lines, ["a left the list: ✕ died"]);
        assert!(!since_last(&listing(vec![], CoverageKind::Complete)).changed);
    }

    #[test]
    fn how_a_session_left_is_told_only_where_it_is_known() {
        assert_eq!(how(Err(FindError::NotFound { text: "a".into() })), ": its records are gone");
        let unheard = FindError::NotHeard { text: "a".into(), sources: Vec::new() };
        assert_eq!(how(Err(unheard)), "; its state afterwards could not be read");
    }
}
