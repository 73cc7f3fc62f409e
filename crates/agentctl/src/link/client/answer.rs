//! One whole answer of the daemon.

use std::io::{self, BufRead, BufReader, Read};

use super::patient::Patient;

/// The most that a head may take: it is ours, so more than this is not a daemon.
const HEAD: u64 = 64 << 10;

/// Ten thousand sessions are some tens of megabytes.
const LARGEST: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(super) fn read(stream: Patient) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(64 << 10, stream);
        let (status, headers) = head(&mut reader)?;
        let mut answer = Self { status, headers, body: Vec::new() };
        let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
        match length {
            // What is cut short is no answer.
            Some(length) if length > LARGEST => return Err(broken("an answer that is too long")),
            Some(length) => {
                reader.take(length).read_to_end(&mut answer.body)?;
                if answer.body.len() as u64 != length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            None => return Err(broken("an answer without its length")),
        }
        Ok(answer)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.status == 200
    }
}

pub(super) type Headers = Vec<(String, String)>;

pub(super) fn header<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The status line and the headers.
pub(super) fn head(reader: &mut impl BufRead) -> io::Result<(u16, Headers)> {
    let mut head = reader.take(HEAD);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status = status.ok_or_else(|| broken("no HTTP answer"))?;
    let mut headers = Headers::new();
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok((status, headers))
}

pub(super) fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
