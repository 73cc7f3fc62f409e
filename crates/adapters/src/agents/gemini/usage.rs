//! Token totals: the usage of every reply counts once, from the records as they were first written. Pure.
//!
//! The replayed conversation would lose some usage, because resuming a session rewrites it without its
//! tokens.

use agentctl_model::Tokens;
use jiff::Timestamp;
use serde::Deserialize;

use super::records::{Record, Usage};
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

/// The usage of replies by their id.
#[derive(Default)]
pub(super) struct UsageSum(Calls);

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
            timestamp: Option<Text<'a>>,
            model: Option<Text<'a>>,
            tokens: Option<Usage>,
        }
        // A message that is written again has the same figures.
        if beginning_id(line).is_some_and(|id| self.0.has(id)) {
            return;
        }
        match quick::from_slice::<Reply<'_>>(line) {
            Ok(reply) => {
                let at = reply.timestamp.as_deref().and_then(time);
                self.add(&reply.id, &reply.kind, (at, reply.model.as_deref()), reply.tokens);
            }
            // An older document is one header that contains everything.
            Err(_) => {
                if let Some(Record::Header(header)) = Record::parse(line) {
                    for message in header.messages {
                        let at = message.timestamp.as_deref().and_then(time);
                        self.add(&message.id, &message.kind, (at, message.model.as_deref()), message.tokens);
                    }
                }
            }
        }
    }

    fn counted(self, _: bool) -> Counted {
        self.0.counted()
    }
}

impl UsageSum {
    fn add(
        &mut self,
        id: &str,
        kind: &str,
        (at, model): (Option<Timestamp>, Option<&str>),
        usage: Option<Usage>,
    ) {
        if let (Some(usage), "gemini") = (usage, kind) {
            // The input figure includes what was read from a cache; there is none for what was written to one.
            let tokens = Tokens {
                input: Some(usage.input.saturating_sub(usage.cached)),
                output: Some(usage.output),
                cache_read: Some(usage.cached),
                cache_write: None,
            };
            self.0.add(Some(id), Recorded { at, model, tokens, ..Recorded::default() });
        }
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
        assert_eq!(sum.counted(false).tokens, Some(expected));
        assert_eq!(UsageSum::default().counted(false).tokens, None);
    }
}
