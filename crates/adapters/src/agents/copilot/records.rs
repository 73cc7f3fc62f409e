//! The events of a Copilot session (`events.jsonl`). Only the fields in use are declared, and all are
//! optional. Pure.
//!
//! The agent ships a schema of its events (`schemas/session-events.schema.json` beside its program), from
//! which the names here are taken. Events that the schema calls ephemeral are never stored.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::call;
use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;

/// One line of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    timestamp: Option<Text<'a>>,
    /// Set for events of a sub-agent; absent for the main conversation.
    agent_id: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) data: Data<'a>,
}

/// The payloads of all event types in one struct, because their field names do not collide.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Data<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Text<'a>>,
    /// Set for a message that the agent itself wrote in the user's name (a skill, another agent).
    pub(super) source: Option<Text<'a>>,
    pub(super) is_autopilot_continuation: bool,
    pub(super) model: Option<Text<'a>>,
    pub(super) new_model: Option<Text<'a>>,
    pub(super) selected_model: Option<Text<'a>>,
    pub(super) current_model: Option<Text<'a>>,
    pub(super) copilot_version: Option<Text<'a>>,
    pub(super) start_time: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) context: Option<Context<'a>>,
    /// Set in `session.context_changed`, whose payload is the context itself.
    pub(super) cwd: Option<Text<'a>>,
    pub(super) branch: Option<Text<'a>>,
    pub(super) detached_from_spawning_parent_session_id: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_requests: Vec<ToolRequest<'a>>,
    pub(super) parent_tool_call_id: Option<Text<'a>>,
    pub(super) tool_call_id: Option<Text<'a>>,
    pub(super) tool_name: Option<Text<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) success: Option<bool>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) message: Option<Text<'a>>,
    pub(super) reason: Option<Text<'a>>,
    pub(super) request_id: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) permission_request: Option<PermissionRequest<'a>>,
    pub(super) resolved_by_hook: bool,
    pub(super) shutdown_type: Option<Text<'a>>,
    pub(super) error_reason: Option<Text<'a>>,
    pub(super) status_code: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context<'a> {
    #[serde(borrow)]
    pub(super) cwd: Option<Text<'a>>,
    pub(super) branch: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolRequest<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) arguments: Option<&'a RawValue>,
}

/// The action for which the agent requests approval; which fields are present depends on the kind.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PermissionRequest<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    full_command_text: Option<Text<'a>>,
    file_name: Option<Text<'a>>,
    path: Option<Text<'a>>,
    url: Option<Text<'a>>,
    tool_name: Option<Text<'a>>,
    intention: Option<Text<'a>>,
}

impl PermissionRequest<'_> {
    /// Describes the request, such as `shell: make test`.
    pub(super) fn words(&self) -> String {
        let what = [
            &self.full_command_text,
            &self.file_name,
            &self.path,
            &self.url,
            &self.tool_name,
            &self.intention,
        ];
        let what = what.into_iter().find_map(|words| words.as_deref()).unwrap_or_default();
        call::words(self.kind.as_deref().unwrap_or("permission"), what)
    }
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not an event.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        quick::from_slice(line).ok().filter(|record: &Self| !record.kind.is_empty())
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    /// Whether the event belongs to the main conversation, not to a sub-agent.
    pub(super) fn is_main(&self) -> bool {
        self.agent_id.is_none() && self.data.parent_tool_call_id.is_none()
    }

    /// A person's prompt. A message that the agent itself wrote in the user's name is not one.
    pub(super) fn prompt(&self) -> Option<&str> {
        let typed = self.kind == "user.message"
            && self.is_main()
            && !self.data.is_autopilot_continuation
            && self.data.source.as_deref().is_none_or(|source| source == "user");
        self.data.content.as_deref().filter(|text| typed && !text.trim().is_empty())
    }

    /// The text of the agent's message.
    pub(super) fn words(&self) -> Option<&str> {
        let spoken = self.kind == "assistant.message" && self.is_main();
        self.data.content.as_deref().filter(|text| spoken && !text.trim().is_empty())
    }

    /// The tool that was started, such as `bash: make test`.
    pub(super) fn tool_in_words(&self) -> Option<String> {
        let name = self.data.tool_name.as_deref()?;
        Some(call::words(name, &main_argument(self.data.arguments).unwrap_or_default()))
    }
}

/// The argument that describes a call best.
pub(super) fn main_argument(arguments: Option<&RawValue>) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(arguments?.get()).ok()?;
    let keys = ["command", "question", "path", "pattern", "url", "query", "description", "prompt"];
    call::argument(&arguments, &keys)
}

/// The tool with which the agent asks a person.
pub(super) const ASKS_A_PERSON: &str = "ask_user";

/// Whether the event type belongs to a family that this adapter knows; others are counted as drift.
pub(super) fn is_known(kind: &str) -> bool {
    const FAMILIES: [&str; 16] = [
        "session.",
        "assistant.",
        "user.",
        "system.",
        "tool.",
        "tool_search.",
        "external_tool.",
        "permission.",
        "subagent.",
        "hook.",
        "skill.",
        "mcp.",
        "human_response.",
        "user_input.",
        "elicitation.",
        "exit_plan_mode.",
    ];
    kind == "abort" || FAMILIES.iter().any(|family| kind.starts_with(family))
}

/// Whether a line is certainly bulk that yields no fact, judged by its exact beginning.
pub(super) fn is_certainly_bulk(line: &[u8]) -> bool {
    const BULK: [&[u8]; 3] =
        [b"{\"type\":\"system.message\"", b"{\"type\":\"session.binary_asset\"", b"{\"type\":\"hook."];
    BULK.iter().any(|beginning| line.starts_with(beginning))
}
