//! Reads the end of a transcript: the turn, the last message, the model. Pure.

use agentctl_model::text::clean_cut;
use agentctl_model::{Limit, Turn, TurnState};
use jiff::Timestamp;

use super::records::{ASKS_A_PERSON, KNOWN_TYPES, Record};
use crate::transcript::read::{self, Directory, Latest, Line, keep};

/// The agent repeats a title whenever it has written this many bytes since.
const TITLE_REACH: u64 = 33 << 10;

/// Reads records newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    pub(super) latest: Latest,
    pub(super) directory: Directory,
    pub(super) version: Option<String>,
    pub(super) title: Option<String>,
    /// The failure or cancellation of a model call that is newer than everything read so far.
    ended_by: Option<(TurnState, Option<String>)>,
    /// That error was the refusal of the provider for a quota.
    is_limited: bool,
    newest: Option<Timestamp>,
    /// Whether the last calls have any answers, and whether a person refused them all.
    answered: bool,
    answer_allowed: bool,
}

impl Tail {
    fn take(&mut self, record: &Record<'_>) {
        // A title may be written long after the conversation.
        if record.subtype.as_deref() != Some("custom_title") {
            self.latest.updated_at = self.latest.updated_at.max(record.at());
        }
        if !KNOWN_TYPES.contains(&record.kind.as_ref()) {
            self.latest.drifted(&record.kind);
        }
        self.directory.keep(record.cwd.as_deref(), record.branch());
        keep(&mut self.version, record.version.as_deref());
        if record.subtype.as_deref() == Some("custom_title") {
            keep(&mut self.title, record.system_payload.custom_title.as_deref());
        }
        if record.kind == "assistant" {
            self.latest.used(record.model.as_deref());
            if self.latest.last_message.is_none() {
                self.latest.said(record.text());
            }
        }
        if self.latest.turn.is_none() {
            self.take_turn(record);
        } else if !self.latest.began_known && record.prompt().is_some() {
            self.latest.began(record.at());
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let at = record.at();
        match record.kind.as_ref() {
            "system" => self.take_system(record),
            "user" => {
                let ended = self.ended_by.take();
                let (state, detail) = ended.unwrap_or((TurnState::Open, None));
                self.decide(state, at, detail);
                if record.prompt().is_some() {
                    self.latest.began(at);
                }
            }
            "tool_result" => {
                self.newest = self.newest.max(at);
                self.answered = true;
                self.answer_allowed |= record.tool_call_result.status.as_deref() != Some("cancelled");
            }
            "assistant" => match (record.call(), self.answered) {
                (Some(_), true) => {
                    let refused = (!self.answer_allowed).then_some((TurnState::Interrupted, None));
                    let (state, detail) = self.ended_by.take().or(refused).unwrap_or((TurnState::Open, None));
                    self.decide(state, at, detail);
                }
                (Some(call), false) => {
                    let asks = call.name.as_deref() == Some(ASKS_A_PERSON);
                    let state = if asks { TurnState::Question } else { TurnState::Open };
                    self.decide(state, at, Some(call.words()));
                }
                (None, _) => self.decide(TurnState::Finished, at, None),
            },
            _ => {}
        }
    }

    fn take_system(&mut self, record: &Record<'_>) {
        let (payload, at) = (&record.system_payload, record.at());
        match record.subtype.as_deref() {
            Some("turn_result") => {
                let state = match payload.state.as_deref() {
                    Some("completed") => TurnState::Finished,
                    Some("cancelled") => TurnState::Interrupted,
                    Some("error") => TurnState::Failed,
                    _ => return,
                };
                let words = payload.error.message.as_deref().map(|words| clean_cut(words, Some(500)));
                self.decide(state, at, words);
            }
            // The messages were taken back: no turn is open, and none has an outcome.
            Some("rewind") => self.decide(TurnState::Ended, at, None),
            Some("ui_telemetry")
                if payload.ui_event.is_main() && self.ended_by.is_none() && !self.answered =>
            {
                let event = &payload.ui_event;
                self.ended_by = match event.name.as_deref() {
                    Some("qwen-code.api_error") => {
                        let words = event.error_message.as_deref().map(|words| clean_cut(words, Some(500)));
                        self.is_limited = event.status_code.is_some_and(|code| code.get() == "429");
                        Some((TurnState::Failed, words))
                    }
                    Some("qwen-code.api_cancel") => Some((TurnState::Interrupted, None)),
                    _ => return,
                };
                self.newest = self.newest.max(at);
            }
            _ => {}
        }
    }

    fn decide(&mut self, state: TurnState, at: Option<Timestamp>, detail: Option<String>) {
        let mut turn = Turn::new(state, self.newest.max(at));
        turn.detail = detail;
        turn.limit = (state == TurnState::Failed && self.is_limited).then(Limit::default);
        self.latest.turn = Some(turn);
    }
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], _: u64) -> Line {
        let only_title = self.latest.turn.is_some() && self.latest.is_spoken();
        if only_title && (line.len() > 4096 || memchr::memmem::find(line, b"custom_title").is_none()) {
            // Only a title is still needed, and titles are short.
            return Line::Record;
        }
        let record = Record::parse(line);
        Line::is_record(record.inspect(|record| self.take(record)).is_some())
    }

    fn enough(&mut self, distance: u64) -> bool {
        let titled = self.title.is_some() || distance > TITLE_REACH;
        titled && self.latest.is_known(distance)
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
