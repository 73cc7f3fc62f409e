//! Who worked, waited and rested when: one pure function from recorded times to spans.
//!
//! A mark is what one record says about the turn and when. Between two marks the first one says what was going on; where
//! the records leave it open, the span is `unknown`. Only the last span knows more than the records: what is true now.

use std::collections::HashSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::{Outcome, Status};
use crate::survey::SourceReport;
use crate::survey::host::HostReport;

/// What one record says about the turn. The number of a request or of a tool's call is only ever compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The agent recorded the beginning of a turn.
    Began,
    /// A person's message. It begins a turn, unless it comes into one whose beginning the agent recorded.
    Said,
    /// The model or a tool was at work.
    Work,
    /// A request was put to a person.
    Asked(u64),
    /// A request, or the call of a tool, got its answer.
    Answered(u64),
    /// The turn ended, unless the agent goes on by itself (it tries again, or its words were not its last ones).
    Closing,
    /// The agent recorded the end of the turn.
    Ended,
    /// A process opened the session; no turn is open in it yet.
    Opened,
    /// The process was ended.
    Stopped,
    /// Everything before this is a copy of another session's records.
    Copied,
}

/// A step and its recorded time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub step: Step,
}

/// What is true of the session now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    pub status: Status,
    /// In this status since, where that is recorded.
    pub since: Option<Timestamp>,
    /// When the first of its processes started.
    pub alive_since: Option<Timestamp>,
    /// When it stopped, where that is known.
    pub stopped_at: Option<Timestamp>,
}

/// The time that is asked about. It ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeWindow {
    /// From this moment on; `null` = from the beginning.
    pub since: Option<Timestamp>,
    /// The moment of the question.
    pub until: Timestamp,
}

/// A time in which one thing was true of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Span {
    pub from: Timestamp,
    /// `null` for what still lasts.
    pub to: Option<Timestamp>,
    pub status: Status,
}

/// The times of one session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// The agent's own id.
    pub session_id: String,
    /// The machine it is on.
    pub host: String,
    /// Which agent it is of.
    pub adapter: String,
    /// The folder in which its agent keeps it, or the address of its gateway.
    pub config_root: String,
    /// Its name, or the beginning of its first prompt.
    pub name: Option<String>,
    /// The folder it works in.
    pub cwd: Option<String>,
    /// What is true of it now.
    pub status: Status,
    /// How its last turn ended; `null` while one is open, and where nobody says.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// Ordered, without overlap, within the window.
    pub spans: Vec<Span>,
}

/// What `timeline --json` prints and `GET /v1/timeline` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    pub as_of: Timestamp,
    pub host: String,
    pub window: TimeWindow,
    /// One for each session that did something in the window, or that was asked for by its id.
    pub lanes: Vec<Lane>,
    pub sources: Vec<SourceReport>,
    pub hosts: Vec<HostReport>,
}

/// The spans of one session within the window. Marks may come in any order; of those with one time the later one in the
/// list is the newer one.
pub fn spans(mut marks: Vec<Mark>, present: &Present, window: TimeWindow) -> Vec<Span> {
    marks.sort_by_key(|mark| mark.at);
    // A record of the future was written by a wrong clock and says nothing about the time until now.
    marks.retain(|mark| mark.at <= window.until);
    if let Some(copied) = marks.iter().rposition(|mark| mark.step == Step::Copied) {
        marks.drain(..copied);
    }
    let mut drawn = Drawn::default();
    let mut reading = Reading::default();
    for pair in marks.windows(2) {
        let status = reading.between(pair[0].step, pair[1].step);
        drawn.add(pair[0].at, Some(pair[1].at), status);
    }
    match marks.last() {
        Some(last) => drawn.go_on(last.at, reading.after(last.step), present, window.until),
        None if present.status != Status::Stopped => {
            let from = present.since.or(present.alive_since).unwrap_or(window.until).min(window.until);
            drawn.add(from, None, present.status);
        }
        None => {}
    }
    drawn.within(window.since)
}

/// What is known while the marks are read in their order.
#[derive(Default)]
struct Reading {
    /// The agent recorded the beginning of the turn that is open.
    begun: bool,
    /// A record so far belongs to a turn that has not ended.
    is_open: bool,
    asked: HashSet<u64>,
}

impl Reading {
    /// What this step leaves the session in.
    fn after(&mut self, step: Step) -> Status {
        match step {
            Step::Began => {
                self.begun = true;
                self.asked.clear();
            }
            Step::Said if !self.begun => self.asked.clear(),
            Step::Asked(request) => {
                self.asked.insert(request);
            }
            Step::Answered(request) => {
                self.asked.remove(&request);
            }
            Step::Said | Step::Work => {}
            Step::Closing | Step::Ended | Step::Opened | Step::Stopped | Step::Copied => {
                (self.begun, self.is_open) = (false, false);
                self.asked.clear();
                return if step == Step::Stopped { Status::Stopped } else { Status::Idle };
            }
        }
        self.is_open = true;
        if self.asked.is_empty() { Status::Running } else { Status::Waiting }
    }

    /// What was true from this step to the next one.
    fn between(&mut self, step: Step, next: Step) -> Status {
        let status = self.after(step);
        match next {
            // The agent went on by itself: its turn had not ended.
            Step::Work | Step::Asked(_) | Step::Answered(_) | Step::Closing | Step::Ended
                if step == Step::Closing =>
            {
                Status::Running
            }
            // The process that had the turn is gone, and nobody recorded when.
            Step::Opened if self.is_open => Status::Unknown,
            // A new turn, and nobody recorded the end of the one before it.
            Step::Began if self.is_open && step != Step::Said => Status::Unknown,
            Step::Said if self.is_open && !self.begun => Status::Unknown,
            _ => status,
        }
    }
}

#[derive(Default)]
struct Drawn(Vec<Span>);

impl Drawn {
    /// Adds a span at the end. One of the same status goes on, and one without length is left out.
    fn add(&mut self, from: Timestamp, to: Option<Timestamp>, status: Status) {
        if to.is_some_and(|to| to <= from) {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.status == status => last.to = to,
            _ => self.0.push(Span { from, to, status }),
        }
    }

    /// What came after the last record, as far as somebody says so.
    fn go_on(&mut self, last: Timestamp, status: Status, present: &Present, now: Timestamp) {
        let after = |at: Option<Timestamp>| at.filter(|at| *at > last && *at <= now);
        if present.status == Status::Stopped {
            if let Some(end) = after(present.stopped_at).filter(|_| status != Status::Stopped) {
                self.add(last, Some(end), status);
            }
            return;
        }
        if let Some(started) = after(present.alive_since) {
            // Another process wrote the last record. When that one ended nobody says.
            let before = if status == Status::Stopped { status } else { Status::Unknown };
            self.add(last, Some(started), before);
            self.add(started, None, present.status);
        } else if let Some(since) = after(present.since) {
            self.add(last, Some(since), status);
            self.add(since, None, present.status);
        } else if status == present.status
            || present.status == Status::Unknown
            // In one turn: it began to wait after its last record, and nobody says when.
            || (status, present.status) == (Status::Running, Status::Waiting)
        {
            self.add(last, None, present.status);
        } else {
            self.add(last, Some(now), Status::Unknown);
            self.add(now, None, present.status);
        }
    }

    fn within(self, since: Option<Timestamp>) -> Vec<Span> {
        let Some(since) = since else { return self.0 };
        let reaches_in = |span: &Span| span.to.is_none_or(|to| to > since);
        let cut = |span: Span| Span { from: span.from.max(since), ..span };
        self.0.into_iter().filter(reaches_in).map(cut).collect()
    }
}

#[cfg(test)]
mod tests;
