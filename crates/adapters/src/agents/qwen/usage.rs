//! Token totals: the usage of every reply counts once. Pure.

use agentctl_model::Tokens;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;
use crate::transcript::memory::Counted;
use crate::transcript::read::{Calls, Recorded, Sum};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    uuid: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    model: Option<Text<'a>>,
    forked_from: Option<IgnoredAny>,
    usage_metadata: Option<Usage>,
}

#[expect(clippy::struct_field_names, reason = "the agent's own names")]
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
}

/// Sums the usage of replies. Telemetry repeats it and adds side calls, so it is not counted; copies from a
/// forked session belong to the parent.
#[derive(Default)]
pub(super) struct UsageSum(Calls);

impl Sum for UsageSum {
    fn marks(&self) -> &'static [&'static str] {
        &["\"usageMetadata\""]
    }

    fn line(&mut self, line: &[u8], _: usize) {
        let Ok(record) = quick::from_slice::<Record<'_>>(line) else { return };
        let Some(usage) = record.usage_metadata else { return };
        if record.kind != "assistant" || record.forked_from.is_some() {
            return;
        }
        // The input figure includes what was read from a cache; there is none for what was written to one.
        let cached = usage.cached_content_token_count.unwrap_or(0);
        let tokens = Tokens {
            input: Some(usage.prompt_token_count.unwrap_or(0).saturating_sub(cached)),
            output: Some(usage.candidates_token_count.unwrap_or(0)),
            cache_read: Some(cached),
            cache_write: None,
        };
        let at = record.timestamp.as_deref().and_then(time);
        let call = Recorded { at, model: record.model.as_deref(), tokens, ..Recorded::default() };
        self.0.add(record.uuid.as_deref(), call);
    }

    fn counted(self, _: bool) -> Counted {
        self.0.counted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_count_once_and_copies_not_at_all() {
        let reply = |uuid: &str, more: &str| {
            format!(
                r#"{{"uuid":"{uuid}","type":"assistant"{more},"usageMetadata":{{"promptTokenCount":101,"candidatesTokenCount":23,"cachedContentTokenCount":11}}}}"#
            )
        };
        let copied = reply("c", r#","forkedFrom":{"sessionId":"p"}"#);
        let mut sum = UsageSum::default();
        for line in [reply("a", ""), reply("a", ""), reply("b", ""), copied] {
            sum.line(line.as_bytes(), 0);
        }
        let expected = Tokens { input: Some(180), output: Some(46), cache_read: Some(22), cache_write: None };
        assert_eq!(sum.counted(false).tokens, Some(expected));
        assert_eq!(UsageSum::default().counted(false).tokens, None);
    }
}
