//! The open tool calls: a later message names only what changed, and a request for a permission may name the call alone.

use std::collections::VecDeque;

use serde_json::Value;

use super::wire::ToolCall;

/// At most this many calls are kept; the oldest is forgotten first.
const MOST: usize = 64;
/// The input of a call that is longer than this, as text, is not kept.
const LONGEST_INPUT: usize = 256 << 10;

#[derive(Debug, Default)]
pub(super) struct Calls(VecDeque<Call>);

#[derive(Debug)]
struct Call {
    id: String,
    title: Option<String>,
    input: Option<Value>,
}

impl Calls {
    /// Takes what was said of a call. Returns whether the call is over.
    pub(super) fn take(&mut self, said: ToolCall) -> bool {
        let Some(id) = said.id else { return false };
        let at = self.0.iter().position(|call| call.id == id);
        if matches!(said.status.as_deref(), Some("completed" | "failed" | "cancelled")) {
            if let Some(at) = at {
                self.0.remove(at);
            }
            return true;
        }
        let short = |text: &String| text.len() <= LONGEST_INPUT;
        let (title, input) =
            (said.title.filter(short), said.raw_input.filter(|input| short(&input.to_string())));
        match at {
            Some(at) => {
                let call = &mut self.0[at];
                call.title = title.or(call.title.take());
                call.input = input.or(call.input.take());
            }
            None if short(&id) => {
                if self.0.len() == MOST {
                    self.0.pop_front();
                }
                self.0.push_back(Call { id, title, input });
            }
            None => {}
        }
        false
    }

    /// Adds to a request what was said of its call before.
    pub(super) fn complete(&self, asked: &mut ToolCall) {
        let id = asked.id.as_deref();
        let Some(call) = self.0.iter().find(|call| Some(call.id.as_str()) == id) else { return };
        asked.title = asked.title.take().or_else(|| call.title.clone());
        asked.raw_input = asked.raw_input.take().or_else(|| call.input.clone());
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
