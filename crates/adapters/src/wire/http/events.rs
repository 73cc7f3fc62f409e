//! Server-sent events, one after the other.

use std::io::{self, Read};

use super::{Response, broken};

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub kind: String,
    pub data: String,
}

/// The events of a response.
pub struct Events<S> {
    response: Response<S>,
    largest: usize,
    /// The decoded bytes, and how far they were read.
    decoded: Vec<u8>,
    read: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The event that is not complete yet, and the cursor that came with it.
    event: Event,
    event_cursor: Option<String>,
    /// Whether this event has become too large, so that none of it is kept.
    is_too_large: bool,
    cursor: Option<String>,
}

impl<S: Read> Events<S> {
    pub(super) fn new(response: Response<S>, largest: usize) -> Self {
        Self {
            response,
            largest,
            decoded: Vec::new(),
            read: 0,
            line: Vec::new(),
            event: Event::default(),
            event_cursor: None,
            is_too_large: false,
            cursor: None,
        }
    }

    pub fn stream(&mut self) -> &mut S {
        self.response.stream()
    }

    /// The cursor of the last complete event: a client that continues after it misses nothing.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// The next event; `None` when the server ended the stream. If the stream reports a timeout, nothing is lost and
    /// the caller may call again. The same holds after an event that is too large, which is an error of the kind
    /// `FileTooLarge`.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        loop {
            while self.read == self.decoded.len() {
                self.decoded.clear();
                self.read = 0;
                if !self.response.more(&mut self.decoded)? {
                    return Ok(None);
                }
            }
            let rest = &self.decoded[self.read..];
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let is_whole = rest[..end].ends_with(b"\n");
            if self.line.len() + end + self.event.data.len() > self.largest {
                self.is_too_large = true;
                self.event = Event::default();
            }
            // For an event that is not kept, it only matters whether a line is empty, which two bytes show.
            let kept = if self.is_too_large { end.min(2_usize.saturating_sub(self.line.len())) } else { end };
            self.line.extend_from_slice(&rest[..kept]);
            self.read += end;
            if is_whole && let Some(event) = self.end_of_line()? {
                return Ok(Some(event));
            }
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.line.capacity() + self.decoded.capacity() + self.event.data.capacity()
    }

    fn end_of_line(&mut self) -> io::Result<Option<Event>> {
        let line = std::mem::take(&mut self.line);
        if self.is_too_large {
            if line == b"\n" || line == b"\r\n" {
                self.is_too_large = false;
                self.cursor = self.event_cursor.take().or(self.cursor.take());
                let words = format!("an event of more than {} bytes", self.largest);
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
            }
            return Ok(None);
        }
        let line = std::str::from_utf8(&line).map_err(|_| broken("an event that is no text"))?;
        let line = line.trim_end_matches(['\n', '\r']);
        if line.is_empty() {
            self.cursor = self.event_cursor.take().or(self.cursor.take());
            let event = std::mem::take(&mut self.event);
            return Ok((!event.data.is_empty()).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event_cursor = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event.kind),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, or a field that nobody needs.
            _ => {}
        }
        Ok(None)
    }
}
