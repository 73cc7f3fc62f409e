//! What callers and a holder say to each other: one line of JSON each way. A caller that watches gets further lines. A
//! caller that waits takes back what it asked for by writing anything more.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use agentctl_adapters::hold::{About, Acceptance, HeldState, Verb};
use agentctl_files::socket;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The name of the socket in the launch folder.
pub(crate) const SOCKET: &str = "hold.sock";

/// The longest line: a message may contain files.
const LONGEST: u64 = 64 << 20;

/// What a caller asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ask {
    State,
    /// The state, and a line whenever it may have changed.
    Watch,
    Tell {
        verb: Verb,
        /// The caller accepts that the agent's own children steer it.
        allow_self: bool,
    },
    /// End the session in the clean way of its protocol.
    End {
        allow_self: bool,
    },
}

/// What the holder answers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    State(Box<Report>),
    Accepted(Acceptance),
    Ending,
    Refused(String),
    /// The caller took it back in time: the agent never gets it.
    Withdrawn,
    /// The line was lost before the agent said yes or no.
    Lost(String),
}

/// What a holder says of its session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) state: HeldState,
    /// When each of the pending requests arrived.
    pub(crate) asked_at: Vec<Timestamp>,
    /// When the open turn began, or the last one ended.
    pub(crate) since: Option<Timestamp>,
    /// A denial has a place for its reason.
    pub(crate) takes_reasons: bool,
    /// Why the agent did not take the first words.
    pub(crate) first_refused: Option<String>,
    /// The agent took the first words.
    #[serde(default)]
    pub(crate) first_taken: bool,
    /// What the agent says of itself and the session, where its protocol has words for that.
    #[serde(default)]
    pub(crate) about: Option<About>,
}

impl Report {
    /// Nothing was said yet but the state.
    pub(crate) fn of(state: HeldState, takes_reasons: bool) -> Self {
        Self {
            state,
            asked_at: Vec::new(),
            since: None,
            takes_reasons,
            first_refused: None,
            first_taken: false,
            about: None,
        }
    }
}

/// A socket's address may have 108 bytes; the way through an open directory is always shorter.
fn address(folder: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Serves the socket of this launch folder. Only its user can enter the folder.
pub(super) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let opened = agentctl_files::open_folder(folder)?;
    let listener = UnixListener::bind(address(&opened))?;
    rustix::fs::chmodat(
        &opened,
        SOCKET,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        rustix::fs::AtFlags::empty(),
    )?;
    Ok(listener)
}

pub(super) fn connect(folder: &Path) -> io::Result<UnixStream> {
    let opened = agentctl_files::open_folder(folder)?;
    socket::connect(&address(&opened))
}

pub(super) fn write_line(stream: &mut UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads lines of bounded length.
pub(super) struct Reader(BufReader<UnixStream>);

impl Reader {
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        stream.try_clone().map(|stream| Self(BufReader::new(stream)))
    }

    pub(super) fn line<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        let read = Read::by_ref(&mut self.0).take(LONGEST).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_slice(&line).map_err(io::Error::from)
    }
}
