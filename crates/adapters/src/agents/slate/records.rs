//! Slate's records: session files, messages with their parts inside, and the lines of the trace. Pure.

use std::borrow::Cow;
use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Number;
use serde_json::value::RawValue;

use crate::transcript::jsonl::lenient::lenient;
use crate::transcript::jsonl::text::Text;

fn moment(number: Option<&Number>) -> Option<Timestamp> {
    // The agent writes 0 when it has no time.
    number.and_then(Number::as_i64).filter(|at| *at > 0).and_then(|at| Timestamp::from_millisecond(at).ok())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    created: Option<Number>,
    updated: Option<Number>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Slot<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentConfig<'a> {
    #[serde(borrow, rename = "slotID")]
    slot: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionFile<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    pub(super) directory: Option<Text<'a>>,
    pub(super) title: Option<Text<'a>>,
    pub(super) version: Option<Text<'a>>,
    #[serde(rename = "rootSessionID")]
    root: Option<Text<'a>>,
    #[serde(rename = "modelConfig", deserialize_with = "lenient")]
    models: HashMap<Cow<'a, str>, Slot<'a>>,
    #[serde(rename = "agentConfig", deserialize_with = "lenient")]
    agent: AgentConfig<'a>,
    #[serde(deserialize_with = "lenient")]
    time: Times,
}

impl<'a> SessionFile<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(json).ok().filter(|file| !file.id.is_empty())
    }

    /// The parent session of a sub-agent.
    pub(super) fn parent(&self) -> Option<&str> {
        self.root.as_deref().filter(|root| !root.is_empty() && *root != &*self.id)
    }

    /// The model of the slot in which this session runs.
    pub(super) fn model(&self) -> Option<&str> {
        let slot = self.agent.slot.as_deref().unwrap_or("main");
        self.models.get(slot)?.model.as_deref().filter(|model| !model.is_empty())
    }

    pub(super) fn created(&self) -> Option<Timestamp> {
        moment(self.time.created.as_ref())
    }

    pub(super) fn updated(&self) -> Option<Timestamp> {
        moment(self.time.updated.as_ref())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    text: Option<Text<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Text<'a>,
    #[serde(deserialize_with = "lenient")]
    content: Vec<Content<'a>>,
    timestamp: Option<Number>,
}

impl<'a> Message<'a> {
    pub(super) fn parse(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(json).ok().filter(|message| !message.role.is_empty())
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        moment(self.timestamp.as_ref())
    }

    /// The joined text parts; `None` without any text.
    pub(super) fn words(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter(|part| part.kind == "text")
            .filter_map(|part| part.text.as_deref())
            .collect();
        Some(texts.join("\n")).filter(|text| !text.trim().is_empty())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Span<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    status: Option<Text<'a>>,
}

/// One line of the trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    pub(super) id: Text<'a>,
    #[serde(deserialize_with = "lenient")]
    span: Span<'a>,
    /// A string, or an object with a message.
    error: Option<&'a RawValue>,
    timestamp: Option<Number>,
}

/// What a line of the trace means for the turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Step {
    Opened,
    Closed,
    Failed(Option<String>),
    /// A run began, but none of its steps yet.
    RunOpened,
    /// The whole run was closed. A failed run is never closed, so a missing close means nothing.
    RunClosed,
    #[default]
    Nothing,
}

impl<'a> Event<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(line).ok().filter(|event| !event.kind.is_empty())
    }

    pub(super) fn at(&self) -> Option<Timestamp> {
        moment(self.timestamp.as_ref())
    }

    pub(super) fn step(&self) -> Step {
        match (self.kind.as_ref(), self.span.kind.as_deref()) {
            ("agent.step", Some("open")) => Step::Opened,
            ("agent.step", Some("close"))
                if self.error.is_some() || self.span.status.as_deref() == Some("error") =>
            {
                Step::Failed(self.error.and_then(error_words))
            }
            ("agent.step", Some("close")) => Step::Closed,
            ("agent.run", Some("open")) => Step::RunOpened,
            ("agent.run", Some("close")) => Step::RunClosed,
            _ => Step::Nothing,
        }
    }
}

fn error_words(error: &RawValue) -> Option<String> {
    match serde_json::from_str(error.get()).ok()? {
        serde_json::Value::String(words) => Some(words),
        other => other.get("message")?.as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SESSION: &[u8] = br#"{"id":"ses_1","directory":"/w","rootSessionID":"ses_0","modelConfig":{"main":{"model":"a/b"},"search":{"model":"c/d"}},"time":{"created":1794727319810,"updated":1794727320331},"agentConfig":{"slotID":"search"}}"#;
    const CLOSED: &[u8] = br#"{"type":"agent.step","summary":"span close","span":{"spanID":"s","kind":"close","status":"error"},"error":"Connection error.","id":"evt_1","timestamp":1794727320690}"#;

    #[test]
    fn a_session_names_its_root_and_the_model_of_its_slot() {
        let file = SessionFile::parse(SESSION).unwrap();
        assert_eq!((file.parent(), file.model()), (Some("ses_0"), Some("c/d")));
    }

    #[test]
    fn a_step_tells_how_it_ended() {
        let failed = Step::Failed(Some("Connection error.".into()));
        assert_eq!(Event::parse(CLOSED).unwrap().step(), failed);
        let open = br#"{"type":"agent.step","span":{"kind":"open"}}"#;
        assert_eq!(Event::parse(open).unwrap().step(), Step::Opened);
        let run = br#"{"type":"agent.run","span":{"kind":"open"}}"#;
        assert_eq!(Event::parse(run).unwrap().step(), Step::RunOpened);
        let object = br#"{"type":"agent.step","span":{"kind":"close"},"error":{"message":"no"}}"#;
        assert_eq!(Event::parse(object).unwrap().step(), Step::Failed(Some("no".into())));
    }

    #[test]
    fn an_odd_field_does_not_cost_the_record() {
        let file =
            SessionFile::parse(br#"{"id":"ses_1","modelConfig":[],"agentConfig":null,"time":7}"#).unwrap();
        assert_eq!((file.model(), file.created()), (None, None));
        assert_eq!(Message::parse(br#"{"role":"user","content":null}"#).unwrap().words(), None);
    }

    proptest! {
        /// With bytes cut and changed anywhere, there is no panic, and no id that is not in the bytes.
        #[test]
        fn damaged_records_invent_nothing(cut in 0usize..400, at in 0usize..400, byte in any::<u8>()) {
            for record in [SESSION, CLOSED] {
                let mut bytes = record[..record.len() - cut.min(record.len())].to_vec();
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
                if let Some(file) = SessionFile::parse(&bytes).filter(|file| !file.id.contains('\\')) {
                    let escaped = bytes.contains(&b'\\');
                    prop_assert!(escaped || memchr::memmem::find(&bytes, file.id.as_bytes()).is_some());
                }
                let _ = Event::parse(&bytes).map(|event| event.step());
                let _ = Message::parse(&bytes).map(|message| message.words());
            }
        }
    }
}
