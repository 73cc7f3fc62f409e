//! The messages of ACP, version 1: JSON-RPC, one object on a line. Only what is used is named, all of it optional.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(super) const VERSION: u64 = 1;

/// The method does not exist.
pub(super) const NO_METHOD: i64 = -32601;
pub(super) const BAD_PARAMS: i64 = -32602;
/// The request was cancelled by the side that made it.
pub(super) const CANCELLED: i64 = -32800;

/// One line, as far as it must be read to know what it is.
#[derive(Debug, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(default, borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    pub(super) params: Option<&'a RawValue>,
    /// `null` is a result too.
    #[serde(default, borrow, deserialize_with = "present")]
    pub(super) result: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "any_error")]
    pub(super) error: Option<RpcError>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// An error ends a turn whatever it looks like.
fn any_error<'de, D: Deserializer<'de>>(value: D) -> Result<Option<RpcError>, D::Error> {
    let error = Option::<Value>::deserialize(value)?;
    Ok(error.map(|error| {
        let words = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        let other = RpcError { code: 0, message: Some(words), data: None };
        serde_json::from_value(error).unwrap_or(other)
    }))
}

/// A part whose shape does not matter for the rest: `None` if it has another one.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(value: D) -> Result<Option<T>, D::Error> {
    Value::deserialize(value).map(|value| serde_json::from_value(value).ok())
}

impl Message<'_> {
    /// The id of a request or response: a number or a string, to be given back as it came.
    pub(super) fn id(&self) -> Option<Value> {
        let id = serde_json::from_str::<Value>(self.id?.get()).ok()?;
        (id.is_number() || id.is_string()).then_some(id)
    }
}

/// Reads a part of a message; `None` if it has another shape.
pub(super) fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(part?.get()).ok()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    pub(super) code: i64,
    message: Option<String>,
    data: Option<Value>,
}

impl RpcError {
    /// The agent's words. Several agents say only `Internal error` and put the cause into the data.
    pub(super) fn words(&self) -> String {
        let message = self.message.as_deref().filter(|text| !text.is_empty());
        let message = message.map_or_else(|| format!("error {}", self.code), str::to_owned);
        let cause = match &self.data {
            Some(Value::String(text)) => Some(text.as_str()),
            Some(Value::Object(data)) => {
                ["details", "message", "reason"].iter().find_map(|key| data.get(*key).and_then(Value::as_str))
            }
            _ => None,
        };
        match cause {
            Some(cause) if !message.contains(cause) => format!("{}: {cause}", message.trim_end_matches('.')),
            _ => message,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Initialized {
    pub(super) protocol_version: Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) agent_info: Option<AgentInfo>,
    #[serde(deserialize_with = "lenient")]
    pub(super) agent_capabilities: Option<AgentCapabilities>,
    #[serde(deserialize_with = "lenient")]
    pub(super) auth_methods: Option<Vec<AuthMethod>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentInfo {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    pub(super) load_session: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) session_capabilities: Option<SessionCapabilities>,
}

/// Each is an object where it is offered.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionCapabilities {
    pub(super) list: Option<Value>,
    pub(super) resume: Option<Value>,
    pub(super) close: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AuthMethod {
    pub(super) name: Option<String>,
}

/// The answer to `session/new`, and to `session/load` and `session/resume`, which know the id already.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Opened {
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) config_options: Option<Vec<ConfigOption>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) modes: Option<Modes>,
    #[serde(deserialize_with = "lenient")]
    pub(super) models: Option<Models>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ConfigOption {
    pub(super) id: Option<String>,
    pub(super) category: Option<String>,
    pub(super) current_value: Option<Value>,
    pub(super) options: Option<Vec<ConfigValue>>,
}

/// A value, or a group of values.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConfigValue {
    pub(super) value: Option<String>,
    pub(super) name: Option<String>,
    pub(super) options: Option<Vec<ConfigValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Modes {
    pub(super) current_mode_id: Option<String>,
    pub(super) available_modes: Option<Vec<Named>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Models {
    pub(super) current_model_id: Option<String>,
    pub(super) available_models: Option<Vec<Named>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    #[serde(alias = "modelId")]
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

/// What every notification and request of a session names.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OfSession {
    pub(super) session_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionUpdate<'a> {
    #[serde(borrow)]
    pub(super) update: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct UpdateHead<'a> {
    #[serde(borrow)]
    pub(super) session_update: Option<Cow<'a, str>>,
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub(super) meta: Option<UsageMeta>,
    #[serde(deserialize_with = "lenient")]
    pub(super) used: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) size: Option<u64>,
}

/// A piece of what the agent writes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Option<ChunkContent>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChunkContent {
    #[serde(deserialize_with = "lenient")]
    pub(super) text: Option<String>,
}

/// One page of the agent's own list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Listed {
    #[serde(deserialize_with = "lenient")]
    pub(super) sessions: Option<Vec<ListedSession>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) next_cursor: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListedSession {
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) cwd: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) title: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) updated_at: Option<String>,
}

/// An update that tells something of the session and not of its turn.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Changed {
    #[serde(deserialize_with = "lenient")]
    pub(super) title: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) current_mode_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) config_options: Option<Vec<ConfigOption>>,
}

/// What the session has cost so far.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Spent {
    #[serde(deserialize_with = "lenient")]
    pub(super) cost: Option<Cost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cost {
    pub(super) amount: Option<f64>,
    pub(super) currency: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Prompted {
    pub(super) stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<TokenUsage>,
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub(super) meta: Option<UsageMeta>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageMeta {
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<TokenUsage>,
    #[serde(deserialize_with = "lenient")]
    pub(super) quota: Option<Quota>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Quota {
    #[serde(deserialize_with = "lenient")]
    pub(super) token_count: Option<TokenUsage>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TokenUsage {
    #[serde(alias = "input_tokens")]
    pub(super) input_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    pub(super) output_tokens: Option<u64>,
}

/// A tool call, or what changed of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ToolCall {
    #[serde(rename = "toolCallId")]
    pub(super) id: Option<String>,
    pub(super) title: Option<String>,
    pub(super) status: Option<String>,
    pub(super) raw_input: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Content>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) locations: Option<Vec<Location>>,
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub(super) meta: Option<CallMeta>,
}

/// Text, or a change of a file, or something else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    pub(super) content: Option<Block>,
    /// Only a change of a file has it.
    pub(super) path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    pub(super) text: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Location {
    pub(super) path: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CallMeta {
    pub(super) qwen_interaction_kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) qwen_questions: Option<Vec<Question>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    pub(super) question: Option<String>,
    pub(super) options: Option<Vec<Answer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) label: Option<String>,
    pub(super) description: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestPermission {
    pub(super) tool_call: Option<ToolCall>,
    pub(super) options: Option<Vec<PermissionOption>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PermissionOption {
    pub(super) option_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) kind: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Elicitation {
    pub(super) tool_call_id: Option<String>,
    pub(super) message: Option<String>,
    pub(super) url: Option<String>,
    pub(super) requested_schema: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CancelRequest {
    #[serde(alias = "id")]
    pub(super) request_id: Value,
}

/// Appends one message as a line.
fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

pub(super) fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

pub(super) fn result(id: &Value, result: &Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

pub(super) fn error(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}
