//! The conversation of a session on another machine, as it grows. When the connection is lost it is opened again, and
//! what was told already is not told twice.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_hosts::Events;
use agentctl_model::{Entry, Surveyed};

use super::{Pauses, RosterHost, SILENCE, path_of};
use crate::failure::Failure;

/// How many of the last entries are remembered, and how many are asked for after a cut.
const REMEMBERED: usize = 200;
const ASKED_AGAIN: usize = 1000;

pub(crate) struct FarEntries {
    far: Arc<RosterHost>,
    session: Surveyed,
    /// `None` while the machine is not heard.
    events: Option<Box<dyn Events>>,
    /// After a cut the stream begins with entries that may be known. They come at once, and nothing says where they end.
    backlog: Option<Vec<Entry>>,
    told: VecDeque<Entry>,
    pauses: Pauses,
    /// When a machine that is not heard is asked again.
    due: Instant,
    is_over: bool,
}

/// What happened in the conversation, or on the way to it.
pub(crate) enum FarNews {
    Entries {
        entries: Vec<Entry>,
        /// More came during a cut than is read again.
        some_are_missing: bool,
    },
    /// The machine is not heard any more, and why. It is asked again.
    Lost(String),
    /// It is heard again.
    Back,
    /// The session has ended, and everything was told.
    End,
}

impl FarEntries {
    /// Begins with the last entries that are stored. What was never heard is not waited for.
    pub(crate) fn open(far: &Arc<RosterHost>, session: &Surveyed, backlog: usize) -> Result<Self, Failure> {
        let events = far.listen(&target(session, backlog), None).map_err(|failure| far.unheard(&failure))?;
        Ok(Self {
            far: far.clone(),
            session: session.clone(),
            events: Some(events),
            backlog: None,
            told: VecDeque::new(),
            pauses: Pauses::default(),
            due: Instant::now(),
            is_over: false,
        })
    }

    /// The next news; `None` if there are none within this time.
    pub(crate) fn next(&mut self, within: Duration) -> Result<Option<FarNews>, Failure> {
        if self.is_over {
            return Ok(Some(FarNews::End));
        }
        let Some(events) = &mut self.events else { return Ok(self.ask_again(within)) };
        loop {
            match events.next(Some(within)) {
                Ok(Some(event)) if event.kind == "entry" => {
                    let Ok(entry) = serde_json::from_str::<Entry>(&event.data) else {
                        return Ok(self.lose("an entry cannot be read".to_owned()));
                    };
                    match &mut self.backlog {
                        Some(backlog) => backlog.push(entry),
                        None => return Ok(Some(self.tell(vec![entry], false))),
                    }
                }
                Ok(Some(event)) if event.kind == "end" => {
                    self.is_over = true;
                    return Ok(Some(self.tell_new().unwrap_or(FarNews::End)));
                }
                Ok(Some(event)) => {
                    return match serde_json::from_str::<agentctl_daemon::Problem>(&event.data) {
                        Ok(problem) => Err(Failure::from(&problem)),
                        Err(_) => Ok(self.lose("the stream failed".to_owned())),
                    };
                }
                Ok(None) => return Ok(self.lose("the stream ended".to_owned())),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    if events.last_heard().elapsed() > SILENCE {
                        return Ok(self.lose(format!("nothing came for {} s", SILENCE.as_secs())));
                    }
                    return Ok(self.tell_new());
                }
                Err(error) => return Ok(self.lose(error.to_string())),
            }
        }
    }

    /// The session goes on after its end, and so does its conversation.
    pub(crate) fn go_on(&mut self) {
        if self.is_over {
            self.is_over = false;
            self.events = None;
            self.due = Instant::now();
        }
    }

    fn ask_again(&mut self, within: Duration) -> Option<FarNews> {
        let left = self.due.saturating_duration_since(Instant::now());
        if left > within {
            std::thread::sleep(within);
            return None;
        }
        std::thread::sleep(left);
        match self.far.listen(&target(&self.session, ASKED_AGAIN), None) {
            Ok(events) => {
                self.events = Some(events);
                self.backlog = Some(Vec::new());
                self.pauses.reset();
                Some(FarNews::Back)
            }
            Err(failure) => self.lose(failure.message),
        }
    }

    /// That a machine is lost is told once.
    fn lose(&mut self, why: String) -> Option<FarNews> {
        let is_news = self.pauses.is_first();
        self.events = None;
        self.backlog = None;
        self.due = Instant::now() + self.pauses.next();
        is_news.then_some(FarNews::Lost(why))
    }

    /// What is new among the entries of a stream that was opened again.
    fn tell_new(&mut self) -> Option<FarNews> {
        let mut backlog = self.backlog.take().filter(|backlog| !backlog.is_empty())?;
        let known = known(self.told.make_contiguous(), &backlog);
        let some_are_missing = known == 0 && !self.told.is_empty();
        let entries = backlog.split_off(known);
        (!entries.is_empty()).then(|| self.tell(entries, some_are_missing))
    }

    fn tell(&mut self, entries: Vec<Entry>, some_are_missing: bool) -> FarNews {
        self.told.extend(entries.iter().cloned());
        self.told.drain(..self.told.len().saturating_sub(REMEMBERED));
        FarNews::Entries { entries, some_are_missing }
    }
}

fn target(session: &Surveyed, backlog: usize) -> String {
    path_of(session, "/messages/stream", [("limit", backlog.to_string())])
}

/// How many of these entries were told: up to where the longest end of what was told stands among them.
fn known<T: PartialEq>(told: &[T], entries: &[T]) -> usize {
    let shared = |end: usize| {
        told.iter().rev().zip(entries[..end].iter().rev()).take_while(|(old, new)| old == new).count()
    };
    // Of two places that fit equally well the later one is meant: it repeats nothing.
    let best = (0..=entries.len()).max_by_key(|end| shared(*end)).unwrap_or(0);
    if shared(best) == 0 { 0 } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_found_again_and_nothing_is_left_out() {
        let known = |told: &str, entries: &str| known(told.as_bytes(), entries.as_bytes());
        assert_eq!(known("abc", "abcde"), 3);
        assert_eq!(known("zzabc", "abcde"), 3, "it began before what is asked again");
        assert_eq!(known("abc", "bc"), 2, "nothing new");
        assert_eq!(known("aab", "aabaab"), 3 + 3, "the longest end, and of equal ones the last");
        assert_eq!(known("xaab", "xaabaab"), 4);
        assert_eq!(known("abc", "xyz"), 0);
        assert_eq!(known("", "xyz"), 0);
    }
}
