//! Token totals: the usage of every reply counts once, from the records as they were first written. Pure.
//!
//! The replayed conversation would lose some usage, because resuming a session rewrites it without its
//! tokens.

use std::collections::HashMap;

use agentctl_model::Tokens;
use serde::Deserialize;

use super::records::{Record, Usage};
use crate::transcript::jsonl::text::Text;
use crate::transcript::memory::Counted;
use crate::transcript::read::Sum;

/// The usage of replies by their id.
#[derive(Default)]
pub(super) struct UsageSum {
    by_reply: HashMap<String, Usage>,
}

impl Sum for UsageSum {
    fn marks(&self) -> &'static [&'static str] {
        &["\"tokens\""]
    }

    fn line(&mut self, line: &[u8], _: usize) {
        /// The few fields that count; a line with a tool result has megabytes of others.
        #[derive(Deserialize)]
        struct Reply<'a> {
            #[serde(borrow)]
            id: Text<'a>,
            #[serde(rename = "type")]
            kind: Text<'a>,
            tokens: Option<Usage>,
        }
        // A message that is written again has the same figures.
        if beginning_id(line).is_some_and(|id| self.by_reply.contains_key(id)) {
            return;
        }
        match serde_json::from_slice::<Reply<'_>>(line) {
            Ok(reply) => self.add(reply.id, &reply.kind, reply.tokens),
            // An older document is one header that contains everything.
            Err(_) => {
                if let Some(Record::Header(header)) = Record::parse(line) {
                    for message in header.messages {
                        self.add(message.id, &message.kind, message.tokens);
                    }
                }
            }
        }
    }

    fn counted(self, _: bool) -> Counted {
        Counted { tokens: self.total(), ..Counted::default() }
    }
}

impl UsageSum {
    fn add(&mut self, id: Text<'_>, kind: &str, usage: Option<Usage>) {
        if let (Some(usage), "gemini") = (usage, kind) {
            self.by_reply.insert(id.into_owned(), usage);
        }
    }

    /// Returns `None` when no usage was ever recorded. The agent has no figure for what was written to a
    /// cache.
    pub(super) fn total(&self) -> Option<Tokens> {
        if self.by_reply.is_empty() {
            return None;
        }
        let mut sum = Tokens { input: Some(0), output: Some(0), cache_read: Some(0), cache_write: None };
        let add = |slot: &mut Option<u64>, more: u64| *slot = slot.map(|total| total.saturating_add(more));
        for usage in self.by_reply.values() {
            add(&mut sum.input, usage.input.saturating_sub(usage.cached));
            add(&mut sum.output, usage.output);
            add(&mut sum.cache_read, usage.cached);
        }
        Some(sum)
    }
}

/// The id, if the message begins exactly in the agent's spelling; any other spelling is parsed.
fn beginning_id(line: &[u8]) -> Option<&str> {
    let id = line.strip_prefix(b"{\"id\":\"")?;
    std::str::from_utf8(&id[..memchr::memchr(b'"', &id[..id.len().min(100)])?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_counts_once_whatever_is_rewritten() {
        let reply = |id: &str, input: u64| {
            format!(
                r#"{{"id":"{id}","type":"gemini","content":"","tokens":{{"input":{input},"output":23,"cached":11}}}}"#
            )
        };
        let rewritten = format!(r#"{{"$set":{{"messages":[{}]}}}}"#, reply("z", 999));
        let mut sum = UsageSum::default();
        for line in [reply("a", 101), reply("a", 101), reply("b", 101), rewritten] {
            sum.line(line.as_bytes(), 0);
        }
        let document = format!(r#"{{"sessionId":"s","messages":[{}]}}"#, reply("b", 101));
        sum.line(document.as_bytes(), 0);
        let expected = Tokens { input: Some(180), output: Some(46), cache_read: Some(22), cache_write: None };
        assert_eq!(sum.total(), Some(expected));
        assert_eq!(UsageSum::default().total(), None);
    }
}
