//! Token totals: each of this session's own model calls counts once. Pure.

use agentctl_model::Tokens;
use serde::Deserialize;

use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

/// Every accounting record contains this text; other lines need not even be split.
const MARK: &str = "session.usage_record";

/// The few fields that count; serde skips everything else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    id: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    /// Set for a sub-agent's call.
    #[serde(default, deserialize_with = "lenient")]
    agent_id: Option<Text<'a>>,
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    usage: Option<Usage<'a>>,
}

/// The usage of one model call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    accounting: Option<Accounting<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Accounting<'a> {
    #[serde(borrow)]
    source_session_id: Option<Text<'a>>,
    usage_id: Option<Text<'a>>,
}

/// Sums the accounting records. Calls of sub-agents are theirs, and calls copied from another session are not counted.
pub(super) struct UsageSum<'s> {
    session: &'s str,
    calls: Calls,
}

impl<'s> UsageSum<'s> {
    pub(super) fn new(session: &'s str) -> Self {
        Self { session, calls: Calls::default() }
    }
}

impl Sum for UsageSum<'_> {
    fn marks(&self) -> &'static [&'static str] {
        &[MARK]
    }

    fn line(&mut self, line: &[u8], _: usize) {
        // A tool result may quote the mark. In the agent's spelling, the record itself begins with it.
        if line.starts_with(b"{\"type\":\"") && !line[9..].starts_with(MARK.as_bytes()) {
            return;
        }
        let Ok(record) = quick::from_slice::<Record<'_>>(line) else { return };
        if record.kind != MARK {
            return;
        }
        let Some(usage) = &record.data.usage else { return };
        let accounting = usage.accounting.as_ref();
        let source = accounting.and_then(|accounting| accounting.source_session_id.as_deref());
        if source.is_some_and(|source| source != self.session) {
            return;
        }
        let name = accounting.and_then(|accounting| accounting.usage_id.as_deref()).or(record.id.as_deref());
        // The input figure includes what was read from and written to a cache.
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let tokens = Tokens {
            input: Some(usage.input_tokens.saturating_sub(cached)),
            output: Some(usage.output_tokens),
            cache_read: Some(usage.cache_read_tokens),
            cache_write: Some(usage.cache_write_tokens),
        };
        let at = record.timestamp.as_deref().and_then(time);
        let (model, agent) = (usage.model.as_deref(), record.agent_id.as_deref());
        self.calls.add(name, Recorded { at, model, tokens, agent, ..Recorded::default() });
    }

    fn counted(self, _: bool) -> Counted {
        self.calls.counted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &str, more: &str) -> String {
        format!(
            r#"{{"type":"session.usage_record","data":{{"usage":{{"inputTokens":101,"outputTokens":23,"cacheReadTokens":11,"cacheWriteTokens":5{more}}}}},"id":"{id}"}}"#
        )
    }

    #[test]
    fn each_call_counts_once_and_only_in_the_session_that_made_it() {
        let mut sum = UsageSum::new("me");
        let own = record("1", r#","accounting":{"sourceSessionId":"me","usageId":"u1"}"#);
        let copied = record("2", r#","accounting":{"sourceSessionId":"parent","usageId":"u0"}"#);
        let sub = record("3", "").replace(r#""id":"3""#, r#""id":"3","agentId":"a""#);
        for line in [&own, &own, &copied, &sub, &record("4", "")] {
            sum.line(line.as_bytes(), 0);
        }
        let expected =
            Tokens { input: Some(170), output: Some(46), cache_read: Some(22), cache_write: Some(10) };
        assert_eq!(sum.counted(false).tokens, Some(expected));
        assert_eq!(UsageSum::new("me").counted(false).tokens, None);
    }
}
