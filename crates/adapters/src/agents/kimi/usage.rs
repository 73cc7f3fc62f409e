//! Token totals: each of this session's own model calls by the main agent counts once. Pure.

use agentctl_model::Tokens;
use jiff::Timestamp;
use serde::Deserialize;

use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

/// The few fields that count; serde skips everything else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    agent_id: Option<Text<'a>>,
    model: Option<Text<'a>>,
    /// Milliseconds since 1970.
    time: Option<i64>,
    usage: Option<Usage>,
}

/// The usage of one model call. The input is the part that no cache supplied.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    input_other: Option<u64>,
    output: Option<u64>,
    input_cache_read: Option<u64>,
    input_cache_creation: Option<u64>,
}

/// Sums the accounting records. What other agents of the session did is theirs.
#[derive(Default)]
pub(super) struct UsageSum(Calls);

impl Sum for UsageSum {
    /// The text with which an accounting record begins, and the text that ends the copied part of a fork.
    fn marks(&self) -> &'static [&'static str] {
        &["\"usage.record\"", "\"forked\""]
    }

    fn line(&mut self, line: &[u8], _: usize) {
        let Ok(record) = quick::from_slice::<Record<'_>>(line) else { return };
        let agent = record.agent_id.as_deref().filter(|agent| *agent != "main");
        match (record.kind.as_ref(), record.usage) {
            ("usage.record", Some(usage)) => {
                let one = Tokens {
                    input: usage.input_other,
                    output: usage.output,
                    cache_read: usage.input_cache_read,
                    cache_write: usage.input_cache_creation,
                };
                let at = record.time.and_then(|time| Timestamp::from_millisecond(time).ok());
                let model = record.model.as_deref();
                self.0.add(None, Recorded { at, model, tokens: one, agent, ..Recorded::default() });
            }
            // Everything before this belongs to another session.
            ("forked", _) if agent.is_none() => self.0.clear(),
            _ => {}
        }
    }

    fn counted(self, _: bool) -> Counted {
        self.0.counted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_and_a_fork_begins_anew() {
        let call = |agent: &str| {
            let usage = r#"{"inputOther":105,"output":10,"inputCacheRead":20,"inputCacheCreation":0}"#;
            format!(r#"{{"type":"usage.record","agentId":"{agent}","model":"m","usage":{usage}}}"#)
        };
        let forked = r#"{"type":"forked","agentId":"main","time":1}"#.to_owned();
        let total = |lines: &[&String]| {
            let mut sum = UsageSum::default();
            for line in lines {
                sum.line(line.as_bytes(), 0);
            }
            sum.counted(false).tokens
        };
        let (main, sub) = (call("main"), call("agent-0"));
        let two = Tokens { input: Some(210), output: Some(20), cache_read: Some(40), cache_write: Some(0) };
        assert_eq!(total(&[&main, &sub, &main]), Some(two));
        assert_eq!(total(&[&main, &main, &forked]), None);
        assert_eq!(total(&[&main, &forked, &main, &main]), Some(two));
        // The text of a tool is not a record.
        assert_eq!(total(&[&r#"{"type":"x","text":"\"usage.record\""}"#.to_owned()]), None);
    }
}
