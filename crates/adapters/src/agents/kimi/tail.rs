//! What the end of the records says: the turn, the last words, the model. Pure.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{Record, is_certainly_bulk, is_known};
use crate::transcript::jsonl::Scan;

/// How far back the last words are looked for once everything else is known.
const WORDS_REACH: u64 = 8 << 20;

/// Reads records newest first until nothing more is wanted.
#[derive(Default)]
pub(super) struct Tail {
    text_limit: Option<usize>,
    pub(super) turn: Option<Turn>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) last_message: Option<String>,
    pub(super) model: Option<String>,
    pub(super) records: u64,
    pub(super) broken: u64,
    pub(super) drift: BTreeMap<String, u64>,
    /// The newest record of the turn.
    newest: Option<Timestamp>,
    /// The prompt is over, and so: the turn's own end stands before this, with the error.
    over: Option<TurnState>,
    answered: HashSet<String>,
    /// What stands open inside the turn: a tool, an approval, a question.
    open: Option<(TurnState, Option<String>)>,
    began_known: bool,
}

impl Tail {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.updated_at = self.updated_at.max(record.at());
        if !is_known(&record.kind) {
            *self.drift.entry(clean_cut(&record.kind, Some(60))).or_default() += 1;
        }
        if !record.is_main() {
            return;
        }
        if self.last_message.is_none() {
            self.last_message = record.words().map(|text| clean_cut(text, self.text_limit));
        }
        if self.model.is_none() && record.kind == "llm.request" {
            self.model =
                record.model.as_deref().filter(|name| !name.is_empty()).map(|name| clean_cut(name, None));
        }
        if self.turn.is_none() {
            self.take_turn(record);
        } else if !self.began_known && record.kind == "turn.prompt" {
            self.began(record.at());
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        match record.kind.as_ref() {
            "turn.ended" => {
                self.decide(ending(record.reason.as_deref()), record.at(), record.error());
            }
            "prompt.completed" => self.over = self.over.or(Some(ending(record.reason.as_deref()))),
            "prompt.aborted" => self.over = self.over.or(Some(TurnState::Interrupted)),
            "turn.prompt" => {
                self.decide(self.over.unwrap_or(TurnState::Open), record.at(), None);
                self.began(record.at());
            }
            // Everything before this is a copy of another session's records.
            "forked" => self.decide(TurnState::NotBegun, record.at(), None),
            "interaction.resolved" => {
                self.newest = self.newest.max(record.at());
                self.answered.extend(record.id.as_deref().map(str::to_owned));
            }
            "interaction.request" => self.take_interaction(record),
            "context.append_loop_event" => self.take_loop_event(record),
            _ => {}
        }
    }

    fn take_interaction(&mut self, record: &Record<'_>) {
        self.newest = self.newest.max(record.at());
        if record.id.as_deref().is_some_and(|id| self.answered.contains(id)) {
            return;
        }
        let state = match record.what.as_deref() {
            Some("approval") => TurnState::Approval,
            Some("question") => TurnState::Question,
            // A tool that the client runs: no person is asked.
            _ => return,
        };
        self.open = Some((state, record.request_in_words()));
    }

    fn take_loop_event(&mut self, record: &Record<'_>) {
        let event = &record.event;
        self.newest = self.newest.max(record.at());
        match event.kind.as_ref() {
            "tool.result" => self.answered.extend(event.tool_call_id.as_deref().map(str::to_owned)),
            "tool.call" if self.open.is_none() => {
                let answered = event.tool_call_id.as_deref().is_some_and(|id| self.answered.contains(id));
                if !answered {
                    self.open = Some((TurnState::Open, event.call_in_words()));
                }
            }
            _ => {}
        }
    }

    fn decide(&mut self, state: TurnState, at: Option<Timestamp>, words: Option<&str>) {
        let (state, detail) = match (state, self.open.take()) {
            (TurnState::Open, Some(open)) => open,
            (state, _) => (state, words.map(|words| clean_cut(words, Some(500)))),
        };
        let mut turn = Turn::new(state, self.newest.max(at));
        turn.detail = detail;
        self.turn = Some(turn);
    }

    fn began(&mut self, at: Option<Timestamp>) {
        self.began_known = true;
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.state != TurnState::NotBegun) {
            turn.began = at;
        }
    }

    fn enough(&self, distance: u64) -> bool {
        let spoken = self.last_message.is_some() && self.model.is_some() && self.began_known;
        self.turn.is_some() && (spoken || distance > WORDS_REACH)
    }
}

/// How a turn ended, in the agent's words. A hook that blocks a prompt makes it fail.
fn ending(reason: Option<&str>) -> TurnState {
    match reason {
        Some("completed") => TurnState::Finished,
        Some("cancelled") => TurnState::Interrupted,
        Some("failed" | "blocked") => TurnState::Failed,
        _ => TurnState::Ended,
    }
}

impl Scan for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        if is_certainly_bulk(line) {
            self.records += 1;
        } else if let Some(record) = Record::parse(line) {
            self.take(&record);
        } else if self.records > 0 {
            self.broken += 1;
        }
        if self.enough(distance) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
