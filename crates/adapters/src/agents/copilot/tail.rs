//! Reads the end of a session's events: the turn, the last message, the model. Pure.

use std::collections::HashSet;

use agentctl_model::text::clean_cut;
use agentctl_model::{Limit, Turn, TurnState};
use jiff::Timestamp;

use super::records::{ASKS_A_PERSON, Record, is_certainly_bulk, is_known};
use crate::transcript::read::{self, Directory, Latest, Line, keep};

/// Reads events newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// Its model is the one that replied last.
    pub(super) latest: Latest,
    /// The model that was selected last.
    pub(super) chosen_model: Option<String>,
    pub(super) directory: Directory,
    /// The session was shut down cleanly.
    shut_down: bool,
    pub(super) shut_down_at: Option<Timestamp>,
    /// The newest event of the turn.
    newest: Option<Timestamp>,
    /// A model call ended; whether the turn ended too depends on what the model requested.
    call_ended: bool,
    /// The agent declared the task done, so nothing follows its last tool call.
    declared_done: bool,
    answered_tools: HashSet<String>,
    answered_requests: HashSet<String>,
    /// What is still open within the turn: a tool, an approval, a question.
    open: Option<(TurnState, Option<String>)>,
}

impl Tail {
    fn take(&mut self, record: &Record<'_>) {
        self.latest.recorded(record.at(), &record.kind, is_known(&record.kind));
        self.take_surroundings(record);
        if !record.is_main() {
            return;
        }
        self.latest.said(record.words());
        if record.kind == "assistant.message" {
            self.latest.used(record.data.model.as_deref());
        }
        if self.latest.turn.is_none() {
            self.take_turn(record);
        } else if record.kind == "user.message" {
            self.latest.began(record.at());
        }
    }

    fn take_surroundings(&mut self, record: &Record<'_>) {
        let data = &record.data;
        let chosen = data.current_model.as_ref().or(data.new_model.as_ref()).or(data.selected_model.as_ref());
        keep(&mut self.chosen_model, chosen.map(AsRef::as_ref));
        let context = data.context.as_ref();
        let moved = record.kind == "session.context_changed";
        let cwd = context.and_then(|context| context.cwd.as_deref());
        let branch = context.and_then(|context| context.branch.as_deref());
        self.directory.keep(
            cwd.or_else(|| data.cwd.as_deref().filter(|_| moved)),
            branch.or_else(|| data.branch.as_deref().filter(|_| moved)),
        );
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let data = &record.data;
        let at = record.at();
        match record.kind.as_ref() {
            "session.shutdown" => {
                self.shut_down = true;
                self.shut_down_at = self.shut_down_at.max(at);
                if data.shutdown_type.as_deref() == Some("error") {
                    self.decide(TurnState::Failed, at, data.error_reason.as_deref());
                }
            }
            "session.error" => {
                self.decide(TurnState::Failed, at, data.message.as_deref());
                if let Some(turn) = &mut self.latest.turn {
                    turn.limit =
                        data.status_code.filter(|code| code.get() == "429").map(|_| Limit::default());
                }
            }
            "abort" => self.decide(TurnState::Interrupted, at, None),
            // The clean shutdown was that of the process that began here and says nothing about the turn
            // before it.
            "session.resume" => self.shut_down = false,
            "session.start" => self.decide(TurnState::NotBegun, at, None),
            "session.task_complete" => {
                self.newest = self.newest.max(at);
                self.declared_done = true;
            }
            "assistant.turn_end" => {
                self.newest = self.newest.max(at);
                self.call_ended = true;
            }
            "assistant.message" if self.call_ended => {
                let goes_on = !data.tool_requests.is_empty() && !self.declared_done;
                self.decide(if goes_on { TurnState::Open } else { TurnState::Finished }, at, None);
            }
            // A call ended without a message: an empty reply, or one that was cut off and whose error is not
            // recorded.
            "assistant.turn_start" if self.call_ended => self.decide(TurnState::Finished, at, None),
            "assistant.turn_start" | "assistant.message" => self.decide(TurnState::Open, at, None),
            "user.message" => {
                self.decide(TurnState::Open, at, None);
                self.latest.began(at);
            }
            "tool.execution_complete" => {
                self.newest = self.newest.max(at);
                self.answered_tools.extend(data.tool_call_id.as_deref().map(str::to_owned));
            }
            "permission.completed" => {
                self.newest = self.newest.max(at);
                self.answered_requests.extend(data.request_id.as_deref().map(str::to_owned));
            }
            "permission.requested" if !data.resolved_by_hook => {
                self.newest = self.newest.max(at);
                if !data.request_id.as_deref().is_some_and(|id| self.answered_requests.contains(id)) {
                    let words =
                        data.permission_request.as_ref().map(super::records::PermissionRequest::words);
                    self.open = Some((TurnState::Approval, words));
                }
            }
            "tool.execution_start" => {
                self.newest = self.newest.max(at);
                let answered =
                    data.tool_call_id.as_deref().is_some_and(|id| self.answered_tools.contains(id));
                if !answered && self.open.is_none() {
                    let asks = data.tool_name.as_deref() == Some(ASKS_A_PERSON);
                    let state = if asks { TurnState::Question } else { TurnState::Open };
                    self.open = Some((state, record.tool_in_words()));
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
        // A clean shutdown with an open turn means that somebody stopped the session; it did not die.
        let open = matches!(state, TurnState::Open | TurnState::Approval | TurnState::Question);
        let state = if open && self.shut_down { TurnState::Interrupted } else { state };
        let mut turn = Turn::new(state, self.newest.max(at));
        turn.detail = detail;
        self.latest.turn = Some(turn);
    }
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], _: u64) -> Line {
        if is_certainly_bulk(line) {
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
