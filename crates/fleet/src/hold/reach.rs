//! Reaches the holder of a launch, at the moment of the question.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_adapters::Answer;
use agentctl_adapters::hold::{About, Acceptance, Decision, Verb};
use agentctl_model::{Error, ErrorKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::wire::{self, Ask, Reader, Reply, Report};
use crate::act::steer::{ReasonWay, SteerOptions};

/// How long a holder may take for what it can say by itself.
const OWN_WORD: Duration = Duration::from_millis(700);

/// How long a withdrawal may take.
const WITHDRAWAL: Duration = Duration::from_secs(5);

/// How often the agent's records are looked at while it says nothing.
const RECORDS_CHECK: Duration = Duration::from_millis(200);

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

/// The holder of one session.
pub(crate) struct Held {
    folder: PathBuf,
}

impl Held {
    pub(crate) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Tells the agent something that only its protocol can accept, and waits for that.
    pub(crate) fn tell(&self, verb: &Verb, options: SteerOptions) -> Result<Acceptance, Error> {
        Ok(tell(&self.folder, verb, options, || false)?)
    }

    /// What the agent says of itself and the session beside its turns.
    pub(crate) fn about(&self) -> Option<About> {
        state(&self.folder).ok()?.about
    }

    /// Says something. Its protocol may have no word for having taken a prompt, so the agent's own record of these
    /// words is a proof as well; `recorded` counts them there.
    pub(crate) fn say(
        &self,
        words: &str,
        options: SteerOptions,
        recorded: &dyn Fn(&str) -> usize,
    ) -> Result<Acceptance, Error> {
        let before = recorded(words);
        let verb = Verb::Send { words: words.to_owned(), as_command: options.as_command };
        Ok(tell(&self.folder, &verb, options, || recorded(words) > before)?)
    }

    /// Answers a request. A reason that has no place in the answer is the next message.
    pub(crate) fn answer(
        &self,
        answer: Answer,
        options: SteerOptions,
        recorded: &dyn Fn(&str) -> usize,
    ) -> Result<Option<ReasonWay>, Error> {
        let Some(request) = answer.request else {
            return Err(
                Error::refused("the session waits for nothing").hint("`agentctl inbox` shows what waits")
            );
        };
        let report = state(&self.folder).map_err(HoldError::NotHeld)?;
        let (decision, after) = match answer.decision {
            Decision::Deny { reason: Some(reason) } if !report.takes_reasons => {
                (Decision::Deny { reason: None }, Some(reason))
            }
            decision => (decision, None),
        };
        let has_reason = matches!(decision, Decision::Deny { reason: Some(_) });
        self.tell(&Verb::Answer { request, decision }, options)?;
        if let Some(words) = after {
            let told = self.say(&words, options, recorded);
            return told.map(|_| Some(ReasonWay::AsMessage)).map_err(|error| Error {
                message: format!("the denial was accepted, its reason was not: {}", error.message),
                ..error
            });
        }
        Ok(has_reason.then_some(ReasonWay::WithAnswer))
    }

    /// Asks the holder to end the session in the clean way of its protocol.
    pub(crate) fn end(&self, allow_self: bool) -> Result<(), Error> {
        Ok(end(&self.folder, allow_self)?)
    }
}

impl From<HoldError> for Error {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::Refused(reason) => Self::refused(agentctl_model::text::clean(&reason)),
            HoldError::Withdrawn => Self::new(
                ErrorKind::TimedOut,
                "the agent did not take it in time, and it was taken back: it was not delivered",
            ),
            HoldError::Unknown(why) => {
                Self::no_answer(format!("{why}; whether the agent took it is not known"))
            }
            HoldError::NotHeld(error) => {
                Self::agent_failed(format!("the runner that held it cannot be reached: {error}"))
            }
        }
    }
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

/// Tells the agent something and waits for its proof that it took it: its word, or its records.
pub(crate) fn tell(
    folder: &Path,
    verb: &Verb,
    options: SteerOptions,
    is_recorded: impl Fn() -> bool,
) -> Result<Acceptance, HoldError> {
    let deadline = Instant::now() + options.timeout;
    let unknown = |error: io::Error| HoldError::Unknown(format!("the runner does not answer: {error}"));
    loop {
        let mut stream = wire::connect(folder).map_err(HoldError::NotHeld)?;
        let ask = Ask::Tell { verb: verb.clone(), allow_self: options.asker.allows_self() };
        stream.set_write_timeout(Some(OWN_WORD)).map_err(unknown)?;
        wire::write_line(&mut stream, &ask).map_err(unknown)?;
        let heard = hears_before(&stream, deadline, &is_recorded).map_err(unknown)?;
        if heard != Heard::Word {
            // The runner may have answered and hung up while the records were looked at; then its word is there to read.
            let _ = wire::write_line(&mut stream, &"withdraw");
        }
        stream.set_read_timeout(Some(WITHDRAWAL)).map_err(unknown)?;
        let reply = Reader::of(&stream).and_then(|mut reader| reader.line()).map_err(unknown)?;
        return match reply {
            Reply::Accepted(how) => Ok(how),
            Reply::Refused(reason) => Err(HoldError::Refused(reason)),
            // The same words of somebody else were recorded, and ours were still with the runner.
            Reply::Withdrawn if heard == Heard::Recorded && Instant::now() < deadline => continue,
            Reply::Withdrawn => Err(HoldError::Withdrawn),
            // The agent has it and has said nothing about it, so its records say it.
            Reply::Lost(_) if heard == Heard::Recorded => Ok(Acceptance::Now),
            Reply::Lost(why) => Err(HoldError::Unknown(why)),
            Reply::State(_) | Reply::Ending => Err(HoldError::Unknown("an unexpected answer".into())),
        };
    }
}

/// What ended the wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Word,
    Recorded,
    Nothing,
}

fn hears_before(stream: &UnixStream, deadline: Instant, is_recorded: impl Fn() -> bool) -> io::Result<Heard> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let pause = Timespec::try_from(left.min(RECORDS_CHECK)).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&pause)) {
            Ok(0) if is_recorded() => return Ok(Heard::Recorded),
            Ok(0) if left.is_zero() => return Ok(Heard::Nothing),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(Heard::Word),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn ask(folder: &Path, ask: &Ask, timeout: Duration) -> io::Result<(UnixStream, Reply)> {
    let mut stream = wire::connect(folder)?;
    let reply = question(&mut stream, ask, timeout)?;
    Ok((stream, reply))
}

fn question(stream: &mut UnixStream, ask: &Ask, timeout: Duration) -> io::Result<Reply> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(OWN_WORD))?;
    wire::write_line(stream, ask)?;
    Reader::of(stream)?.line()
}
