//! Reaches the holder of a launch, at the moment of the question.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use agentctl_adapters::hold::{Acceptance, Verb};

use super::wire::{self, Ask, Reader, Reply, Report};

/// How long a holder may take for what it can say by itself.
const OWN_WORD: Duration = Duration::from_millis(700);

/// How long a withdrawal may take.
const WITHDRAWAL: Duration = Duration::from_secs(5);

/// Why the agent did not say yes.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// The agent, or the rules about who may steer it, said no.
    Refused(String),
    /// It was taken back because the time was up: the agent never gets it.
    Withdrawn,
    /// Whether the agent took it is not known.
    Unknown(String),
    /// Nobody holds the session: the message cannot have arrived.
    NotHeld(io::Error),
}

/// What the holder says of its session now.
pub(crate) fn state(folder: &Path) -> io::Result<Report> {
    match ask(folder, &Ask::State, OWN_WORD)?.1 {
        Reply::State(report) => Ok(*report),
        other => Err(io::Error::other(format!("an unexpected answer: {other:?}"))),
    }
}

/// Asks the holder to end the session in the clean way.
pub(crate) fn end(folder: &Path, allow_self: bool) -> Result<(), HoldError> {
    match ask(folder, &Ask::End { allow_self }, OWN_WORD).map_err(HoldError::NotHeld)?.1 {
        Reply::Ending => Ok(()),
        Reply::Refused(reason) => Err(HoldError::Refused(reason)),
        other => Err(HoldError::Unknown(format!("an unexpected answer: {other:?}"))),
    }
}

/// Tells the agent something and waits for its own proof that it took it.
pub(crate) fn tell(
    folder: &Path,
    verb: Verb,
    allow_self: bool,
    timeout: Duration,
) -> Result<Acceptance, HoldError> {
    let mut stream = dial(folder).map_err(HoldError::NotHeld)?;
    let unknown = |error: io::Error| HoldError::Unknown(format!("the runner does not answer: {error}"));
    let reply = question(&mut stream, &Ask::Tell { verb, allow_self }, timeout);
    let reply = match reply {
        Err(error) if is_timeout(&error) => {
            wire::write_line(&mut stream, &"withdraw").map_err(unknown)?;
            stream.set_read_timeout(Some(WITHDRAWAL)).map_err(unknown)?;
            Reader::of(&stream).and_then(|mut reader| reader.line()).map_err(unknown)?
        }
        reply => reply.map_err(unknown)?,
    };
    match reply {
        Reply::Accepted(how) => Ok(how),
        Reply::Refused(reason) => Err(HoldError::Refused(reason)),
        Reply::Withdrawn => Err(HoldError::Withdrawn),
        Reply::Lost(why) => Err(HoldError::Unknown(why)),
        Reply::State(_) | Reply::Ending => Err(HoldError::Unknown("an unexpected answer".into())),
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn ask(folder: &Path, ask: &Ask, timeout: Duration) -> io::Result<(UnixStream, Reply)> {
    let mut stream = dial(folder)?;
    let reply = question(&mut stream, ask, timeout)?;
    Ok((stream, reply))
}

/// Connects, and makes sure that whoever listens there is of this user.
pub(super) fn dial(folder: &Path) -> io::Result<UnixStream> {
    let stream = wire::connect(folder)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    Ok(stream)
}

fn question(stream: &mut UnixStream, ask: &Ask, timeout: Duration) -> io::Result<Reply> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(OWN_WORD))?;
    wire::write_line(stream, ask)?;
    Reader::of(stream)?.line()
}
