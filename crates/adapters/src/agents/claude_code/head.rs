//! What the beginning of a transcript says: when it started and the first prompt. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;
use jiff::Timestamp;

use super::records::{Record, Said, is_certainly_bulk, is_interruption, is_synthetic, said, text_of};
use crate::transcript::jsonl::head::Piece;

/// Reads records oldest first until the first prompt is known.
#[derive(Default)]
pub(super) struct Head {
    pub(super) sidechain: bool,
    pub(super) text_limit: Option<usize>,
    /// When its own first record was written.
    started_at: Option<Timestamp>,
    /// When the first record was written that was copied out of the session it was forked from.
    copied_at: Option<Timestamp>,
    pub(super) prompt: Option<String>,
    /// The first record is a copy out of another session's transcript.
    pub(super) forked_from: Option<String>,
    lines: u32,
    /// Lines that are no records.
    pub(super) broken: u32,
}

/// The first prompt stands near the beginning; a transcript without one is not read to its end for it.
const LINES: u32 = 60;
/// Lines beyond this are not parsed whole for a list.
const GIANT: usize = 64 << 10;

impl Head {
    pub(super) fn new(sidechain: bool, text_limit: Option<usize>) -> Self {
        Self { sidechain, text_limit, ..Self::default() }
    }

    pub(super) fn piece(&mut self, piece: Piece<'_>) -> ControlFlow<()> {
        match piece {
            // The beginning of this line was enough for the prompt: only its time is still wanted.
            Piece::Line(line) if self.prompt.is_some() && line.len() > GIANT => {
                self.started_at = self.started_at.or_else(|| late_time(line));
                self.flow()
            }
            Piece::Line(line) => self.line(line),
            // A list shows the first characters: a prompt of megabytes need not be read to its end for them.
            Piece::Fragment(fragment) if self.may_show_prompt(fragment) => {
                if let Some(record) = completed(fragment).iter().find_map(|whole| Record::parse(whole)) {
                    self.take(&record);
                }
                self.flow()
            }
            Piece::Fragment(_) => ControlFlow::Continue(()),
        }
    }

    /// A prompt is wanted, and what is there of this line is more than is shown of one.
    fn may_show_prompt(&self, fragment: &[u8]) -> bool {
        self.prompt.is_none()
            && self.text_limit.is_some_and(|limit| fragment.len() > 6 * limit)
            && !is_certainly_bulk(fragment)
    }

    fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        self.lines += 1;
        if !is_certainly_bulk(line) {
            match Record::parse(line) {
                Some(record) => self.take(&record),
                None => self.broken += u32::from(!line.iter().all(u8::is_ascii_whitespace)),
            }
        }
        self.flow()
    }

    fn flow(&self) -> ControlFlow<()> {
        let known = self.prompt.is_some() && self.started_at.is_some();
        if known || self.lines >= LINES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A fork begins where its copies end; one that did nothing itself began with them.
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        self.started_at.or(self.copied_at)
    }

    fn take(&mut self, record: &Record<'_>) {
        if record.forked_from.is_some() {
            // Copies are as many as the other session has records: they do not count as looked at in vain.
            self.lines = self.lines.saturating_sub(1);
            self.copied_at = self.copied_at.or_else(|| record.at());
        } else {
            self.started_at = self.started_at.or_else(|| record.at());
        }
        if self.forked_from.is_none() {
            self.forked_from = record.forked_from.and_then(|value| fork_parent(value.get()));
        }
        if self.prompt.is_some() {
            return;
        }
        let text = match record.kind.as_ref() {
            "queue-operation" if record.operation.as_deref() == Some("enqueue") => {
                record.content.and_then(text_of)
            }
            "user" if said(record, self.sidechain) == Said::Prompt => record.typed(),
            _ => None,
        };
        self.prompt = text
            .filter(|text| !text.trim().is_empty() && !is_synthetic(text) && !is_interruption(text))
            .map(|text| clean_cut(&text, self.text_limit));
    }
}

/// The time of a record whose text is followed by it, as the agent writes its user records.
fn late_time(line: &[u8]) -> Option<Timestamp> {
    let end = &line[line.len().saturating_sub(4 << 10)..];
    let key = b"\"timestamp\":\"";
    let at = memchr::memmem::rfind(end, key)? + key.len();
    let text = &end[at..at + memchr::memchr(b'"', &end[at..])?];
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A record that ends inside its prompt, closed in each way a prompt can stand in a record.
fn completed(fragment: &[u8]) -> [Vec<u8>; 3] {
    // Not through an escape or a character of several bytes.
    let mut end = fragment.len();
    while end > 0 && !fragment[end - 1].is_ascii_alphanumeric() && fragment[end - 1] != b' ' {
        end -= 1;
    }
    let escape = memchr::memrchr(b'\\', &fragment[..end]).filter(|at| end - at < 7);
    let kept = &fragment[..escape.unwrap_or(end)];
    [&b"\"}"[..], b"\"}}", b"\"}]}}"].map(|closing| [kept, closing].concat())
}

/// The session a copied record names: `{"sessionId": …}` or the id itself.
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

    #[test]
    fn a_fork_begins_where_its_copies_end() {
        let copy = br#"{"type":"user","forkedFrom":{"sessionId":"s"},"timestamp":"2026-11-15T06:00:00Z","message":{"content":"first"}}"#;
        let own = br#"{"type":"user","timestamp":"2026-11-15T07:00:00Z","message":{"content":"second"}}"#;
        let mut head = Head::new(false, None);
        for _ in 0..2 * LINES {
            assert!(head.piece(Piece::Line(copy)).is_continue());
        }
        assert_eq!(head.started_at(), "2026-11-15T06:00:00Z".parse().ok(), "nothing of its own so far");
        assert!(head.piece(Piece::Line(own)).is_break());
        assert_eq!(head.started_at(), "2026-11-15T07:00:00Z".parse().ok());
        assert_eq!((head.prompt.as_deref(), head.forked_from.as_deref()), (Some("first"), Some("s")));
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
                let mut head = Head::new(false, Some(200));
                assert!(head.piece(Piece::Fragment(&line.as_bytes()[..line.len() - cut])).is_break());
                assert_eq!(head.prompt.as_ref().map(|prompt| prompt.chars().count()), Some(200));
                assert!(head.prompt.unwrap().starts_with("word é \n é word"));
            }
        }
        let mut late = Head::new(false, Some(200));
        let user = format!(r#"{{"type":"user","message":{{"role":"user","content":"{}"#, text.repeat(20));
        assert!(
            late.piece(Piece::Fragment(&user.as_bytes()[..4096])).is_continue(),
            "its time comes behind the text"
        );
        let line = format!(r#"{user}"}},"uuid":"u","timestamp":"2026-11-15T06:51:03Z","cwd":"/w"}}"#);
        assert!(late.piece(Piece::Line(line.as_bytes())).is_break());
        assert_eq!(late.started_at, "2026-11-15T06:51:03Z".parse().ok());
        let mut whole = Head::new(false, None);
        assert!(whole.piece(Piece::Fragment(b"{\"type\":\"queue-operation\"")).is_continue());
    }
}
