//! Token totals: every model reply once, whatever number of lines repeats it. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use agentctl_model::Tokens;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::records::{NO_MODEL, Usage};

/// Every record with usage has this key, whatever its spacing; lines without it need not even be split.
pub(super) const MARK: &str = "\"usage\"";

/// The few fields that count, so that the text of a reply is skipped instead of read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    is_sidechain: bool,
    forked_from: Option<IgnoredAny>,
    #[serde(borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<Usage>,
}

/// Sums usage over records, once per message id; copies out of a forked session are its parent's.
#[derive(Default)]
pub(super) struct UsageSum {
    by_message: HashMap<Box<str>, Usage>,
    nameless: Vec<Usage>,
}

impl UsageSum {
    pub(super) fn line(&mut self, line: &[u8], sidechain: bool) {
        // The agent repeats a message's usage with each of its blocks.
        if message_id(line).is_some_and(|id| self.by_message.contains_key(id)) {
            return;
        }
        let Ok(record) = serde_json::from_slice::<Record<'_>>(line) else { return };
        if record.kind != "assistant" || record.is_sidechain != sidechain || record.forked_from.is_some() {
            return;
        }
        let Some(message) = record.message else { return };
        let (Some(usage), false) = (message.usage, message.model.as_deref() == Some(NO_MODEL)) else {
            return;
        };
        match message.id {
            Some(id) => {
                self.by_message.insert(id.into(), usage);
            }
            None => self.nameless.push(usage),
        }
    }

    /// `None` when no usage was ever recorded.
    pub(super) fn total(self) -> Option<Tokens> {
        let mut all = self.by_message.into_values().chain(self.nameless).peekable();
        all.peek()?;
        let sum = all.fold(Usage::default(), |sum, one| Usage {
            input_tokens: sum.input_tokens.saturating_add(one.input_tokens),
            output_tokens: sum.output_tokens.saturating_add(one.output_tokens),
            cache_read_input_tokens: sum.cache_read_input_tokens.saturating_add(one.cache_read_input_tokens),
            cache_creation_input_tokens: sum
                .cache_creation_input_tokens
                .saturating_add(one.cache_creation_input_tokens),
        });
        Some(Tokens {
            input: Some(sum.input_tokens),
            output: Some(sum.output_tokens),
            cache_read: Some(sum.cache_read_input_tokens),
            cache_write: Some(sum.cache_creation_input_tokens),
        })
    }
}

/// The message id where a record begins exactly as the agent writes it; any other spelling is parsed.
fn message_id(line: &[u8]) -> Option<&str> {
    let beginning = &line[..line.len().min(200)];
    let key = b",\"message\":{\"id\":\"";
    let at = memchr::memmem::find(beginning, key)? + key.len();
    let id = &beginning[at..];
    std::str::from_utf8(&id[..memchr::memchr(b'"', id)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lines_of_one_message_count_once_and_errors_not_at_all() {
        let mut sum = UsageSum::default();
        let reply = br#"{"type":"assistant","message":{"id":"m1","model":"x","usage":{"input_tokens":10,"output_tokens":3}}}"#;
        let spaced = br#"{ "type" : "assistant", "message" : {"id":"m2","model":"x", "usage" : {"input_tokens" : 1}}}"#;
        let error = br#"{"type":"assistant","message":{"id":"m3","model":"<synthetic>","usage":{"input_tokens":99}}}"#;
        let other =
            br#"{"type":"assistant","isSidechain":true,"message":{"id":"m4","usage":{"input_tokens":99}}}"#;
        let block = br#"{"parentUuid":"p","isSidechain":false,"message":{"id":"m1","usage":{"input_tokens":10}},"type":"assistant"}"#;
        assert_eq!(message_id(block), Some("m1"));
        for line in [&reply[..], reply, block, spaced, error, other] {
            sum.line(line, false);
        }
        let tokens = sum.total().unwrap();
        assert_eq!((tokens.input, tokens.output), (Some(11), Some(3)));
        assert_eq!(UsageSum::default().total(), None);
    }
}
