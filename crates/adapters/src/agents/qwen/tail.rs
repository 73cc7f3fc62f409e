//! What the end of a transcript says: the turn, the last words, the model. Pure.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;

use super::records::{ASKS_A_PERSON, KNOWN_TYPES, Record};
use crate::transcript::jsonl::Scan;

/// The agent repeats a title whenever this much was written after it.
const TITLE_REACH: u64 = 33 << 10;
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
    pub(super) cwd: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) version: Option<String>,
    pub(super) title: Option<String>,
    pub(super) records: u64,
    pub(super) broken: u64,
    pub(super) drift: BTreeMap<String, u64>,
    /// A model call failed, or was called off, after everything that was read so far.
    ended_by: Option<(TurnState, Option<String>)>,
    newest: Option<Timestamp>,
    /// Of the answers to the last calls: whether there are any, and whether a person refused them all.
    answered: bool,
    answer_allowed: bool,
    began_known: bool,
}

impl Tail {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        // A title may be written long after the conversation.
        if record.subtype.as_deref() != Some("custom_title") {
            self.updated_at = self.updated_at.max(record.at());
        }
        if !KNOWN_TYPES.contains(&record.kind.as_ref()) {
            *self.drift.entry(clean_cut(&record.kind, Some(60))).or_default() += 1;
        }
        keep(&mut self.branch, record.branch().filter(|_| self.cwd.is_none()));
        keep(&mut self.cwd, record.cwd.as_deref());
        keep(&mut self.version, record.version.as_deref());
        if record.subtype.as_deref() == Some("custom_title") {
            keep(&mut self.title, record.system_payload.custom_title.as_deref());
        }
        if record.kind == "assistant" {
            keep(&mut self.model, record.model.as_deref());
            if self.last_message.is_none() {
                let text = record.text().filter(|text| !text.trim().is_empty());
                self.last_message = text.map(|text| clean_cut(&text, self.text_limit));
            }
        }
        if self.turn.is_none() {
            self.take_turn(record);
        } else if !self.began_known && record.prompt().is_some() {
            self.began_known = true;
            if let Some(turn) = &mut self.turn {
                turn.began = record.at();
            }
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let at = record.at();
        match record.kind.as_ref() {
            "system" => self.take_system(record),
            "user" => {
                let asked = record.prompt().is_some();
                let ended = self.ended_by.take();
                let (state, detail) = ended.unwrap_or((TurnState::Open, None));
                self.decide(state, at, detail);
                self.began_known = asked;
                if let (true, Some(turn)) = (asked, &mut self.turn) {
                    turn.began = at;
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
            // What was said was taken back: no turn is open, and none has an outcome.
            Some("rewind") => self.decide(TurnState::Ended, at, None),
            Some("ui_telemetry")
                if payload.ui_event.is_main() && self.ended_by.is_none() && !self.answered =>
            {
                let event = &payload.ui_event;
                self.ended_by = match event.name.as_deref() {
                    Some("qwen-code.api_error") => {
                        let words = event.error_message.as_deref().map(|words| clean_cut(words, Some(500)));
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
        self.turn = Some(turn);
    }

    fn enough(&self, distance: u64) -> bool {
        let spoken = self.last_message.is_some() && self.model.is_some();
        let titled = self.title.is_some() || distance > TITLE_REACH;
        self.turn.is_some() && titled && (spoken || distance > WORDS_REACH)
    }
}

fn keep(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.filter(|text| !text.is_empty()).map(|text| clean_cut(text, None));
    }
}

impl Scan for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        let only_title = self.turn.is_some() && self.last_message.is_some() && self.model.is_some();
        if only_title && (line.len() > 4096 || memchr::memmem::find(line, b"custom_title").is_none()) {
            // Only a title is still wanted, and titles are short.
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
