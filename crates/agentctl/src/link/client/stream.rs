//! Server-sent events of the daemon, one after the other.

use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use super::answer::{broken, head, header};
use super::patient::Patient;

/// One event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerEvent {
    pub(crate) kind: String,
    pub(crate) data: String,
}

pub(crate) struct Stream {
    reader: BufReader<Patient>,
    chunks: Chunks,
    /// The cursor of the last event.
    pub(crate) cursor: Option<String>,
    event: ServerEvent,
}

/// What of the body was taken out of its chunks and is not yet a whole line.
#[derive(Default)]
struct Chunks {
    left: u64,
    chunked: bool,
    line: Vec<u8>,
}

impl Stream {
    pub(super) fn open(stream: Patient) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader)?;
        if status != 200 {
            return Err(broken(&format!("the daemon answered {status}")));
        }
        // From here on nothing may come for hours.
        reader.get_mut().be_plain();
        let chunked = header(&headers, "transfer-encoding") == Some("chunked");
        let chunks = Chunks { chunked, ..Chunks::default() };
        Ok(Self { reader, chunks, cursor: None, event: ServerEvent::default() })
    }

    /// How long [`next`](Self::next) waits for an event.
    pub(crate) fn wait_at_most(&self, patience: Duration) -> io::Result<()> {
        self.reader.get_ref().wait_at_most(patience)
    }

    /// The next event; `None` when the daemon ended the stream. An error of kind `WouldBlock` says that nothing came in
    /// time: nothing is lost, and it may be asked again.
    pub(crate) fn next(&mut self) -> io::Result<Option<ServerEvent>> {
        loop {
            let Some(line) = self.line()? else { return Ok(None) };
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.cursor = Some(value.to_owned()),
                "event" => value.clone_into(&mut self.event.kind),
                "data" => {
                    if !self.event.data.is_empty() {
                        self.event.data.push('\n');
                    }
                    self.event.data.push_str(value);
                }
                "" if line.is_empty() && !self.event.data.is_empty() => {
                    return Ok(Some(std::mem::take(&mut self.event)));
                }
                _ => {}
            }
        }
    }

    /// One whole line without its end.
    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            if self.chunks.chunked && self.chunks.left == 0 && !self.next_chunk()? {
                return Ok(None);
            }
            let available = self.reader.fill_buf()?;
            if available.is_empty() {
                return Ok(None);
            }
            let most = if self.chunks.chunked { self.chunks.left } else { u64::MAX };
            let available = &available[..available.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
            let (taken, whole) = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (available.len(), false),
            };
            self.chunks.line.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            self.chunks.left = self.chunks.left.saturating_sub(taken as u64);
            if whole {
                let line = std::mem::take(&mut self.chunks.line);
                let line = String::from_utf8(line).map_err(|_| broken("an event that is no text"))?;
                return Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()));
            }
        }
    }

    /// The size of the next chunk. Sizes are written in one piece with what follows, so they come whole or not at all.
    fn next_chunk(&mut self) -> io::Result<bool> {
        loop {
            // Waits here, where nothing was taken yet.
            if self.reader.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let mut size = String::new();
            self.reader.by_ref().take(32).read_line(&mut size)?;
            let size = size.trim();
            if size.is_empty() {
                continue;
            }
            self.chunks.left =
                u64::from_str_radix(size, 16).map_err(|_| broken("a chunk without its size"))?;
            return Ok(self.chunks.left > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn events_are_taken_out_of_chunks_wherever_these_are_cut() {
        let (mut daemon, here) = UnixStream::pair().unwrap();
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        daemon.write_all(head.as_bytes()).unwrap();
        let body =
            ": listening\nid: a-0\n\nid: a-1\nevent: x\ndata: {\"é\":1}\n\nid: a-2\nevent: y\ndata: 2\n\n";
        for piece in body.as_bytes().chunks(7) {
            write!(daemon, "{:x}\r\n", piece.len()).unwrap();
            daemon.write_all(piece).unwrap();
            daemon.write_all(b"\r\n").unwrap();
        }
        let mut stream = Stream::open(Patient::plain(here)).unwrap();
        assert_eq!(stream.next().unwrap(), Some(ServerEvent { kind: "x".into(), data: "{\"é\":1}".into() }));
        assert_eq!(stream.cursor.as_deref(), Some("a-1"));
        assert_eq!(stream.next().unwrap().map(|event| event.kind), Some("y".into()));
        stream.wait_at_most(Duration::from_millis(1)).unwrap();
        assert_eq!(stream.next().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        daemon.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(stream.next().unwrap(), None);
    }
}
