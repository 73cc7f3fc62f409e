//! OpenCode's records: messages and their parts, the same in the database and in the old tree. Pure.

use std::borrow::Cow;

use agentctl_model::Tokens;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use serde_json::value::RawValue;

use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::quick;

/// Part types that mean something here, or are known to mean nothing.
const KNOWN_PARTS: [&str; 12] = [
    "text",
    "reasoning",
    "step-start",
    "step-finish",
    "patch",
    "tool",
    "file",
    "agent",
    "subtask",
    "compaction",
    "retry",
    "snapshot",
];

/// Milliseconds since 1970, like every time of OpenCode.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Times {
    created: Option<Number>,
    completed: Option<Number>,
    start: Option<Number>,
    end: Option<Number>,
    updated: Option<Number>,
    archived: Option<Number>,
}

pub(crate) fn moment(milliseconds: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(milliseconds).ok()
}

fn number(value: Option<&Number>) -> Option<Timestamp> {
    value.and_then(Number::as_i64).and_then(moment)
}

impl Times {
    pub(crate) fn created(&self) -> Option<Timestamp> {
        number(self.created.as_ref())
    }

    pub(crate) fn updated(&self) -> Option<Timestamp> {
        number(self.updated.as_ref())
    }

    pub(crate) fn archived(&self) -> Option<Timestamp> {
        number(self.archived.as_ref())
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.completed.is_some()
    }

    /// The latest time of the record.
    pub(crate) fn latest(&self) -> Option<Timestamp> {
        [&self.created, &self.completed, &self.start, &self.end]
            .into_iter()
            .filter_map(|time| number(time.as_ref()))
            .max()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    pub(crate) fn start(&self) -> Option<Timestamp> {
        number(self.start.as_ref())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelName<'a> {
    #[serde(borrow, rename = "providerID")]
    provider: Option<Cow<'a, str>>,
    /// The key in messages; the session's column uses `id`.
    #[serde(borrow, rename = "modelID", alias = "id")]
    model: Option<Cow<'a, str>>,
}

fn named(provider: Option<&str>, model: Option<&str>) -> Option<String> {
    match (provider.filter(|name| !name.is_empty()), model.filter(|name| !name.is_empty())) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        _ => None,
    }
}

/// The model in the session's own column.
pub(crate) fn model_of_column(json: &str) -> Option<String> {
    let model: ModelName<'_> = quick::from_str(json).ok()?;
    named(model.provider.as_deref(), model.model.as_deref())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Option<Number>,
    write: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spent {
    input: Option<Number>,
    output: Option<Number>,
    #[serde(deserialize_with = "lenient")]
    cache: Cache,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorRecord<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl ErrorRecord<'_> {
    /// A person or a client stopped the turn.
    pub(crate) fn is_abort(&self) -> bool {
        self.name.as_deref() == Some("MessageAbortedError")
    }

    /// `APIError: 401 no such key`, as far as the parts are known.
    pub(crate) fn words(&self) -> String {
        let name = self.name.as_deref().unwrap_or("error");
        let data: Option<serde_json::Value> = self.data.and_then(|data| quick::from_str(data.get()).ok());
        let message = data.as_ref().and_then(|data| data.get("message")).and_then(|message| message.as_str());
        message.map_or_else(|| name.to_owned(), |message| format!("{name}: {message}"))
    }
}

/// An error of an unexpected shape is still an error.
fn any_error<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ErrorRecord<'de>>, D::Error> {
    let raw = <&'de RawValue>::deserialize(from)?;
    Ok((raw.get() != "null").then(|| quick::from_str(raw.get()).unwrap_or_default()))
}

/// One message: a prompt, or one step of the model.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) role: Cow<'a, str>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) time: Times,
    #[serde(borrow, deserialize_with = "any_error")]
    pub(crate) error: Option<ErrorRecord<'a>>,
    #[serde(borrow)]
    pub(crate) finish: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "providerID")]
    provider: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "modelID")]
    model_id: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient")]
    model: Option<ModelName<'a>>,
    #[serde(deserialize_with = "lenient")]
    tokens: Option<Spent>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) cost: Option<f64>,
}

impl<'a> Message<'a> {
    /// `None` for bytes that are not a message: damaged, or half written.
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
        quick::from_slice::<Self>(json).ok().filter(|message| !message.role.is_empty())
    }

    pub(crate) fn is_user(&self) -> bool {
        self.role == "user"
    }

    pub(crate) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// The agent began this step and has not ended it.
    pub(crate) fn is_open(&self) -> bool {
        self.is_assistant() && !self.time.is_completed() && self.error.is_none()
    }

    pub(crate) fn model(&self) -> Option<String> {
        named(self.provider.as_deref(), self.model_id.as_deref()).or_else(|| {
            let model = self.model.as_ref()?;
            named(model.provider.as_deref(), model.model.as_deref())
        })
    }

    /// The tokens of this step; `None` when nothing was counted.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        let spent = self.tokens.as_ref().filter(|_| self.is_assistant())?;
        counted(Tokens {
            input: spent.input.as_ref().and_then(Number::as_u64),
            output: spent.output.as_ref().and_then(Number::as_u64),
            cache_read: spent.cache.read.as_ref().and_then(Number::as_u64),
            cache_write: spent.cache.write.as_ref().and_then(Number::as_u64),
        })
    }
}

/// OpenCode writes zeros before anything is counted.
pub(crate) fn counted(tokens: Tokens) -> Option<Tokens> {
    let parts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write];
    parts.into_iter().flatten().any(|count| count > 0).then_some(tokens)
}

pub(crate) fn add(sum: Option<Tokens>, one: Tokens) -> Tokens {
    let plus = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    let sum = sum.unwrap_or_default();
    Tokens {
        input: plus(sum.input, one.input),
        output: plus(sum.output, one.output),
        cache_read: plus(sum.cache_read, one.cache_read),
        cache_write: plus(sum.cache_write, one.cache_write),
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToolState<'a> {
    #[serde(borrow)]
    pub(crate) status: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(crate) output: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(crate) error: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) time: Times,
}

impl ToolState<'_> {
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(self.status.as_ref(), "running" | "pending")
    }
}

/// One part of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) text: Option<Cow<'a, str>>,
    /// Written by the agent in the user's name.
    synthetic: Option<bool>,
    ignored: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) time: Times,
    #[serde(borrow)]
    pub(crate) tool: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "lenient")]
    pub(crate) state: Option<ToolState<'a>>,
}

impl<'a> Part<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Option<Self> {
        quick::from_slice::<Self>(json).ok().filter(|part| !part.kind.is_empty())
    }

    /// A part of which only the beginning is present: its text so far, if it is a text.
    pub(crate) fn parse_beginning(json: &[u8]) -> Option<Part<'static>> {
        let kind = value_of(json, b"\"type\"")?;
        let is_text = json[kind..].starts_with(b"\"text\"");
        let text = value_of(json, b"\"text\":").or_else(|| value_of(json, b"\"text\" :"))?;
        let text = json[text..].strip_prefix(b"\"").filter(|_| is_text)?;
        // Cuts off the end of the string, which may be half a character or half an escape.
        let mut end = text.len().saturating_sub(12);
        let escape = memchr::memrchr(b'\\', &text[..end]).filter(|at| end - at < 12);
        end = escape.unwrap_or(end);
        let text = std::str::from_utf8(&text[..end]).map_or_else(
            |error| String::from_utf8_lossy(&text[..error.valid_up_to()]).into_owned(),
            str::to_owned,
        );
        let text: String = quick::from_str(&format!("\"{text}\"")).ok()?;
        Some(Part { kind: Cow::Borrowed("text"), text: Some(Cow::Owned(text)), ..Part::default() })
    }

    pub(crate) fn is_known(&self) -> bool {
        KNOWN_PARTS.contains(&self.kind.as_ref())
    }

    /// The text of a text part that a person or the model really wrote.
    pub(crate) fn words(&self) -> Option<&str> {
        let said = self.kind == "text" && self.synthetic != Some(true) && self.ignored != Some(true);
        self.text.as_deref().filter(|text| said && !text.trim().is_empty())
    }

    pub(crate) fn tool_at_work(&self) -> Option<&ToolState<'a>> {
        self.state.as_ref().filter(|state| self.kind == "tool" && state.is_at_work())
    }

    /// A person denied it without saying what to do instead.
    pub(crate) fn was_denied(&self) -> bool {
        let error = self.state.as_ref().and_then(|state| state.error.as_deref()).unwrap_or_default();
        // Versions before 1.2 begin with the kind of error.
        matches!(
            error.strip_prefix("Error: ").unwrap_or(error),
            "The user rejected permission to use this specific tool call."
                | "The user dismissed this question"
        )
    }

    pub(crate) fn latest(&self) -> Option<Timestamp> {
        self.time.latest().max(self.state.as_ref().and_then(|state| state.time.latest()))
    }
}

/// Where the value of a key begins; the key stands near the beginning.
fn value_of(json: &[u8], key: &[u8]) -> Option<usize> {
    let at = memchr::memmem::find(&json[..json.len().min(400)], key)? + key.len();
    let rest = &json[at..];
    let skipped = rest.iter().position(|byte| !matches!(byte, b':' | b' ' | b'\n' | b'\t'))?;
    Some(at + skipped)
}

/// The session file of the old tree.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionFile<'a> {
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) directory: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) title: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) version: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "parentID")]
    pub(crate) parent: Option<Cow<'a, str>>,
    pub(crate) time: Times,
}

/// Titles that OpenCode gives before anybody names the session: `New session - 2026-11-15T06:53:17.988Z`. A fork of
/// such a session has the same title with ` (fork #1)` after it.
pub(crate) fn is_default_title(title: &str) -> bool {
    let title = title.split_once(" (fork #").map_or(title, |(origin, _)| origin);
    ["New session - ", "Child session - "]
        .iter()
        .filter_map(|start| title.strip_prefix(start))
        .any(|rest| rest.parse::<Timestamp>().is_ok())
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
