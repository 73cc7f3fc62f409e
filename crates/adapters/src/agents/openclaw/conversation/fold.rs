//! Summarises a conversation that is read page by page, the newest page first. Pure.
//!
//! It keeps figures and two texts, never the messages, so its memory does not depend on the length of the
//! conversation.

use std::collections::HashSet;

use agentctl_model::text::{clean, clean_cut};
use agentctl_model::{Call, Tokens};
use serde_json::Value;

use super::history::{moment, says};
use crate::agents::openclaw::client::rows::History;
use crate::transcript::read::hash_of;

/// The facts about a whole conversation.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// There is a conversation.
    pub(crate) has_messages: bool,
    pub(crate) prompt: Option<String>,
    pub(crate) last_message: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) cost: Option<f64>,
    /// What the sums consist of.
    pub(crate) calls: Vec<Call>,
}

#[derive(Debug, Default)]
pub(crate) struct Fold {
    summary: Summary,
    /// The reply in progress, from the newest page that had one.
    partial: Option<String>,
    /// The stored messages whose usage is included in the sums.
    counted: HashSet<String>,
}

impl Fold {
    /// Adds the next older page.
    pub(crate) fn add(&mut self, page: &History) {
        let of = |role: &'static str| page.messages.iter().filter(move |message| message["role"] == role);
        self.summary.has_messages |= !page.messages.is_empty();
        if self.partial.is_none() {
            let text = page.in_flight_run.as_ref().map(|run| clean(run.text.trim_end()));
            self.partial = text.filter(|text| !text.is_empty());
        }
        if self.summary.last_message.is_none() {
            let good = of("assistant").filter(|message| message["stopReason"] != "error");
            self.summary.last_message = good.rev().find_map(says);
        }
        // The first prompt of the conversation is the first one of its oldest page.
        if let Some(prompt) = of("user").find_map(says) {
            self.summary.prompt = Some(prompt);
        }
        for message in of("assistant").filter(|message| message["usage"].is_object()) {
            self.count(message);
        }
    }

    /// One stored message can arrive as several rows, which may even be on two pages.
    fn count(&mut self, message: &Value) {
        let name = stored_as(message);
        if name.as_ref().is_some_and(|name| !self.counted.insert(name.clone())) {
            return;
        }
        let usage = &message["usage"];
        let tokens = Tokens {
            input: usage["input"].as_u64(),
            output: usage["output"].as_u64(),
            cache_read: usage["cacheRead"].as_u64(),
            cache_write: usage["cacheWrite"].as_u64(),
        };
        self.summary.tokens = Some(self.summary.tokens.unwrap_or_default().plus(tokens));
        let cost = usage["cost"]["total"].as_f64();
        if let Some(dollars) = cost {
            self.summary.cost = Some(self.summary.cost.unwrap_or(0.0) + dollars);
        }
        let at = moment(&message["timestamp"]);
        let text = |key: &str| message[key].as_str().filter(|text| !text.is_empty());
        let model = text("model").map(|model| match text("provider") {
            Some(provider) => format!("{provider}/{model}"),
            None => model.to_owned(),
        });
        self.summary.calls.push(Call {
            at,
            model: model.map(|model| clean_cut(&model, Some(200)).into()),
            tokens,
            cost,
            name: name.zip(at).map(|of| hash_of(&of)),
            agent: None,
        });
    }

    /// All pages up to the first message were added.
    pub(crate) fn whole(self) -> Summary {
        Summary { last_message: self.partial.or(self.summary.last_message), ..self.summary }
    }

    /// Older pages are missing: there is a last message, but neither a first one nor a sum.
    pub(crate) fn cut_short(self) -> Summary {
        let Summary { has_messages, last_message, .. } = self.whole();
        Summary { has_messages, last_message, ..Summary::default() }
    }
}

/// The name under which the gateway stores a message; `None` if it does not say.
pub(crate) fn stored_as(message: &Value) -> Option<String> {
    let stored = &message["__openclaw"];
    let seq = || stored["seq"].as_u64().map(|seq| format!("#{seq}"));
    stored["id"].as_str().map(str::to_owned).or_else(seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn page(messages: &[Value], partial: Option<&str>) -> History {
        let run = partial.map(|text| json!({"runId": "r", "text": text}));
        serde_json::from_value(json!({"messages": messages, "inFlightRun": run})).unwrap()
    }

    fn answer(stored: &Value, words: &str) -> Value {
        let usage =
            json!({"input": 2, "output": 3, "cacheRead": 4, "cacheWrite": 0, "cost": {"total": 0.25}});
        json!({"role": "assistant", "content": words, "usage": usage, "__openclaw": stored})
    }

    #[test]
    fn usage_is_counted_once_for_each_stored_message_however_the_pages_are_cut() {
        let told = [
            json!({"role": "user", "content": "first"}),
            answer(&json!({"id": "a"}), "one"),
            answer(&json!({"id": "a"}), "one more"),
            json!({"role": "user", "content": "second"}),
            answer(&json!({"seq": 7}), "two"),
            answer(&json!({"seq": 7}), ""),
        ];
        for border in 0..=told.len() {
            let mut fold = Fold::default();
            let (older, newer) = told.split_at(border);
            fold.add(&page(newer, Some(" ")));
            fold.add(&page(older, None));
            let summary = fold.whole();
            let tokens =
                Tokens { input: Some(4), output: Some(6), cache_read: Some(8), cache_write: Some(0) };
            assert_eq!((summary.tokens, summary.cost), (Some(tokens), Some(0.5)), "cut at {border}");
            assert_eq!(
                (summary.prompt.as_deref(), summary.last_message.as_deref()),
                (Some("first"), Some("two"))
            );
        }
        assert_eq!(Fold::default().whole(), Summary::default());
    }

    #[test]
    fn what_is_being_said_is_the_last_message_and_half_a_conversation_has_no_sums() {
        let mut fold = Fold::default();
        fold.add(&page(&[answer(&json!({"id": "a"}), "done")], Some("so far")));
        fold.add(&page(&[json!({"role": "user", "content": "go"})], Some("older")));
        let summary = fold.cut_short();
        assert_eq!((summary.has_messages, summary.last_message.as_deref()), (true, Some("so far")));
        assert_eq!((summary.prompt, summary.tokens, summary.cost), (None, None, None));
    }
}
