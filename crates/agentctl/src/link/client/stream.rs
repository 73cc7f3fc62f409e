//! The server-sent events of the daemon.

use std::io;
use std::time::Duration;

pub(crate) use agentctl_adapters::wire::http::Event;
use agentctl_adapters::wire::http::{Events, Response};

use super::deadline::DeadlineStream;

/// No event is larger: it contains one session, or one message of a conversation.
const LARGEST: usize = 64 << 20;

pub(crate) struct Stream(Events<DeadlineStream>);

impl Stream {
    pub(super) fn open(stream: DeadlineStream) -> io::Result<Self> {
        let mut response = Response::read(stream)?;
        let status = response.head.status;
        if status != 200 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("the daemon answered {status}")));
        }
        // From here on, hours may pass without data.
        response.stream().skip_liveness_checks();
        Ok(Self(response.events(LARGEST)))
    }

    /// How long [`next`](Self::next) waits for an event.
    pub(crate) fn wait_at_most(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.stream().wait_at_most(timeout)
    }

    /// Whether [`next`](Self::next) waits for an event at all.
    pub(crate) fn set_waiting(&mut self, waits: bool) -> io::Result<()> {
        self.0.stream().set_waiting(waits)
    }

    /// The cursor of the last event.
    pub(crate) fn cursor(&self) -> Option<&str> {
        self.0.cursor()
    }

    /// The next event; `None` when the daemon ended the stream. An error of kind `WouldBlock` means that
    /// nothing arrived in time: nothing is lost, and the call can be repeated.
    pub(crate) fn next(&mut self) -> io::Result<Option<Event>> {
        self.0.next_event()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_stream_is_waited_for_as_long_as_is_said_and_goes_on_after_that() {
        let (mut daemon, here) = UnixStream::pair().unwrap();
        daemon.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        let mut stream = Stream::open(DeadlineStream::plain(here)).unwrap();
        stream.wait_at_most(Duration::from_millis(1)).unwrap();
        daemon.write_all(b"e\r\nid: a-1\nevent:\r\n").unwrap();
        assert_eq!(stream.next().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(stream.cursor(), None, "it was not told yet");
        daemon.write_all(b"c\r\n x\ndata: 1\n\n\r\n0\r\n\r\n").unwrap();
        assert_eq!(stream.next().unwrap(), Some(Event { kind: "x".into(), data: "1".into() }));
        assert_eq!(stream.cursor(), Some("a-1"));
        assert_eq!(stream.next().unwrap(), None);
    }
}
