//! Reads the end of the records: the turn, the last message, the model. Pure.

use std::collections::HashSet;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{Record, is_certainly_bulk, is_known};
use crate::transcript::read::{self, Latest, Line, WORDS_REACH};

/// Reads records newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    pub(super) latest: Latest,
    /// The newest record of the turn.
    newest: Option<Timestamp>,
    /// The prompt ended with this state; the turn's own end, with the error, stands before it.
    over: Option<TurnState>,
    answered: HashSet<String>,
    /// What is still open within the turn: a tool, an approval, a question.
    open: Option<(TurnState, Option<String>)>,
}

impl Tail {
    fn take(&mut self, record: &Record<'_>) {
        self.latest.recorded(record.at(), &record.kind, is_known(&record.kind));
        if !record.is_main() {
            return;
        }
        self.latest.said(record.words());
        if record.kind == "llm.request" {
            self.latest.used(record.model.as_deref());
        }
        if self.latest.turn.is_none() {
            self.take_turn(record);
        } else if record.kind == "turn.prompt" {
            self.latest.began(record.at());
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
                self.latest.began(record.at());
            }
            // All earlier records are copies of another session's.
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
            // This is a tool that the client runs; no person is asked.
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
        self.latest.turn = Some(turn);
    }
}

/// Converts the agent's reason for the end of a turn. A hook that blocks a prompt makes the turn fail.
fn ending(reason: Option<&str>) -> TurnState {
    match reason {
        Some("completed") => TurnState::Finished,
        Some("cancelled") => TurnState::Interrupted,
        Some("failed" | "blocked") => TurnState::Failed,
        _ => TurnState::Ended,
    }
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], _: u64) -> Line {
        if is_certainly_bulk(line) {
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn enough(&mut self, distance: u64) -> bool {
        let spoken = self.latest.is_spoken() && self.latest.began_known;
        self.latest.turn.is_some() && (spoken || distance > WORDS_REACH)
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
