//! The tools: one file each, and one line in [`ALL`].

mod answer_request;
mod explain_status;
mod inbox;
mod interrupt_session;
mod launch_session;
mod list_sessions;
mod read_messages;
mod search;
mod send_message;
mod session_status;
mod stop_session;
mod usage;
mod wait_for;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use agentctl_model::Error;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::desk::Desk;
use super::fence::FenceMarks;
use super::rights::Right;
use crate::rpc::Call;

/// Every tool, in the order in which they are listed.
pub(super) const ALL: &[&dyn Tool] = &[
    &list_sessions::ListSessions,
    &session_status::SessionStatus,
    &explain_status::ExplainStatus,
    &read_messages::ReadMessages,
    &search::Search,
    &inbox::ShowInbox,
    &usage::Usage,
    &wait_for::WaitFor,
    &launch_session::LaunchSession,
    &send_message::SendMessage,
    &answer_request::AnswerRequest,
    &interrupt_session::InterruptSession,
    &stop_session::StopSession,
];

/// Which session, for tools that take nothing else.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Full id, unique beginning of one, or exact name; on another machine HOST/ID.
    id: String,
    /// Only a session of this agent.
    adapter: Option<String>,
    /// Only a session that works in this folder.
    cwd: Option<PathBuf>,
}

/// What a tool says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Card {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// The right without which it is not offered; a tool that needs none changes nothing.
    pub(super) needs: Option<Right>,
    /// Work may be lost by it.
    pub(super) ends_work: bool,
}

/// A tool with the types of its arguments and its answer.
pub(super) trait TypedTool: Sync {
    const CARD: Card;
    type Takes: DeserializeOwned + JsonSchema;
    type Gives: Serialize + JsonSchema;

    fn run(desk: &Desk, takes: Self::Takes, request: &Request<'_>) -> Result<Told<Self::Gives>, Error>;
}

/// What a tool answers: the data, one line of our own words, and what other sessions wrote, for a reader of the text
/// alone.
pub(super) struct Told<T> {
    pub(super) data: T,
    pub(super) headline: String,
    pub(super) body: String,
}

/// The same, as the server passes it on. Nothing of it is fenced yet.
pub(super) struct Reply {
    pub(super) data: Value,
    pub(super) headline: String,
    pub(super) body: String,
}

/// Any tool.
pub(super) trait Tool: Sync {
    fn card(&self) -> Card;

    /// What `tools/list` says of it.
    fn described(&self) -> Value;

    fn run(&self, desk: &Desk, arguments: Value, request: &Request<'_>) -> Result<Reply, Error>;
}

impl<T: TypedTool> Tool for T {
    fn card(&self) -> Card {
        T::CARD
    }

    fn described(&self) -> Value {
        let Card { name, title, about, needs, ends_work } = T::CARD;
        json!({
            "name": name,
            "title": title,
            "description": about,
            "inputSchema": schema::<T::Takes>(false),
            "outputSchema": schema::<T::Gives>(true),
            "annotations": {
                "title": title,
                "readOnlyHint": needs.is_none(),
                "destructiveHint": ends_work,
                "idempotentHint": needs.is_none() || ends_work,
                "openWorldHint": false,
            },
        })
    }

    fn run(&self, desk: &Desk, arguments: Value, request: &Request<'_>) -> Result<Reply, Error> {
        let takes = serde_json::from_value(arguments).map_err(|error| {
            // The words name a key that the caller gave.
            Error::usage(format!("the arguments of {}: {error}", T::CARD.name))
                .hint("tools/list has the schema of the arguments")
        })?;
        let Told { data, headline, body } = T::run(desk, takes, request)?;
        let data = serde_json::to_value(data).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Reply { data, headline, body })
    }
}

/// One call of a tool.
pub(super) struct Request<'c> {
    call: &'c Call,
    pub(super) client: Option<String>,
    progress: Option<Value>,
    told: AtomicU64,
}

impl<'c> Request<'c> {
    pub(super) fn new(call: &'c Call, client: Option<String>, progress: Option<Value>) -> Self {
        Self { call, client, progress, told: AtomicU64::new(0) }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn is_over(&self) -> bool {
        self.call.is_over()
    }

    /// Tells the client that the work goes on, if it wants to know.
    pub(super) fn tell(&self, words: &str) {
        let Some(token) = &self.progress else { return };
        let count = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({"progressToken": token, "progress": count, "message": words});
        self.call.wire().notify("notifications/progress", &params);
    }
}

/// The schema of a type, as old and new validators read it: no dialect is named, and no format but those of everybody.
fn schema<T: JsonSchema>(is_answer: bool) -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut generator =
        if is_answer { settings.for_serialize() } else { settings.for_deserialize() }.into_generator();
    let marks = is_answer.then(|| generator.subschema_for::<FenceMarks>().to_value());
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    if let Value::Object(object) = &mut schema {
        object.remove("$schema");
        object.remove("title");
        if let Some(marks) = marks {
            if let Some(all) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
                all.insert("fence".into(), marks);
            }
            if let Some(all) = object.entry("required").or_insert_with(|| json!([])).as_array_mut() {
                all.push("fence".into());
            }
        } else {
            object.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

fn plain(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, value| {
                key != "format" || !value.is_string() || value == "date-time" || value == "uri"
            });
            object.values_mut().for_each(plain);
        }
        Value::Array(values) => values.iter_mut().for_each(plain),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_and_schemas_of_objects() {
        let mut names: Vec<&str> = ALL.iter().map(|tool| tool.card().name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for tool in ALL {
            let described = tool.described();
            for schema in [&described["inputSchema"], &described["outputSchema"]] {
                assert_eq!(schema["type"], "object", "{}: {schema}", tool.card().name);
                assert!(schema.get("$schema").is_none());
            }
            assert!(described["outputSchema"]["required"].to_string().contains("fence"));
            assert_eq!(described["inputSchema"]["additionalProperties"], false, "{}", tool.card().name);
        }
    }

    /// A fence around a word of a closed list, or around a time, would break the schema that was published.
    #[test]
    fn whatever_a_schema_restricts_is_a_word_of_ours() {
        fn restricted(schema: &Value, whole: &Value) -> bool {
            let Value::Object(object) = schema else { return false };
            let here = ["enum", "const", "format"].iter().any(|key| object.contains_key(*key));
            let linked =
                object.get("$ref").and_then(Value::as_str).and_then(|link| whole.pointer(&link[1..]));
            let parts = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| object.get(*key)?.as_array());
            here || linked.is_some_and(|linked| restricted(linked, whole))
                || parts.flatten().any(|part| restricted(part, whole))
                || object.get("items").is_some_and(|items| restricted(items, whole))
        }
        fn check(schema: &Value, whole: &Value, tool: &str) {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                for (key, property) in properties {
                    let is_ours = super::super::fence::OURS.contains(&key.as_str());
                    assert!(is_ours || !restricted(property, whole), "{tool}: {key}: {property}");
                }
            }
            match schema {
                Value::Object(object) => object.values().for_each(|value| check(value, whole, tool)),
                Value::Array(values) => values.iter().for_each(|value| check(value, whole, tool)),
                _ => {}
            }
        }
        for tool in ALL {
            let described = tool.described();
            check(&described["outputSchema"], &described["outputSchema"], tool.card().name);
        }
    }
}
