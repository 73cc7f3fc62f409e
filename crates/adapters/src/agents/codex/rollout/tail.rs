//! Reads the end of a rollout: the turn, the last message, the counters, the directory and the model. Pure.

use agentctl_model::{Limit, Turn, TurnState};
use jiff::Timestamp;

use super::records::{Beginning, Payload, Record, Said, Usage, beginning};
use crate::transcript::read::{self, Latest, Line, WORDS_REACH};

/// How far back the beginning of the last turn is searched: no turn of this size has ever been observed.
const TURN_REACH: u64 = 64 << 20;

/// The end of a turn as its closing record describes it.
#[derive(Debug, Clone)]
struct Ending {
    turn_id: Option<String>,
    turn: Turn,
}

/// Reads records newest first until nothing more is needed.
#[expect(clippy::struct_excessive_bools, reason = "each is one thing already found")]
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    pub(crate) latest: Latest,
    /// The counters are needed however far back they are.
    usage: bool,

    /// Turn ends newer than the beginning of any turn, newest first.
    endings: Vec<Ending>,
    decided: bool,
    /// The newest record that belongs to a turn. Opening a thread writes records too, and those do not count.
    worked_at: Option<Timestamp>,
    answered: Vec<String>,
    pending_call: Option<String>,
    talked: bool,

    context_seen: bool,
    pub(crate) cwd: Option<String>,
    pub(crate) total: Option<Usage>,
}

impl Tail {
    pub(crate) fn new(usage: bool) -> Self {
        Self { usage, ..Self::default() }
    }

    /// The last turn. Returns `None` when there are messages but no record shows where a turn began or ended.
    pub(crate) fn turn(&mut self) -> Option<Turn> {
        if !self.decided {
            self.latest.turn = match self.endings.first() {
                Some(ending) => Some(ending.turn.clone()),
                None if self.talked => None,
                None => Some(Turn::new(TurnState::NotBegun, self.latest.updated_at)),
            };
        }
        self.latest.turn.clone()
    }

    fn take(&mut self, record: &Record<'_>, payload: &Payload<'_>) {
        let at = record.at();
        let said = record.said(payload);
        if !matches!(said, Said::Nothing | Said::Unknown(_)) {
            self.worked(at);
        }
        // Before the end of a turn that the provider refused, the agent writes when the quota is free again.
        if let Some(limit) = self.limit_without_end() {
            limit.until = payload.resets_at();
        }
        match said {
            Said::Context { cwd, model } => {
                // An older context supplies what the newest one leaves out.
                self.cwd = self.cwd.take().or(cwd);
                self.latest.model = self.latest.model.take().or(model);
                self.context_seen = self.cwd.is_some() && self.latest.model.is_some();
                // The beginning of an ended turn stands directly before this and adds nothing.
                self.decide_by_ending(payload.turn_id.as_deref());
            }
            Said::TurnBegan => self.began(payload.turn_id.as_deref(), at),
            Said::TurnEnded { state, detail, words, is_limit } => {
                if !self.decided {
                    let limit = is_limit.then(Limit::default);
                    let turn = Turn { detail, limit, ..Turn::new(state, at) };
                    let turn_id = payload.turn_id.as_deref().map(str::to_owned);
                    self.endings.push(Ending { turn_id, turn });
                }
                self.latest.said(words);
            }
            Said::Reply(text) => {
                self.talked = true;
                self.latest.said(Some(text));
            }
            Said::Prompt(_) => self.talked = true,
            Said::Total { total, .. } => {
                self.total.get_or_insert(total);
            }
            Said::Call { id, words } => {
                let answered = id.is_some_and(|id| self.answered.contains(&id));
                if !answered && !self.decided && self.endings.is_empty() && self.pending_call.is_none() {
                    self.pending_call = Some(words);
                }
            }
            Said::Output { id } => self.answered.extend(id.filter(|_| !self.decided)),
            Said::Unknown(kind) => self.latest.drifted(&kind),
            Said::Work | Said::Nothing => {}
        }
    }

    /// Whether a record with this beginning cannot contain anything that is still needed.
    fn can_skip(&self, beginning: &Beginning<'_>) -> bool {
        let ended = self.decided || !self.endings.is_empty();
        match beginning.kind {
            b"response_item" if ended => true,
            b"token_usage_record" => self.total.is_some(),
            b"event_msg" => match beginning.inner {
                b"token_count" => self.total.is_some() && !self.is_limit_without_end(),
                b"item_completed" => beginning.is_bulk() || (ended && self.latest.last_message.is_some()),
                _ => false,
            },
            _ => beginning.is_bulk() || beginning.is_bookkeeping(),
        }
    }

    /// The limit that ended the turn that is being read, while it is not known when it ends.
    fn limit_without_end(&mut self) -> Option<&mut Limit> {
        let ending = self.endings.last_mut().filter(|_| !self.decided);
        ending.and_then(|ending| ending.turn.limit.as_mut()).filter(|limit| limit.until.is_none())
    }

    fn is_limit_without_end(&self) -> bool {
        let ending = self.endings.last().filter(|_| !self.decided);
        ending.and_then(|ending| ending.turn.limit).is_some_and(|limit| limit.until.is_none())
    }

    fn worked(&mut self, at: Option<Timestamp>) {
        if !self.decided && self.worked_at.is_none() {
            self.worked_at = at;
        }
    }

    fn decide_by_ending(&mut self, turn_id: Option<&str>) {
        if self.decided || turn_id.is_none() {
            return;
        }
        if let Some(ending) = self.endings.iter().find(|ending| ending.turn_id.as_deref() == turn_id) {
            self.latest.turn = Some(ending.turn.clone());
            self.decided = true;
        }
    }

    /// Handles the beginning of the newest turn: it is open unless one of the later ends is its own.
    fn began(&mut self, turn_id: Option<&str>, at: Option<Timestamp>) {
        if self.decided {
            return;
        }
        let own = |ending: &&Ending| match (ending.turn_id.as_deref(), turn_id) {
            (Some(ended), Some(began)) => ended == began,
            // For versions without turn ids the order decides.
            _ => true,
        };
        let turn = match self.endings.iter().find(own) {
            Some(ending) => Turn { began: at, ..ending.turn.clone() },
            None => Turn {
                began: at,
                detail: self.pending_call.take(),
                ..Turn::new(TurnState::Open, self.worked_at.or(at))
            },
        };
        self.latest.turn = Some(turn);
        self.decided = true;
    }
}

impl read::Tail for Tail {
    /// The last turn is read back to where it began.
    const WINDOW: usize = 64 << 10;

    fn line(&mut self, line: &[u8], _: u64) -> Line {
        // A half-written last line can have a valid beginning too, so a record must end with its closing
        // brace.
        let whole = line.last() == Some(&b'}');
        let beginning = if whole { beginning(line) } else { None };
        if let Some(beginning) = beginning.filter(|beginning| self.can_skip(beginning)) {
            if self.latest.updated_at.is_none() {
                self.latest.updated_at = beginning.time();
            }
            if self.worked_at.is_none() && !beginning.is_bookkeeping() {
                self.worked(beginning.time());
            }
            return Line::Record;
        }
        let Some(record) = Record::parse(line) else { return Line::Broken };
        if self.latest.updated_at.is_none() {
            self.latest.updated_at = record.at();
        }
        self.take(&record, &record.payload());
        Line::Record
    }

    fn enough(&mut self, distance: u64) -> bool {
        if distance > TURN_REACH {
            return true;
        }
        let far = distance > WORDS_REACH;
        let words = self.latest.last_message.is_some() || far;
        let counted = self.total.is_some() || (far && !self.usage);
        self.decided && self.context_seen && words && counted
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}
