//! The records of a Qwen Code transcript. Only the fields in use are declared, and all are optional. Pure.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::call;
use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;

/// One line of a transcript.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) subtype: Option<Text<'a>>,
    timestamp: Option<Text<'a>>,
    pub(super) session_id: Option<Text<'a>>,
    pub(super) cwd: Option<Text<'a>>,
    pub(super) git_branch: Option<Text<'a>>,
    pub(super) version: Option<Text<'a>>,
    pub(super) model: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Message<'a>,
    #[serde(deserialize_with = "lenient")]
    pub(super) system_payload: Payload<'a>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_call_result: ToolCallResult<'a>,
    /// Set in a record that was copied from the forked session.
    #[serde(deserialize_with = "lenient")]
    pub(super) forked_from: Option<ForkedFrom<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) parts: Vec<Part<'a>>,
}

/// One part of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    /// The text is the model's thought, not part of its reply.
    #[serde(deserialize_with = "lenient")]
    thought: bool,
    pub(super) function_call: Option<FunctionCall<'a>>,
    pub(super) function_response: Option<FunctionResponse<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionCall<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) args: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionResponse<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) response: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ToolCallResult<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ForkedFrom<'a> {
    #[serde(borrow)]
    pub(super) session_id: Option<Text<'a>>,
}

/// The payloads of all system records in one struct, because their field names do not collide.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Payload<'a> {
    #[serde(borrow, deserialize_with = "lenient")]
    pub(super) ui_event: Event<'a>,
    pub(super) custom_title: Option<Text<'a>>,
    pub(super) parent_session_id: Option<Text<'a>>,
    /// What a person typed, where the message contains more than that.
    pub(super) display_text: Option<Text<'a>>,
    /// How a turn ended: completed, cancelled, error.
    pub(super) state: Option<Text<'a>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Failure<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "event.name")]
    pub(super) name: Option<Text<'a>>,
    prompt_id: Option<Text<'a>>,
    pub(super) error_message: Option<Text<'a>>,
    pub(super) status_code: Option<&'a RawValue>,
}

impl Event<'_> {
    /// Whether the event belongs to the conversation: in the prompt ids of the agent's side calls, a word
    /// separates the two groups of hash signs.
    pub(super) fn is_main(&self) -> bool {
        self.prompt_id.as_deref().is_none_or(|id| id.contains("########"))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failure<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        quick::from_slice(line).ok().filter(|record: &Self| !record.kind.is_empty())
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        self.timestamp.as_deref().and_then(time)
    }

    pub(super) fn branch(&self) -> Option<&str> {
        self.git_branch.as_deref().filter(|branch| !branch.is_empty() && *branch != "HEAD")
    }

    /// A person's prompt. Notifications and timers are also written in the user's name, but are not prompts.
    pub(super) fn prompt(&self) -> Option<String> {
        let typed =
            matches!(self.subtype.as_deref(), None | Some("mid_turn_user_message" | "realtime_message"));
        if self.kind != "user" || !typed {
            return None;
        }
        let shown = self.system_payload.display_text.as_deref().map(str::to_owned);
        shown.or_else(|| self.text()).filter(|text| !text.trim().is_empty())
    }

    /// The joined texts of a message, without thoughts.
    pub(super) fn text(&self) -> Option<String> {
        let spoken = self.message.parts.iter().filter(|part| !part.thought);
        let texts: Vec<&str> = spoken.filter_map(|part| part.text.as_deref()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// The last tool that the agent calls in this record.
    pub(super) fn call(&self) -> Option<&FunctionCall<'a>> {
        self.message.parts.iter().rev().find_map(|part| part.function_call.as_ref())
    }
}

impl FunctionCall<'_> {
    /// Describes the call briefly, such as `run_shell_command: make test`.
    pub(super) fn words(&self) -> String {
        let name = self.name.as_deref().unwrap_or("tool");
        let args: serde_json::Value =
            self.args.and_then(|args| quick::from_str(args.get()).ok()).unwrap_or_default();
        let keys = ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
        call::words(name, &call::argument(&args, &keys).unwrap_or_default())
    }
}

/// The tool with which the agent asks a person.
pub(super) const ASKS_A_PERSON: &str = "ask_user_question";

/// Record types that this adapter knows; others are counted as drift.
pub(super) const KNOWN_TYPES: [&str; 4] = ["user", "assistant", "tool_result", "system"];
