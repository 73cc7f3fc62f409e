//! The records of a Gemini CLI session file. Only the fields in use are declared, and all are optional. Pure.
//!
//! A file must be replayed: `$set` replaces the conversation, `$rewindTo` takes messages back, and a message
//! that is written again keeps its first position.

use agentctl_model::text::{clean_cut, one_line};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;

/// One line of a file.
#[derive(Debug)]
pub(super) enum Record<'a> {
    /// The first line of a file, repeated by every process that opens the file again.
    Header(Header<'a>),
    Message(Message<'a>),
    Set(Set<'a>),
    RewindTo(Text<'a>),
    /// None of these.
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Header<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
    start_time: Option<Text<'a>>,
    last_updated: Option<Text<'a>>,
    pub(super) kind: Option<Text<'a>>,
    /// Set for a sub-agent that names its parent.
    #[serde(deserialize_with = "lenient")]
    pub(super) parent_session_id: Option<Text<'a>>,
    pub(super) summary: Option<Text<'a>>,
    /// Set in an older document, which is one header that contains everything.
    #[serde(deserialize_with = "lenient")]
    pub(super) messages: Vec<Message<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Set<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
    last_updated: Option<Text<'a>>,
    pub(super) summary: Option<Text<'a>>,
    /// The rewritten conversation.
    #[serde(deserialize_with = "lenient")]
    pub(super) messages: Option<Vec<Message<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    pub(super) timestamp: Option<Text<'a>>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    content: Option<&'a RawValue>,
    pub(super) model: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_calls: Vec<ToolCall<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tokens: Option<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) status: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) result_display: Option<&'a RawValue>,
}

/// The usage of one model reply. The input includes what was read from a cache.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cached: u64,
}

/// One part of a message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    /// The text is the model's thought, not part of its reply.
    #[serde(deserialize_with = "lenient")]
    thought: bool,
    function_call: Option<&'a RawValue>,
    function_response: Option<&'a RawValue>,
}

/// The keys that identify the kind of a line.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys<'a> {
    #[serde(borrow, rename = "$set")]
    set: Option<&'a RawValue>,
    #[serde(rename = "$rewindTo")]
    rewind_to: Option<Text<'a>>,
    id: Option<Text<'a>>,
    session_id: Option<Text<'a>>,
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        // This is the agent's own spelling; any other spelling is parsed twice.
        if line.starts_with(b"{\"id\":\"") {
            return quick::from_slice(line).ok().map(Self::Message);
        }
        let keys: Keys<'a> = quick::from_slice(line).ok()?;
        if let Some(id) = keys.rewind_to {
            Some(Self::RewindTo(id))
        } else if keys.id.is_some() {
            quick::from_slice(line).ok().map(Self::Message)
        } else if let Some(set) = keys.set {
            quick::from_str(set.get()).ok().map(Self::Set)
        } else if keys.session_id.is_some() {
            quick::from_slice(line).ok().map(Self::Header)
        } else {
            Some(Self::Other)
        }
    }
}

impl Header<'_> {
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.start_time.as_deref().and_then(time)
    }

    pub(super) fn updated_at(&self) -> Option<Timestamp> {
        self.last_updated.as_deref().and_then(time)
    }
}

impl Set<'_> {
    pub(super) fn updated_at(&self) -> Option<Timestamp> {
        self.last_updated.as_deref().and_then(time)
    }
}

/// The role of a message in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// A person sent a prompt.
    Prompt,
    /// A tool returned its result; the agent continues.
    ToolAnswer,
    /// The agent replied.
    Words,
    /// The agent called a tool that has not answered yet.
    Call,
    /// Every call of the message was answered.
    CallsDone,
    /// A person refused every call of the message.
    CallsRefused,
    Error,
    /// A message of the agent itself: the context of a session, or a notice.
    Nothing,
}

impl<'a> Message<'a> {
    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    /// The newest time in the message, which is written again when its tools are done.
    pub(super) fn last_at(&self) -> Option<Timestamp> {
        let calls = self.tool_calls.iter().filter_map(|call| call.timestamp.as_deref().and_then(time));
        self.at().max(calls.max())
    }

    fn parts(&self) -> Vec<Part<'a>> {
        let Some(content) = self.content else { return Vec::new() };
        let content = content.get();
        if let Ok(text) = quick::from_str::<Text<'a>>(content) {
            return vec![Part { text: Some(text), ..Part::default() }];
        }
        quick::from_str(content)
            .or_else(|_| quick::from_str(content).map(|part| vec![part]))
            .unwrap_or_default()
    }

    /// Reads the content of the message once.
    pub(super) fn content(&self) -> Content {
        let parts = self.parts();
        let spoken = parts.iter().filter(|part| !part.thought);
        let texts: Vec<&str> = spoken.filter_map(|part| part.text.as_deref()).collect();
        Content {
            text: Some(texts.concat()).filter(|text| !text.trim().is_empty()),
            calls: parts.iter().any(|part| part.function_call.is_some()),
            answers: parts.iter().any(|part| part.function_response.is_some()),
            wordless: parts.iter().any(|part| part.text.is_none()),
        }
    }

    /// The role of the message in the conversation, judged by its content.
    pub(super) fn said(&self, content: &Content) -> Said {
        match self.kind.as_ref() {
            "user" if content.answers => Said::ToolAnswer,
            "user" => match &content.text {
                Some(text) if is_context(text) => Said::Nothing,
                Some(_) => Said::Prompt,
                // A message with only an image is a prompt too.
                None if content.wordless => Said::Prompt,
                None => Said::Nothing,
            },
            "gemini" if !self.tool_calls.is_empty() => {
                let refused = |call: &ToolCall<'_>| call.status.as_deref() == Some("cancelled");
                if self.tool_calls.iter().all(refused) { Said::CallsRefused } else { Said::CallsDone }
            }
            // While a tool runs or waits for approval, the agent's message is empty.
            "gemini" if content.calls || content.text.is_none() => Said::Call,
            "gemini" => Said::Words,
            "error" => Said::Error,
            _ => Said::Nothing,
        }
    }
}

/// The content of a message.
pub(super) struct Content {
    /// Its joined texts, without thoughts.
    pub(super) text: Option<String>,
    calls: bool,
    answers: bool,
    /// Whether it has parts that are not text.
    wordless: bool,
}

/// Whether this is the context that the agent puts before a conversation in the user's name.
fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("<session_context>") || text.starts_with("<hook_context>")
}

/// The directory in the context of a session, for folders that do not name their directory.
pub(super) fn directory_in_context(message: &Message<'_>) -> Option<String> {
    let text = message
        .content()
        .text
        .filter(|text| is_context(text) || text.contains("working in the directory"))?;
    let after = |mark: &str| text.split_once(mark).map(|(_, rest)| rest);
    let named =
        after("Workspace Directories:**").and_then(|rest| rest.split_once("- ").map(|(_, rest)| rest));
    let named = named.or_else(|| after("working in the directory: "))?;
    let path = named.lines().next().unwrap_or_default().trim();
    path.starts_with('/').then(|| clean_cut(path, None))
}

impl ToolCall<'_> {
    /// Describes the call briefly, such as `run_shell_command: make test`.
    pub(super) fn words(&self) -> String {
        let name = self.name.as_deref().unwrap_or("tool");
        let args: serde_json::Value =
            self.args.and_then(|args| quick::from_str(args.get()).ok()).unwrap_or_default();
        let keys = ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
        let what = keys.iter().find_map(|key| args.get(key)?.as_str()).map(one_line);
        clean_cut(&what.map_or_else(|| name.to_owned(), |what| format!("{name}: {what}")), Some(160))
    }
}

/// Message types that this adapter knows; others are counted as drift.
pub(super) const KNOWN_TYPES: [&str; 5] = ["user", "gemini", "info", "warning", "error"];

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Said {
        match Record::parse(line.as_bytes()) {
            Some(Record::Message(message)) => message.said(&message.content()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_say_what_they_are() {
        let cases = [
            (r#"{"id":"1","type":"user","content":[{"text":"do it"}]}"#, Said::Prompt),
            (r#"{ "id":"1","type":"user","content":"do it"}"#, Said::Prompt),
            (r#"{"id":"1","type":"user","content":{"text":"do it"}}"#, Said::Prompt),
            (r#"{"id":"1","type":"user","content":[{"inlineData":{}}]}"#, Said::Prompt),
            (r#"{"id":"1","type":"user","content":[{"text":"<session_context>x"}]}"#, Said::Nothing),
            (r#"{"id":"1","type":"user","content":[{"functionResponse":{}}]}"#, Said::ToolAnswer),
            (r#"{"id":"1","type":"gemini","content":"hi","thoughts":[]}"#, Said::Words),
            (r#"{"id":"1","type":"gemini","content":"","thoughts":[]}"#, Said::Call),
            (r#"{"id":"1","type":"gemini","content":[{"functionCall":{}},{"text":"x"}]}"#, Said::Call),
            (
                r#"{"id":"1","type":"gemini","content":"","toolCalls":[{"status":"success"}]}"#,
                Said::CallsDone,
            ),
            (
                r#"{"id":"1","type":"gemini","content":"","toolCalls":[{"status":"cancelled"}]}"#,
                Said::CallsRefused,
            ),
            (r#"{"id":"1","type":"info","content":"x"}"#, Said::Nothing),
        ];
        for (line, expected) in cases {
            assert_eq!(said(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_are_told_apart_by_their_keys() {
        let parse = |line: &'static str| Record::parse(line.as_bytes());
        assert!(matches!(parse(r#"{"$rewindTo":"x"}"#), Some(Record::RewindTo(id)) if id == "x"));
        assert!(
            matches!(parse(r#"{"$set":{"messages":[{"id":"a"}]}}"#), Some(Record::Set(set)) if set.messages.as_ref().is_some_and(|all| all.len() == 1))
        );
        assert!(matches!(parse(r#"{"sessionId":"s","projectHash":"h"}"#), Some(Record::Header(_))));
        assert!(matches!(parse(r#"{"else":1}"#), Some(Record::Other)));
        assert!(parse(r#"{"id":"a","ty"#).is_none());
    }

    #[test]
    fn the_context_names_the_directory() {
        let line = r#"{"id":"1","type":"user","content":[{"text":"<session_context>\n- **Workspace Directories:**\n  - /home/dev/my work\n- **Directory"}]}"#;
        let Some(Record::Message(message)) = Record::parse(line.as_bytes()) else { panic!() };
        assert_eq!(directory_in_context(&message).as_deref(), Some("/home/dev/my work"));
    }
}
