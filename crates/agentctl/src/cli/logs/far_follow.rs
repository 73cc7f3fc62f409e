//! Follows a conversation on another machine. When the connection is lost it is opened again, and what was printed
//! already is not printed twice.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use agentctl_daemon::Problem;
use agentctl_hosts::Events;
use agentctl_model::{Entry, Surveyed};

use crate::cli::peek::Reader;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::hosts::{Pauses, RosterHost, SILENCE, path_of};
use crate::output::Output;

/// How soon Ctrl-C or a reader that left is noticed.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
/// How many of the last printed entries are remembered, and how many are asked for after a cut.
const REMEMBERED: usize = 200;
const ASKED_AGAIN: usize = 1000;

pub(super) fn follow(
    far: &RosterHost,
    session: &Surveyed,
    backlog: usize,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let interrupt = Interrupt::listen();
    let mut printed = Printed::default();
    let mut pauses = Pauses::default();
    let mut is_first = true;
    loop {
        let limit = if is_first { backlog } else { ASKED_AGAIN };
        let target = path_of(session, "/messages/stream", [("limit", limit.to_string())]);
        let lost = match far.listen(&target, None) {
            Ok(mut events) => {
                if !is_first {
                    out.warn(&format!("{} is heard again", far.name));
                }
                let repeated = !std::mem::replace(&mut is_first, false);
                pauses.reset();
                match pass_on(&mut *events, repeated, &mut printed, &interrupt, reader, out)? {
                    End::Done(exit) => return Ok(exit),
                    End::Problem(problem) => return Err(Failure::from(&*problem)),
                    End::Lost(why) => why,
                }
            }
            // What was never heard is not waited for.
            Err(failure) if is_first => return Err(far.unheard(&failure)),
            Err(failure) => failure.message,
        };
        if pauses.is_first() {
            out.warn(&format!("{} is not heard any more: {lost}; it is asked again", far.name));
        }
        let until = Instant::now() + pauses.next();
        while Instant::now() < until {
            if interrupt.came() {
                return Ok(Exit::Interrupted);
            }
            if out.reader_leaves_within(READ_TIMEOUT)? {
                return Ok(Exit::Done);
            }
        }
    }
}

enum End {
    Done(Exit),
    Problem(Box<Problem>),
    Lost(String),
}

fn pass_on(
    events: &mut dyn Events,
    repeated: bool,
    printed: &mut Printed,
    interrupt: &Interrupt,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<End, Failure> {
    // After a cut the stream begins with entries that may be known. They come at once, and nothing says where they end.
    let mut backlog: Option<Vec<Entry>> = repeated.then(Vec::new);
    loop {
        match events.next(Some(READ_TIMEOUT)) {
            Ok(Some(event)) => match event.kind.as_str() {
                "entry" => {
                    let Ok(entry) = serde_json::from_str::<Entry>(&event.data) else {
                        return Ok(End::Lost("an entry cannot be read".to_owned()));
                    };
                    match &mut backlog {
                        Some(backlog) => backlog.push(entry),
                        None => printed.print(entry, reader, out)?,
                    }
                }
                "end" => {
                    printed.print_new(backlog.take(), reader, out)?;
                    return Ok(End::Done(Exit::Done));
                }
                _ => {
                    return Ok(serde_json::from_str(&event.data).map_or_else(
                        |_| End::Lost("the stream failed".to_owned()),
                        |problem| End::Problem(Box::new(problem)),
                    ));
                }
            },
            Ok(None) => return Ok(End::Lost("the stream ended".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                printed.print_new(backlog.take(), reader, out)?;
                if events.last_heard().elapsed() > SILENCE {
                    return Ok(End::Lost(format!("nothing came for {} s", SILENCE.as_secs())));
                }
                if out.reader_leaves_within(Duration::ZERO)? {
                    return Ok(End::Done(Exit::Done));
                }
            }
            Err(error) => return Ok(End::Lost(error.to_string())),
        }
        if interrupt.came() {
            return Ok(End::Done(Exit::Interrupted));
        }
    }
}

/// What was printed last.
#[derive(Default)]
struct Printed(VecDeque<Entry>);

impl Printed {
    fn print(&mut self, entry: Entry, reader: &mut Reader<'_>, out: &mut Output) -> Result<(), Failure> {
        reader.print(&entry, out)?;
        io::Write::flush(out)?;
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(entry);
        Ok(())
    }

    /// Prints what is new among the entries of a stream that was opened again.
    fn print_new(
        &mut self,
        backlog: Option<Vec<Entry>>,
        reader: &mut Reader<'_>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let Some(backlog) = backlog.filter(|backlog| !backlog.is_empty()) else { return Ok(()) };
        let known = known(self.0.make_contiguous(), &backlog);
        if known == 0 && !self.0.is_empty() {
            out.warn("entries may be missing here: more came than are read again");
        }
        backlog.into_iter().skip(known).try_for_each(|entry| self.print(entry, reader, out))
    }
}

/// How many of these entries were printed: up to where the longest end of what was printed stands among them.
fn known<T: PartialEq>(printed: &[T], entries: &[T]) -> usize {
    let shared = |end: usize| {
        printed.iter().rev().zip(entries[..end].iter().rev()).take_while(|(old, new)| old == new).count()
    };
    // Of two places that fit equally well the later one is meant: it repeats nothing.
    let best = (0..=entries.len()).max_by_key(|end| shared(*end)).unwrap_or(0);
    if shared(best) == 0 { 0 } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_is_found_again_and_nothing_is_left_out() {
        let known = |printed: &str, entries: &str| known(printed.as_bytes(), entries.as_bytes());
        assert_eq!(known("abc", "abcde"), 3);
        assert_eq!(known("zzabc", "abcde"), 3, "it began before what is asked again");
        assert_eq!(known("abc", "bc"), 2, "nothing new");
        assert_eq!(known("aab", "aabaab"), 3 + 3, "the longest end, and of equal ones the last");
        assert_eq!(known("xaab", "xaabaab"), 4);
        assert_eq!(known("abc", "xyz"), 0);
        assert_eq!(known("", "xyz"), 0);
    }
}
