//! The records of a Pi session file, as Pi and Pi Rust write them. Only the fields in use are declared, and
//! all are optional. Pure.

use agentctl_model::text::clean_cut;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::text::Text;
use crate::transcript::jsonl::time::time;

/// The record that names the session. It is not part of the tree.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Header<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    version: Option<&'a RawValue>,
    id: Text<'a>,
    timestamp: Option<&'a RawValue>,
    pub(crate) cwd: Option<Text<'a>>,
    /// The file that this session was forked from.
    parent_session: Option<Text<'a>>,
    /// The same in Pi Rust's spelling. Everything below is used by Pi Rust only.
    branched_from: Option<Text<'a>>,
    /// The active leaf, if it is not the last record.
    pub(crate) leaf_id: Option<Text<'a>>,
    pub(crate) provider: Option<Text<'a>>,
    pub(crate) model_id: Option<Text<'a>>,
}

impl<'a> Header<'a> {
    /// Returns `None` for anything but a header that names a session.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let header: Self = quick::from_slice(line).ok()?;
        let named = !header.id.is_empty() && !header.id.chars().any(char::is_control);
        (header.kind == "session" && named).then_some(header)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.timestamp.and_then(time_of)
    }

    pub(crate) fn parent_file(&self) -> Option<&str> {
        self.parent_session.as_deref().or(self.branched_from.as_deref())
    }

    /// The format version; the first format wrote none.
    pub(crate) fn version(&self) -> u64 {
        self.version.and_then(|value| value.get().parse().ok()).unwrap_or(1)
    }
}

/// One record of the tree.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    pub(crate) id: Option<Text<'a>>,
    pub(crate) parent_id: Option<Text<'a>>,
    pub(crate) timestamp: Option<&'a RawValue>,
    pub(crate) message: Option<Message<'a>>,
    /// Set in a model change.
    pub(crate) provider: Option<Text<'a>>,
    pub(crate) model_id: Option<Text<'a>>,
    /// The model of an extra call.
    pub(crate) model: Option<Text<'a>>,
    /// The title, in a `session_info`.
    pub(crate) name: Option<Text<'a>>,
    /// The record that a `context_edit` takes back.
    pub(crate) target_id: Option<Text<'a>>,
    /// Set in compactions, branch summaries and extra model calls.
    pub(crate) usage: Option<&'a RawValue>,
    /// Set in a message of an extension.
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) display: Option<bool>,
}

#[expect(clippy::struct_field_names, reason = "the agent's own names")]
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) role: Text<'a>,
    pub(crate) content: Option<&'a RawValue>,
    pub(crate) provider: Option<Text<'a>>,
    pub(crate) model: Option<Text<'a>>,
    pub(crate) usage: Option<&'a RawValue>,
    pub(crate) stop_reason: Option<Text<'a>>,
    pub(crate) error_message: Option<Text<'a>>,
    pub(crate) tool_name: Option<Text<'a>>,
    pub(crate) is_error: Option<bool>,
    /// Set for a command that the user ran.
    pub(crate) command: Option<Text<'a>>,
    pub(crate) output: Option<Text<'a>>,
}

/// One block of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Text<'a>,
    pub(crate) text: Option<Text<'a>>,
    pub(crate) name: Option<Text<'a>>,
    pub(crate) arguments: Option<&'a RawValue>,
}

impl<'a> Record<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let record: Self = quick::from_slice(line).ok()?;
        (!record.kind.is_empty()).then_some(record)
    }

    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.timestamp.and_then(time_of)
    }

    /// Whether this is a repeated header: 0.73.1 writes it twice.
    pub(crate) fn is_header(&self) -> bool {
        self.kind == "session"
    }

    pub(crate) fn role(&self) -> &str {
        self.message.as_ref().map_or("", |message| &message.role)
    }

    /// The title that this record sets; empty if it removes the title.
    pub(crate) fn title(&self) -> Option<String> {
        let name = || clean_cut(self.name.as_deref().unwrap_or("").trim(), Some(200));
        (self.kind == "session_info").then(name)
    }

    /// The model that this record names, in the form of the agent's own flag.
    pub(crate) fn model(&self) -> Option<String> {
        match (self.kind.as_ref(), &self.message) {
            ("model_change", _) => model_name(self.provider.as_deref(), self.model_id.as_deref()),
            ("message", Some(message)) if message.role == "assistant" => {
                model_name(message.provider.as_deref(), message.model.as_deref())
            }
            _ => None,
        }
    }
}

impl<'a> Message<'a> {
    /// The blocks of a message; a plain string is one text block.
    pub(crate) fn blocks(&self) -> Vec<Block<'a>> {
        self.content.map(blocks_of).unwrap_or_default()
    }

    /// The joined text blocks; `None` if they contain no text.
    pub(crate) fn text(&self) -> Option<String> {
        self.content.and_then(text_of)
    }
}

fn blocks_of<'a>(content: &'a RawValue) -> Vec<Block<'a>> {
    if let Ok(text) = quick::from_str::<Text<'a>>(content.get()) {
        return vec![Block { kind: "text".into(), text: Some(text), ..Block::default() }];
    }
    quick::from_str(content.get()).unwrap_or_default()
}

/// The text of a `content` value: a string, or the text blocks of a list.
pub(crate) fn text_of(content: &RawValue) -> Option<String> {
    let blocks = blocks_of(content);
    let texts = blocks.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
    let text = texts.collect::<Vec<_>>().join("\n");
    (!text.trim().is_empty()).then_some(text)
}

/// `provider/model`, the form of the agent's own flag.
pub(crate) fn model_name(provider: Option<&str>, model: Option<&str>) -> Option<String> {
    let model = model.filter(|model| !model.is_empty())?;
    Some(match provider.filter(|provider| !provider.is_empty()) {
        Some(provider) => format!("{provider}/{model}"),
        None => model.to_owned(),
    })
}

/// A time as text, or as milliseconds since 1970.
fn time_of(value: &RawValue) -> Option<Timestamp> {
    match quick::from_str::<Text<'_>>(value.get()) {
        Ok(text) => time(&text),
        Err(_) => value.get().parse().ok().and_then(|millis| Timestamp::from_millisecond(millis).ok()),
    }
}

/// Record types of the two agents; others are counted as drift.
pub(crate) const KNOWN_TYPES: [&str; 12] = [
    "session",
    "message",
    "model_change",
    "thinking_level_change",
    "session_info",
    "compaction",
    "branch_summary",
    "context_edit",
    "usage",
    "custom",
    "custom_message",
    "label",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_that_names_a_session_is_a_header() {
        let header = |line: &str| Header::parse(line.as_bytes()).map(|header| header.id().to_owned());
        assert_eq!(header(r#"{"type":"session","id":"a","new":[1]}"#).as_deref(), Some("a"));
        for none in [r#"{"type":"session"}"#, r#"{"type":"message","id":"a"}"#, "[]", "{", "", "\u{0}"] {
            assert_eq!(header(none), None, "{none}");
        }
        let old = Header::parse(br#"{"type":"session","id":"a","timestamp":1794726249922}"#).unwrap();
        assert_eq!((old.version(), old.at().map(Timestamp::as_millisecond)), (1, Some(1_794_726_249_922)));
    }

    #[test]
    fn text_is_a_string_or_blocks_and_blanks_are_none() {
        let text = |json: &str| {
            let line = format!(r#"{{"type":"message","message":{{"role":"user","content":{json}}}}}"#);
            Record::parse(line.as_bytes()).unwrap().message.unwrap().text()
        };
        assert_eq!(text(r#""a""#).as_deref(), Some("a"));
        let blocks =
            r#"[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"text","text":"b"}]"#;
        assert_eq!(text(blocks).as_deref(), Some("a\nb"));
        for none in [r#""  ""#, "[]", "7", r#"[{"type":"image","data":"x"}]"#] {
            assert_eq!(text(none), None, "{none}");
        }
    }

    #[test]
    fn models_are_named_with_their_provider() {
        let model = |line: &str| Record::parse(line.as_bytes()).unwrap().model();
        let change = r#"{"type":"model_change","provider":"p","modelId":"m"}"#;
        assert_eq!(model(change).as_deref(), Some("p/m"));
        let reply = r#"{"type":"message","message":{"role":"assistant","provider":"p","model":"n"}}"#;
        assert_eq!(model(reply).as_deref(), Some("p/n"));
        assert_eq!(model(r#"{"type":"message","message":{"role":"user","model":"n"}}"#), None);
    }
}
