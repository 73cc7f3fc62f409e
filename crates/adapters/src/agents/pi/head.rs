//! What the beginning of a session file says: the header, the first prompt, an early title. Pure.

use std::ops::ControlFlow;

use agentctl_model::text::clean_cut;

use super::header::Heading;
use super::records::{Header, Record};

/// The first prompt stands near the beginning; a file without one is not read to its end for it.
const LINES: u32 = 60;

/// Reads lines oldest first until the first prompt is known.
#[derive(Debug, Default)]
pub(super) struct Head {
    text_limit: Option<usize>,
    pub(super) heading: Option<Heading>,
    pub(super) prompt: Option<String>,
    /// The last title before the first prompt; empty if it was taken away.
    pub(super) name: Option<String>,
    lines: u32,
}

impl Head {
    pub(super) fn new(text_limit: Option<usize>) -> Self {
        Self { text_limit, ..Self::default() }
    }

    pub(super) fn line(&mut self, line: &[u8]) -> ControlFlow<()> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return ControlFlow::Continue(());
        }
        self.lines += 1;
        if self.heading.is_none() {
            // Pi itself passes over anything that stands before the header.
            self.heading = Header::parse(line).as_ref().map(Heading::of);
        } else if !is_certainly_system(line)
            && let Some(record) = Record::parse(line)
        {
            self.take(&record);
        }
        if self.prompt.is_some() || self.lines >= LINES {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn take(&mut self, record: &Record<'_>) {
        match (record.kind.as_ref(), record.role()) {
            ("session_info", _) => self.name = record.title(),
            ("message", "user") => {
                let text = record.message.as_ref().and_then(super::records::Message::text);
                self.prompt = text.map(|text| clean_cut(&text, self.text_limit));
            }
            _ => {}
        }
    }
}

/// Whether a line is certainly Pi's own prompt, kilobytes of it: judged by the exact spelling only, so that a record
/// spelled differently is parsed, slowly, and never lost.
fn is_certainly_system(line: &[u8]) -> bool {
    const SYSTEM: &[u8] = b"\"message\":{\"role\":\"system\"";
    line.starts_with(b"{\"type\":\"message\",\"id\":")
        && line[..line.len().min(200)].windows(SYSTEM.len()).any(|window| window == SYSTEM)
}
