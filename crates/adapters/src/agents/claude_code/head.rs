//! Reads the beginning of a transcript: when it started and the first prompt. Pure.

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Record, Said, is_certainly_bulk, is_interruption, is_synthetic, said, text_of};
use crate::transcript::read::{self, First, Line};

/// Reads records oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Head {
    sidechain: bool,
    /// The session started when its own first record was written.
    pub(super) first: First,
    /// The session from whose transcript the first record was copied.
    pub(super) forked_from: Option<String>,
}

/// A list does not parse lines longer than this in full.
const GIANT: usize = 64 << 10;

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        if self.first.prompt.is_some() && line.len() > GIANT {
            // The beginning of this line already gave the prompt; only its time is still needed.
            self.first.started(late_time(line));
            return Line::Record;
        }
        if is_certainly_bulk(line) {
            return Line::Record;
        }
        let Some(record) = Record::parse(line) else { return Line::Broken };
        self.take(&record);
        if record.forked_from.is_some() { Line::Copy } else { Line::Record }
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }

    /// A list shows only the first characters of a prompt, so a prompt of several megabytes need not be read
    /// to its end.
    fn fragment(&mut self, fragment: &[u8]) {
        if self.may_show_prompt(fragment)
            && let Some(record) = completed(fragment).iter().find_map(|whole| Record::parse(whole))
        {
            self.take(&record);
        }
    }
}

impl Head {
    pub(super) fn new(sidechain: bool) -> Self {
        Self { sidechain, ..Self::default() }
    }

    /// Whether a prompt is still needed and this fragment is already longer than what a list shows of one.
    fn may_show_prompt(&self, fragment: &[u8]) -> bool {
        self.first.prompt.is_none()
            && self.first.text_limit.is_some_and(|limit| fragment.len() > 6 * limit)
            && !is_certainly_bulk(fragment)
    }

    fn take(&mut self, record: &Record<'_>) {
        self.first.started_after_copies(record.forked_from.is_some(), record.at());
        if self.forked_from.is_none() {
            self.forked_from = record.forked_from.and_then(|value| fork_parent(value.get()));
        }
        if self.first.prompt.is_some() {
            return;
        }
        let text = match record.kind.as_ref() {
            "queue-operation" if record.operation.as_deref() == Some("enqueue") => {
                record.content.and_then(text_of)
            }
            "user" if said(record, self.sidechain) == Said::Prompt => record.typed(),
            _ => None,
        };
        self.first.asked(
            text.filter(|text| !text.trim().is_empty() && !is_synthetic(text) && !is_interruption(text)),
        );
    }
}

/// Reads the time of a record in which the time follows the text, as in the agent's user records.
fn late_time(line: &[u8]) -> Option<Timestamp> {
    let end = &line[line.len().saturating_sub(4 << 10)..];
    let key = b"\"timestamp\":\"";
    let at = memchr::memmem::rfind(end, key)? + key.len();
    let text = &end[at..at + memchr::memchr(b'"', &end[at..])?];
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Completes a record that was cut inside its prompt, in each of the forms that a record with a prompt can
/// have.
fn completed(fragment: &[u8]) -> [Vec<u8>; 3] {
    // The cut must not split an escape sequence or a multi-byte character.
    let mut end = fragment.len();
    while end > 0 && !fragment[end - 1].is_ascii_alphanumeric() && fragment[end - 1] != b' ' {
        end -= 1;
    }
    let escape = memchr::memrchr(b'\\', &fragment[..end]).filter(|at| end - at < 7);
    let kept = &fragment[..escape.unwrap_or(end)];
    [&b"\"}"[..], b"\"}}", b"\"}]}}"].map(|closing| [kept, closing].concat())
}

/// The session that a copied record names, either as `{"sessionId": …}` or as the bare id.
fn fork_parent(value: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(value).ok()?;
    value
        .as_str()
        .or_else(|| value.get("sessionId").and_then(|id| id.as_str()))
        .map(|id| clean_cut(id, Some(200)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::read::Head as _;

    #[test]
    fn a_fork_begins_where_its_copies_end() {
        let copy = br#"{"type":"user","forkedFrom":{"sessionId":"s"},"timestamp":"2026-11-15T06:00:00Z","message":{"content":"first"}}"#;
        let own = br#"{"type":"user","timestamp":"2026-11-15T07:00:00Z","message":{"content":"second"}}"#;
        let mut head = Head::default();
        assert_eq!((head.line(copy), head.is_known()), (Line::Copy, false), "nothing of its own so far");
        assert_eq!(head.first.start(), "2026-11-15T06:00:00Z".parse().ok());
        assert_eq!((head.line(own), head.is_known()), (Line::Record, true));
        assert_eq!(head.forked_from.as_deref(), Some("s"));
        let first = head.first;
        assert_eq!(first.start(), "2026-11-15T07:00:00Z".parse().ok());
        assert_eq!(first.prompt.as_deref(), Some("first"));
    }

    #[test]
    fn the_beginning_of_a_giant_prompt_is_enough_for_a_list() {
        let text = "word é \\n \\u00e9 ".repeat(400);
        for line in [
            format!(
                r#"{{"type":"queue-operation","operation":"enqueue","timestamp":"2026-11-15T06:51:03Z","content":"{text}"#
            ),
            format!(
                r#"{{"type":"user","timestamp":"2026-11-15T06:51:03Z","message":{{"role":"user","content":"{text}"#
            ),
            format!(
                r#"{{"type":"user","timestamp":"2026-11-15T06:51:03Z","message":{{"content":[{{"type":"text","text":"{text}"#
            ),
        ] {
            for cut in 0..40 {
                let mut head = Head::default();
                head.first.text_limit = Some(200);
                head.fragment(&line.as_bytes()[..line.len() - cut]);
                let prompt = head.first.prompt.unwrap();
                assert_eq!((prompt.chars().count(), head.first.started_at.is_some()), (200, true));
                assert!(prompt.starts_with("word é \n é word"));
            }
        }
        let mut late = Head::default();
        late.first.text_limit = Some(200);
        let user = format!(r#"{{"type":"user","message":{{"role":"user","content":"{}"#, text.repeat(20));
        late.fragment(&user.as_bytes()[..4096]);
        assert!(!late.is_known(), "its time comes behind the text");
        let line = format!(r#"{user}"}},"uuid":"u","timestamp":"2026-11-15T06:51:03Z","cwd":"/w"}}"#);
        late.line(line.as_bytes());
        assert!(late.is_known());
        assert_eq!(late.first.started_at, "2026-11-15T06:51:03Z".parse().ok());
        let mut whole = Head::default();
        whole.fragment(b"{\"type\":\"queue-operation\"");
        assert!(!whole.is_known());
    }
}
