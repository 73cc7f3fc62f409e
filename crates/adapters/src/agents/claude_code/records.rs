//! The records of a Claude Code transcript. Only the fields in use are declared, and all are optional. Pure.

use agentctl_model::Limit;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;

/// One line of a transcript.
#[expect(clippy::struct_excessive_bools, reason = "the agent's own flags")]
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) subtype: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    pub(super) cwd: Option<Text<'a>>,
    pub(super) git_branch: Option<Text<'a>>,
    pub(super) version: Option<Text<'a>>,
    pub(super) session_id: Option<Text<'a>>,
    pub(super) is_sidechain: bool,
    pub(super) is_meta: bool,
    pub(super) is_compact_summary: bool,
    pub(super) is_api_error_message: bool,
    /// Of an error: the HTTP status with which the provider refused.
    api_error_status: Option<&'a RawValue>,
    /// Of an error: the quota of the user's plan that is used up.
    quota_limits: Option<&'a RawValue>,
    pub(super) is_aborted_mid_stream: bool,
    /// Where a copied record came from: the record belongs to the session that was forked.
    pub(super) forked_from: Option<&'a RawValue>,
    pub(super) message: Option<Message<'a>>,
    /// Set on records of queued prompts.
    pub(super) operation: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) custom_title: Option<Text<'a>>,
    pub(super) ai_title: Option<Text<'a>>,
    #[serde(rename = "totalCostUSD")]
    pub(super) total_cost_usd: Option<f64>,
    pub(super) has_unknown_model_cost: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    pub(super) stop_reason: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
}

/// The usage of one model reply.
#[expect(clippy::struct_field_names, reason = "the agent's own names")]
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
}

/// One block of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) text: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    pub(super) id: Option<Text<'a>>,
    pub(super) tool_use_id: Option<Text<'a>>,
}

/// The HTTP status of a quota that is used up.
const TOO_MANY_REQUESTS: &str = "429";

/// The placeholder that the agent writes as the model when no model replied.
pub(super) const NO_MODEL: &str = "<synthetic>";

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        quick::from_slice(line).ok()
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    /// The quota for which the provider refused. Only that of a plan says when it is free again.
    pub(super) fn limit(&self) -> Option<Limit> {
        #[derive(Deserialize)]
        struct Quota {
            #[serde(rename = "resetsAt")]
            resets_at: Option<i64>,
        }
        let status = self.api_error_status.map(RawValue::get);
        let is_refused = self.is_api_error_message && status == Some(TOO_MANY_REQUESTS);
        let quota = self.quota_limits.and_then(|raw| quick::from_str::<Quota>(raw.get()).ok());
        let until = quota.and_then(|quota| Timestamp::from_second(quota.resets_at?).ok());
        is_refused.then_some(Limit { until })
    }

    /// The git branch. The agent writes `HEAD` when there is none.
    pub(super) fn branch(&self) -> Option<&str> {
        self.git_branch.as_deref().filter(|branch| !branch.is_empty() && *branch != "HEAD")
    }

    /// What a person typed, without the context that the editor or the agent adds to it.
    pub(super) fn typed(&self) -> Option<String> {
        let blocks = self.blocks();
        let texts: Vec<&str> = typed_texts(&blocks).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Whether the agent wrote this message itself to fill a gap in the conversation, without a model.
    pub(super) fn is_filler(&self) -> bool {
        let model = self.message.as_ref().and_then(|message| message.model.as_deref());
        self.kind == "assistant" && model == Some(NO_MODEL) && !self.is_api_error_message
    }

    /// The joined text blocks of a user's or the agent's message.
    pub(super) fn text(&self) -> Option<String> {
        self.message.as_ref().and_then(|message| message.content).and_then(text_of)
    }

    /// The blocks of a message; a plain string is one text block.
    pub(super) fn blocks(&self) -> Vec<Block<'a>> {
        let Some(content) = self.message.as_ref().and_then(|message| message.content) else {
            return Vec::new();
        };
        if let Ok(text) = quick::from_str::<Text<'_>>(content.get()) {
            return vec![Block { kind: "text".into(), text: Some(text), ..Block::default() }];
        }
        quick::from_str(content.get()).unwrap_or_default()
    }
}

/// The text of a `content` value: a string, or a list of blocks.
pub(super) fn text_of(content: &RawValue) -> Option<String> {
    if let Ok(text) = quick::from_str::<String>(content.get()) {
        return Some(text);
    }
    let blocks: Vec<Block<'_>> = quick::from_str(content.get()).ok()?;
    let texts: Vec<&str> = blocks
        .iter()
        .filter(|block| block.kind == "text")
        .filter_map(|block| block.text.as_deref())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn typed_texts<'b>(blocks: &'b [Block<'_>]) -> impl Iterator<Item = &'b str> {
    let texts = blocks.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
    texts.filter(|text| !is_synthetic(text))
}

/// Whether the agent itself wrote this text in the user's name: commands, notifications, reminders.
pub(super) fn is_synthetic(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// Whether this is the text that the agent writes when a person interrupts it.
pub(super) fn is_interruption(text: &str) -> bool {
    text.starts_with("[Request interrupted by user")
}

/// What one record means for the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// A person sent a prompt.
    Prompt,
    /// A tool returned its result; the agent continues.
    ToolResult,
    /// The agent replied and continues (it called a tool, or its message has no end yet).
    AgentGoesOn,
    /// The agent replied and its turn is over.
    AgentEnded,
    /// The agent recorded an error as its last message.
    Error,
    Interrupted,
    /// The record that closes the turn.
    TurnClosed,
    /// The record does not concern the turn.
    Nothing,
}

/// Classifies a record. Records of sub-agents, of the agent's own bookkeeping and of compaction do not
/// concern the turn.
pub(super) fn said(record: &Record<'_>, own_sidechain: bool) -> Said {
    if record.is_sidechain != own_sidechain || record.is_meta || record.is_compact_summary {
        return Said::Nothing;
    }
    match record.kind.as_ref() {
        "assistant" if record.is_api_error_message => Said::Error,
        "assistant" if record.is_filler() => Said::Nothing,
        "assistant" if record.is_aborted_mid_stream => Said::Interrupted,
        "assistant" => match record.message.as_ref().and_then(|message| message.stop_reason.as_deref()) {
            Some("end_turn" | "stop_sequence" | "max_tokens" | "refusal") => Said::AgentEnded,
            _ => Said::AgentGoesOn,
        },
        "user" => said_by_user(record),
        "system" => match record.subtype.as_deref() {
            Some("turn_duration" | "stop_hook_summary") => Said::TurnClosed,
            _ => Said::Nothing,
        },
        _ => Said::Nothing,
    }
}

/// Classifies a record in the user's name: a prompt, a tool result, an interruption, or a note by the agent
/// itself.
fn said_by_user(record: &Record<'_>) -> Said {
    let blocks = record.blocks();
    let has = |kind: &str| blocks.iter().any(|block| block.kind == kind);
    match typed_texts(&blocks).next() {
        Some(text) if is_interruption(text) => Said::Interrupted,
        None if has("tool_result") => Said::ToolResult,
        None if has("text") || blocks.is_empty() => Said::Nothing,
        // A message with only an image is a prompt too.
        Some(_) | None => Said::Prompt,
    }
}

/// Record types that this adapter knows; others are counted as drift.
pub(super) const KNOWN_TYPES: [&str; 22] = [
    "user",
    "assistant",
    "system",
    "attachment",
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "queue-operation",
    "cost-state",
    "custom-title",
    "ai-title",
    "agent-name",
    "last-prompt",
    "mode",
    "permission-mode",
    "tools-used",
    "file-history-snapshot",
    "atis-latch",
    "summary",
    "progress",
    "pr-link",
    "tag",
];

/// Whether a line is certainly bulk that yields no fact. Only the exact beginning of the line decides, so a
/// record with another spelling is parsed slowly and never lost.
pub(super) fn is_certainly_bulk(line: &[u8]) -> bool {
    const BULK: [&[u8]; 5] = [
        b"{\"type\":\"api-request",
        b"{\"type\":\"atis-latch\"",
        b"{\"type\":\"tools-used\"",
        b"{\"type\":\"file-history-snapshot\"",
        b"{\"type\":\"last-prompt\"",
    ];
    if BULK.iter().any(|beginning| line.starts_with(beginning)) {
        return true;
    }
    let Some(rest) = line.strip_prefix(b"{\"parentUuid\":") else { return false };
    let rest = &rest[..rest.len().min(120)];
    memchr::memchr(b',', rest)
        .map(|comma| &rest[comma + 1..])
        .and_then(|rest| rest.strip_prefix(b"\"isSidechain\":"))
        .and_then(|rest| memchr::memchr(b',', rest).map(|comma| &rest[comma + 1..]))
        .is_some_and(|rest| rest.starts_with(b"\"attachment\":{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(line: &str) -> Said {
        said(&Record::parse(line.as_bytes()).unwrap(), false)
    }

    #[test]
    fn records_speak_for_the_turn() {
        let cases = [
            (r#"{"type":"user","message":{"content":"fix it"}}"#, Said::Prompt),
            (r#"{"type":"user","message":{"content":[{"type":"text","text":"fix"}]}}"#, Said::Prompt),
            (r#"{"type":"user","message":{"content":"<task-notification>x"}}"#, Said::Nothing),
            (
                r#"{"type":"user","message":{"content":[{"type":"text","text":"<ide_opened_file>x"},{"type":"text","text":"fix"}]}}"#,
                Said::Prompt,
            ),
            (r#"{"type":"user","isMeta":true,"message":{"content":"x"}}"#, Said::Nothing),
            (r#"{"type":"user","isSidechain":true,"message":{"content":"x"}}"#, Said::Nothing),
            (r#"{"type":"user","isCompactSummary":true,"message":{"content":"x"}}"#, Said::Nothing),
            (
                r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"hi"}]}}"#,
                Said::ToolResult,
            ),
            (
                r#"{"type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#,
                Said::Interrupted,
            ),
            (r#"{"message":{"stop_reason":"end_turn"},"type":"assistant"}"#, Said::AgentEnded),
            (r#"{"message":{"stop_reason":"tool_use"},"type":"assistant"}"#, Said::AgentGoesOn),
            (r#"{"message":{"stop_reason":null},"type":"assistant"}"#, Said::AgentGoesOn),
            (
                r#"{"type":"assistant","isApiErrorMessage":true,"message":{"stop_reason":"stop_sequence"}}"#,
                Said::Error,
            ),
            (r#"{"type":"assistant","isAbortedMidStream":true,"message":{}}"#, Said::Interrupted),
            (
                r#"{"type":"assistant","message":{"model":"<synthetic>","stop_reason":"stop_sequence"}}"#,
                Said::Nothing,
            ),
            (r#"{"type":"system","subtype":"api_error"}"#, Said::Nothing),
            (r#"{"type":"system","subtype":"turn_duration"}"#, Said::TurnClosed),
            (r#"{"type":"something-new"}"#, Said::Nothing),
        ];
        for (line, expected) in cases {
            assert_eq!(verdict(line), expected, "{line}");
        }
    }

    #[test]
    fn only_exact_beginnings_are_bulk() {
        assert!(is_certainly_bulk(br#"{"type":"api-request-shape","x":1}"#));
        assert!(is_certainly_bulk(br#"{"parentUuid":"a-b","isSidechain":false,"attachment":{"type":"x"}}"#));
        assert!(is_certainly_bulk(br#"{"parentUuid":null,"isSidechain":true,"attachment":{"type":"x"}}"#));
        assert!(!is_certainly_bulk(br#"{ "type":"api-request"}"#), "another spelling is parsed");
        assert!(!is_certainly_bulk(br#"{"parentUuid":"a","isSidechain":false,"message":{"attachment":{}}}"#));
        assert!(!is_certainly_bulk(br#"{"parentUuid""#));
    }
}
