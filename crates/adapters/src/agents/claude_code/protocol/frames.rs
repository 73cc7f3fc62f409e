//! The frames that Claude Code writes, as far as they are used. All others are skipped.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) enum Frame {
    Lifecycle(Lifecycle),
    System(System),
    User(User),
    Result(Outcome),
    Asks(Asks),
    Responds(Response),
    Withdraws(String),
}

/// Where one of our messages is in the agent's queue.
#[derive(Deserialize)]
pub(super) struct Lifecycle {
    pub command_uuid: String,
    pub state: String,
}

#[derive(Deserialize)]
pub(super) struct System {
    pub subtype: String,
    pub state: Option<String>,
    pub session_id: Option<String>,
}

/// A message that the agent repeats, or the results of its tools.
#[derive(Deserialize)]
pub(super) struct User {
    pub uuid: Option<String>,
    #[serde(default, rename = "isReplay")]
    pub is_replay: bool,
    #[serde(default)]
    message: Value,
}

impl User {
    /// The calls whose results this message brings.
    pub(super) fn finished_calls(&self) -> impl Iterator<Item = &str> {
        let blocks = self.message.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .filter_map(|block| block["tool_use_id"].as_str())
    }
}

/// How a turn ended.
#[derive(Deserialize)]
pub(super) struct Outcome {
    #[serde(default)]
    pub is_error: bool,
    pub subtype: Option<String>,
    pub terminal_reason: Option<String>,
    pub result: Option<String>,
    #[serde(default)]
    pub errors: Vec<Value>,
    #[serde(default)]
    pub user_message_uuids: Vec<String>,
}

/// A request of the agent.
#[derive(Deserialize)]
pub(super) struct Asks {
    pub request_id: String,
    #[serde(default)]
    pub request: Value,
}

/// The agent's response to our request, or its echo of ours to its own.
#[derive(Deserialize)]
pub(super) struct Response {
    pub subtype: Option<String>,
    pub request_id: String,
    #[serde(default, rename = "response")]
    pub content: Value,
    pub error: Option<String>,
}

impl Frame {
    /// Reads one line. What is no JSON, of an unknown type or of an unknown shape says nothing.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Responds {
            response: Response,
        }
        #[derive(Deserialize)]
        struct Withdraws {
            request_id: String,
        }
        fn whole<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
            serde_json::from_slice(line).ok()
        }
        let head: Head<'_> = serde_json::from_slice(line).ok()?;
        Some(match head.kind.as_ref() {
            "command_lifecycle" => Self::Lifecycle(whole(line)?),
            "system" => Self::System(whole(line)?),
            "user" => Self::User(whole(line)?),
            "result" => Self::Result(whole(line)?),
            "control_request" => Self::Asks(whole(line)?),
            "control_response" => Self::Responds(whole::<Responds>(line)?.response),
            "control_cancel_request" => Self::Withdraws(whole::<Withdraws>(line)?.request_id),
            _ => return None,
        })
    }
}
