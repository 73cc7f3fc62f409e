//! The records of one agent of a session (`agents/main/wire.jsonl`). Only the fields in use are declared, and
//! all are optional. Pure.
//!
//! One line is one event of the agent's core. A turn begins with `turn.prompt` and ends with `turn.ended`;
//! the events in between are `context.append_loop_event`s and `interaction.*`. The `agent.*` events repeat
//! the same later and with earlier times.

use agentctl_model::text::visible;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::state::moment;
use crate::transcript::call;
use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;

/// One line of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    time: Option<i64>,
    /// Set in the first record only.
    #[serde(rename = "created_at")]
    created_at: Option<i64>,
    agent_id: Option<Text<'a>>,
    /// The prompt, in `turn.prompt`.
    #[serde(deserialize_with = "lenient")]
    input: Vec<Part<'a>>,
    #[serde(deserialize_with = "lenient")]
    origin: Origin<'a>,
    #[serde(deserialize_with = "lenient")]
    message: Message<'a>,
    #[serde(deserialize_with = "lenient")]
    pub(super) event: LoopEvent<'a>,
    /// How a turn or a prompt ended.
    #[serde(deserialize_with = "lenient")]
    pub(super) reason: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    error: Failure<'a>,
    /// The id and the kind of an interaction.
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<Text<'a>>,
    #[serde(rename = "kind", deserialize_with = "lenient")]
    pub(super) what: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    request: Request<'a>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    environment_disclosure: Surroundings<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Origin<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    role: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    content: Vec<Part<'a>>,
    #[serde(deserialize_with = "lenient")]
    origin: Origin<'a>,
}

/// A part of a message: text, thoughts, a picture.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
}

/// An event within a turn.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LoopEvent<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(deserialize_with = "lenient")]
    part: Part<'a>,
    pub(super) tool_call_id: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) args: Option<&'a RawValue>,
    #[serde(deserialize_with = "lenient")]
    pub(super) result: ToolResult<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ToolResult<'a> {
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure<'a> {
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

/// A request to a person: approval of a tool, or questions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request<'a> {
    #[serde(borrow)]
    tool_name: Option<Text<'a>>,
    action: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    display: Display<'a>,
    #[serde(deserialize_with = "lenient")]
    questions: Vec<Question<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Display<'a> {
    #[serde(borrow)]
    command: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Question<'a> {
    #[serde(borrow)]
    question: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Surroundings<'a> {
    #[serde(borrow)]
    cwd: Option<Text<'a>>,
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        quick::from_slice(line).ok().filter(|record: &Self| !record.kind.is_empty())
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        moment(self.time.or(self.created_at)?)
    }

    /// Whether the record is the main agent's own. Sub-agents have files of their own.
    pub(super) fn is_main(&self) -> bool {
        self.agent_id.as_deref().is_none_or(|agent| agent == "main")
    }

    /// A person's prompt. A message that the agent itself wrote in the user's name is not one.
    pub(super) fn prompt(&self) -> Option<String> {
        let typed = self.kind == "turn.prompt" && is_typed(&self.origin) && self.is_main();
        typed.then(|| words_of(&self.input)).flatten()
    }

    /// A person's prompt, or a message that a person added to a running turn.
    pub(super) fn typed(&self) -> Option<String> {
        let message = &self.message;
        let typed = self.kind == "context.append_message"
            && message.role.as_deref() == Some("user")
            && is_typed(&message.origin)
            && self.is_main();
        typed.then(|| words_of(&message.content)).flatten()
    }

    /// The text of the agent's reply, without its thoughts.
    pub(super) fn words(&self) -> Option<&str> {
        let spoken = self.event.kind == "content.part" && self.is_main();
        self.event.part.words().filter(|_| spoken)
    }

    /// Why the turn failed.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.message.as_deref().filter(|words| !words.trim().is_empty())
    }

    /// The working directory as the agent was given it.
    pub(super) fn cwd(&self) -> Option<&str> {
        self.environment_disclosure.cwd.as_deref().filter(|cwd| !cwd.is_empty())
    }

    /// Describes the request to a person, such as `Bash: make test`, or the questions.
    pub(super) fn request_in_words(&self) -> Option<String> {
        let request = &self.request;
        let questions: Vec<&str> =
            request.questions.iter().filter_map(|one| one.question.as_deref()).collect();
        if !questions.is_empty() {
            return Some(visible(&questions.join("\n")));
        }
        let what = request.display.command.as_deref().or(request.action.as_deref()).unwrap_or_default();
        match request.tool_name.as_deref() {
            Some(tool) => Some(call::words(tool, what)),
            None => Some(visible(what)).filter(|words| !words.is_empty()),
        }
    }
}

impl LoopEvent<'_> {
    /// The tool that was called.
    pub(super) fn call_in_words(&self) -> Option<String> {
        Some(call::words(self.name.as_deref()?, &main_argument(self.args).unwrap_or_default()))
    }
}

impl Part<'_> {
    fn words(&self) -> Option<&str> {
        let is_text = self.kind.as_deref() == Some("text");
        self.text.as_deref().filter(|text| is_text && !text.trim().is_empty())
    }
}

fn is_typed(origin: &Origin<'_>) -> bool {
    origin.kind.as_deref() == Some("user")
}

fn words_of(parts: &[Part<'_>]) -> Option<String> {
    let words: Vec<&str> = parts.iter().filter_map(Part::words).collect();
    (!words.is_empty()).then(|| words.join("\n"))
}

/// The argument that describes a call best.
fn main_argument(arguments: Option<&RawValue>) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(arguments?.get()).ok()?;
    let keys = ["command", "path", "pattern", "url", "query", "description", "prompt"];
    call::argument(&arguments, &keys)
}

/// Whether the record type belongs to a family that this adapter knows; others are counted as drift.
pub(super) fn is_known(kind: &str) -> bool {
    const FAMILIES: [&str; 34] = [
        "agent",
        "assistant",
        "compaction",
        "config",
        "context",
        "cron",
        "error",
        "event",
        "file_history",
        "forked",
        "full_compaction",
        "goal",
        "hook",
        "interaction",
        "llm",
        "mcp",
        "metadata",
        "permission",
        "plan",
        "plan_mode",
        "plugin",
        "plugin_command",
        "profile",
        "prompt",
        "runtime",
        "session",
        "shell",
        "skill",
        "subagent",
        "swarm_mode",
        "task",
        "token_counting",
        "turn",
        "usage",
    ];
    const MORE: [&str; 5] = ["thinking", "tool", "tools", "tower", "warning"];
    let family = kind.split('.').next().unwrap_or(kind);
    FAMILIES.contains(&family) || MORE.contains(&family)
}

/// Whether a line is certainly bulk that yields no fact, judged by its exact beginning.
pub(super) fn is_certainly_bulk(line: &[u8]) -> bool {
    line.starts_with(b"{\"type\":\"llm.tools_snapshot\"")
}
