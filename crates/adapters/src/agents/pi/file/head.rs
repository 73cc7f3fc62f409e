//! Reads the beginning of a session file: the header, the first prompt, an early title. Pure.

use super::header::Heading;
use super::records::{Header, Record};
use crate::transcript::read::{self, First, Line};

/// Reads lines oldest first until the first prompt is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) first: First,
    pub(crate) heading: Option<Heading>,
    /// The last title before the first prompt; empty if it was removed.
    pub(crate) name: Option<String>,
}

impl read::Head for Head {
    fn line(&mut self, line: &[u8]) -> Line {
        if self.heading.is_none() {
            // Pi itself ignores anything before the header.
            self.heading = Header::parse(line).as_ref().map(Heading::of);
            return Line::Record;
        }
        if is_certainly_system(line) {
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn first(&mut self) -> &mut First {
        &mut self.first
    }

    fn is_known(&mut self) -> bool {
        self.first.prompt.is_some()
    }
}

impl Head {
    fn take(&mut self, record: &Record<'_>) {
        match (record.kind.as_ref(), record.role()) {
            ("session_info", _) => self.name = record.title(),
            ("message", "user") => {
                self.first.asked(record.message.as_ref().and_then(super::records::Message::text));
            }
            _ => {}
        }
    }
}

/// Whether a line is certainly Pi's own system prompt, which has kilobytes. Only the exact spelling decides,
/// so a record with another spelling is parsed slowly and never lost.
fn is_certainly_system(line: &[u8]) -> bool {
    const SYSTEM: &[u8] = b"\"message\":{\"role\":\"system\"";
    line.starts_with(b"{\"type\":\"message\",\"id\":")
        && line[..line.len().min(200)].windows(SYSTEM.len()).any(|window| window == SYSTEM)
}
