//! The few fields of a model reply that token counting needs, found without parsing its text. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::records::Usage;
use crate::transcript::jsonl::quick;
use crate::transcript::jsonl::walk::{Walk, walk_line};

/// A record in which any field except the type may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reply<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) is_sidechain: bool,
    #[serde(borrow)]
    pub(super) timestamp: Option<Cow<'a, str>>,
    pub(super) forked_from: Option<IgnoredAny>,
    /// The request that was answered; older versions do not write it.
    pub(super) request_ref: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    pub(super) usage: Option<Usage>,
    /// The raw text of the usage, where the fast path has found it.
    #[serde(skip)]
    pub(super) usage_as_written: Option<&'a [u8]>,
}

impl<'a> Reply<'a> {
    /// Returns `None` for an incomplete line or anything else that is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        Self::glance(line).or_else(|| quick::from_slice(line).ok())
    }

    /// Parses a line in the agent's exact spelling without serde. Returns `None` whenever that is not
    /// certain; then serde decides.
    fn glance(line: &'a [u8]) -> Option<Self> {
        let (mut kind, mut is_sidechain, mut message, mut timestamp) = (None, None, None, None);
        let (mut forked_from, mut request_ref) = (None, None);
        walk_line(line, |walk, key| match key {
            b"type" => once(&mut kind, text(walk)),
            b"timestamp" => once(&mut timestamp, text(walk)),
            b"isSidechain" => once(&mut is_sidechain, flag(walk)),
            b"forkedFrom" => once(&mut forked_from, is_said(walk)),
            b"requestRef" => once(&mut request_ref, is_said(walk)),
            b"message" => once(&mut message, Message::glance(walk)),
            _ => walk.value().map(drop),
        })?;
        Some(Self {
            kind: kind?,
            is_sidechain: is_sidechain.unwrap_or_default(),
            timestamp,
            forked_from: forked_from.unwrap_or_default().then_some(IgnoredAny),
            request_ref: request_ref.unwrap_or_default().then_some(IgnoredAny),
            message,
        })
    }
}

impl<'a> Message<'a> {
    fn glance(walk: &mut Walk<'a>) -> Option<Self> {
        let (mut id, mut model, mut usage) = (None, None, None);
        walk.members(|walk, key| match key {
            b"id" => once(&mut id, text(walk)),
            b"model" => once(&mut model, text(walk)),
            b"usage" => once(&mut usage, usage_and_its_place(walk)),
            _ => walk.value().map(drop),
        })?;
        let (usage, usage_as_written) = usage.unzip();
        Some(Self { id, model, usage, usage_as_written })
    }
}

/// Rejects a key that occurs twice, because serde rejects it too.
fn once<T>(slot: &mut Option<T>, value: Option<T>) -> Option<()> {
    slot.replace(value?).is_none().then_some(())
}

fn text<'a>(walk: &mut Walk<'a>) -> Option<Cow<'a, str>> {
    std::str::from_utf8(walk.plain()?).ok().map(Cow::Borrowed)
}

fn flag(walk: &mut Walk<'_>) -> Option<bool> {
    match walk.value()? {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

/// Whether the value is anything but null.
fn is_said(walk: &mut Walk<'_>) -> Option<bool> {
    walk.value().map(|written| written != b"null")
}

fn usage_and_its_place<'a>(walk: &mut Walk<'a>) -> Option<(Usage, &'a [u8])> {
    let (mut input, mut output, mut cache_read, mut cache_creation) = (None, None, None, None);
    let before = walk.ahead();
    walk.members(|walk, key| match key {
        b"input_tokens" => once(&mut input, walk.count()),
        b"output_tokens" => once(&mut output, walk.count()),
        b"cache_read_input_tokens" => once(&mut cache_read, walk.count()),
        b"cache_creation_input_tokens" => once(&mut cache_creation, walk.count()),
        _ => walk.value().map(drop),
    })?;
    let usage = Usage {
        input_tokens: input.unwrap_or_default(),
        output_tokens: output.unwrap_or_default(),
        cache_read_input_tokens: cache_read.unwrap_or_default(),
        cache_creation_input_tokens: cache_creation.unwrap_or_default(),
    };
    Some((usage, &before[..before.len() - walk.ahead().len()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPELLED: &str = r#"{"parentUuid":"p","isSidechain":false,"message":{"id":"m1","type":"message","model":"x","content":[{"type":"text","text":"é \"q\" \\ \u00e9 \n"},{"type":"tool_use","input":{"n":[-1.5e+3,0,[],{},true,null],"usage":{"input_tokens":99}}}],"usage":{"input_tokens":7,"output_tokens":3,"service_tier":"s"},"stop_details":null},"requestRef":null,"forkedFrom":{"sessionId":"s"},"type":"assistant","uuid":"u"}"#;

    /// Asserts that the fast path reads the same as serde.
    fn agrees(line: &[u8]) {
        let Some(glanced) = Reply::glance(line) else { return };
        let read: Reply<'_> = serde_json::from_slice(line).expect("glanced at, but no record");
        let without_place = |reply: Reply<'_>| {
            let message = reply.message.map(|message| Message { usage_as_written: None, ..message });
            format!("{:?}", Reply { message, ..reply })
        };
        assert_eq!(without_place(glanced), without_place(read));
    }

    #[test]
    fn a_reply_is_taken_at_a_glance() {
        let reply = Reply::glance(SPELLED.as_bytes()).unwrap();
        let message = reply.message.unwrap();
        assert_eq!((message.id.as_deref(), message.usage.unwrap().input_tokens), (Some("m1"), 7));
        let written = br#"{"input_tokens":7,"output_tokens":3,"service_tier":"s"}"#;
        assert_eq!(message.usage_as_written, Some(&written[..]));
        assert!(reply.forked_from.is_some() && reply.request_ref.is_none() && reply.kind == "assistant");
        agrees(SPELLED.as_bytes());
    }

    /// Replies in the agent's spelling: 30 MB of text and tool calls, about 1.5 KB each.
    fn transcript() -> Vec<Vec<u8>> {
        let (mut lines, mut size) = (Vec::new(), 0);
        while size < 30 << 20 {
            let words = "let answer = compute(x, y); // as asked\\n".repeat(1 + (lines.len() * 37) % 55);
            let (number, block) = (lines.len(), lines.len() % 2);
            let content = [
                format!(r#"{{"type":"text","text":"{words}"}}"#),
                format!(
                    r#"{{"type":"tool_use","id":"t","name":"Write","input":{{"path":"/w/a","content":"{words}"}}}}"#
                ),
            ];
            let line = format!(
                r#"{{"parentUuid":"p","isSidechain":false,"message":{{"id":"m{number}","type":"message","role":"assistant","model":"x","content":[{}],"stop_reason":"tool_use","usage":{{"input_tokens":7,"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3,"service_tier":"standard"}}}},"requestRef":"r","type":"assistant","uuid":"u","timestamp":"2026-11-15T06:51:03.000Z","cwd":"/w","version":"2.1.325"}}"#,
                content[block]
            );
            size += line.len();
            lines.push(line.into_bytes());
        }
        lines
    }

    /// Meaningful in an optimised build only: `cargo test --release -p agentctl-adapters -- --ignored glance
    /// --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn how_much_a_glance_gains() {
        let lines = transcript();
        let timed = |parse: fn(&[u8]) -> bool| {
            let begun = std::time::Instant::now();
            assert!(lines.iter().all(|line| parse(line)));
            begun.elapsed()
        };
        // The two alternate, so that a busy machine slows both down.
        let (mut glances, mut serdes) = (Vec::new(), Vec::new());
        for _ in 0..41 {
            glances.push(timed(|line| Reply::glance(line).is_some()));
            serdes.push(timed(|line| serde_json::from_slice::<Reply<'_>>(line).is_ok()));
        }
        glances.sort_unstable();
        serdes.sort_unstable();
        let (glance, serde) = (glances[20], serdes[20]);
        println!(
            "a glance {glance:?}, serde {serde:?}: {:.2} times",
            serde.as_secs_f64() / glance.as_secs_f64()
        );
    }

    #[test]
    fn what_is_not_certain_is_left_to_serde() {
        for line in [
            r#"{"type":"a","type":"a"}"#,
            r#"{"type":"a","ty\u0070e":"a"}"#,
            r#"{"type":"a","message":null}"#,
            r#"{"type":"a","message":["id"]}"#,
            r#"{"type":"a","message":{"id":null}}"#,
            r#"{"type":"a","message":{"usage":{"input_tokens":-1}}}"#,
            r#"{"type":"a","isSidechain":null}"#,
            r#"{"type":"a" }"#,
            r#"{"type":"a"}}"#,
            r#"{"x":1}"#,
            "{\"type\":\"a\u{1}\"}",
        ] {
            assert!(Reply::glance(line.as_bytes()).is_none(), "{line}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        /// With any bytes replaced, removed or inserted, the fast path is never more certain than serde and
        /// never differs from it.
        #[test]
        fn never_surer_than_serde(
            accidents in prop::collection::vec(
                (
                    0..SPELLED.len(),
                    0..12usize,
                    prop_oneof![
                        "[\"{}\\[\\],:\\\\0-9.eE+\\-nuta \t]{0,4}".prop_map(String::into_bytes),
                        prop::sample::select(vec!["null", "true", "\\u12", "\"type\":\"x\",", "0", "1e", "-"])
                            .prop_map(|word| word.as_bytes().to_vec()),
                        prop::collection::vec(any::<u8>(), 0..3),
                    ],
                ),
                1..4,
            ),
        ) {
            let mut line = SPELLED.as_bytes().to_vec();
            for (at, gone, put) in accidents {
                let from = at.min(line.len());
                let to = (from + gone).min(line.len());
                line.splice(from..to, put);
            }
            agrees(&line);
        }

        #[test]
        fn numbers_are_judged_as_serde_judges_them(number in r"-?[0-9]{0,3}(\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?") {
            agrees(format!(r#"{{"type":"a","x":{number}}}"#).as_bytes());
            agrees(format!(r#"{{"type":"a","message":{{"usage":{{"input_tokens":{number}}}}}}}"#).as_bytes());
        }

        /// A value of any JSON type at any position of the record.
        #[test]
        fn forms_are_judged_as_serde_judges_them(form in r#"(\[|\]|\{|\}|,|:|"a"|"type"|"|\\|-?[0-9]{1,2}|\.[0-9]?|[eE][+-]?|true|nul|null|fals|false){1,9}"#) {
            agrees(format!(r#"{{"type":"a","x":{form}}}"#).as_bytes());
            agrees(format!(r#"{{"type":"a","message":{{"content":[{form}]}}}}"#).as_bytes());
        }
    }
}
