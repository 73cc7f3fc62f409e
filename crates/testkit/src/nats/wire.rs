//! The protocol of NATS, as little of it as scripted hosts need. It shares no code with the client of the product.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// A message that came.
#[derive(Debug)]
pub struct RawMessage {
    pub subject: String,
    /// The number of the subscription.
    pub sid: usize,
    pub reply: Option<String>,
    pub payload: Vec<u8>,
}

/// A connection to a server that lets everybody in.
pub struct RawNats {
    reader: BufReader<TcpStream>,
    writer: io::BufWriter<TcpStream>,
}

impl RawNats {
    pub fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let reader = BufReader::with_capacity(1 << 20, stream.try_clone()?);
        let mut raw = Self { reader, writer: io::BufWriter::with_capacity(1 << 20, stream) };
        raw.line()?;
        let hello = r#"{"verbose":false,"pedantic":false,"lang":"test","version":"0","protocol":1}"#;
        write!(raw.writer, "CONNECT {hello}\r\n")?;
        raw.settle()?;
        Ok(raw)
    }

    /// The connection itself: who shuts it down ends everything that reads from it.
    pub fn stream(&self) -> io::Result<TcpStream> {
        self.reader.get_ref().try_clone()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    pub fn subscribe(&mut self, subject: &str, queue: &str, sid: usize) -> io::Result<()> {
        write!(self.writer, "SUB {subject} {queue} {sid}\r\n")
    }

    pub fn publish(&mut self, subject: &str, payload: &[u8]) -> io::Result<()> {
        write!(self.writer, "PUB {subject} {}\r\n", payload.len())?;
        self.writer.write_all(payload)?;
        self.writer.write_all(b"\r\n")
    }

    /// Waits until the server has taken everything that was sent. No message may be expected yet.
    pub fn settle(&mut self) -> io::Result<()> {
        self.writer.write_all(b"PING\r\n")?;
        self.writer.flush()?;
        while self.line()? != "PONG" {}
        Ok(())
    }

    /// The next message. What was published is sent once nothing more has arrived.
    pub fn receive(&mut self) -> io::Result<RawMessage> {
        loop {
            if self.reader.buffer().is_empty() {
                self.writer.flush()?;
            }
            let line = self.line()?;
            if line == "PING" {
                self.writer.write_all(b"PONG\r\n")?;
                self.writer.flush()?;
            }
            let Some(head) = line.strip_prefix("MSG ") else { continue };
            let words: Vec<&str> = head.split(' ').collect();
            let (subject, sid, reply, size) = match words.as_slice() {
                [subject, sid, size] => (*subject, *sid, None, *size),
                [subject, sid, reply, size] => (*subject, *sid, Some((*reply).to_owned()), *size),
                _ => return Err(io::Error::other(format!("no message: {line}"))),
            };
            let size: usize = size.parse().map_err(io::Error::other)?;
            let sid = sid.parse().map_err(io::Error::other)?;
            let subject = subject.to_owned();
            let mut payload = vec![0; size + 2];
            self.reader.read_exact(&mut payload)?;
            payload.truncate(size);
            return Ok(RawMessage { subject, sid, reply, payload });
        }
    }
}
