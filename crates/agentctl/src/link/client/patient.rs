//! Waiting for a daemon no longer than it is alive. One that works on a long answer says at once that it is there; one
//! that is stopped, or has no room for anybody, does not. An answer that has begun lies ready and comes at once: bytes that
//! trickle buy no time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_adapters::wire::http::Request;

use super::HOST;

/// After so much silence it is asked whether it is there at all.
const SILENCE: Duration = Duration::from_millis(500);
/// The longest silence of a daemon that is there. Reading ten thousand sessions takes a while.
const LONGEST: Duration = Duration::from_secs(30);
/// How often it is tried whether one that takes nobody in has room by now.
const LOOK: Duration = Duration::from_millis(10);

/// How long an answer that has begun may take beyond the daemon's own patience, and how fast the rest of it comes. A busy
/// machine passes on hundreds of megabytes a second.
const BUSY: Duration = Duration::from_millis(300);
const BYTES_PER_MICROSECOND: u64 = 8;

/// A connection on which an answer is waited for.
pub(crate) struct Patient {
    stream: UnixStream,
    /// Where to ask whether the daemon is there, and how long that may take; `None` once silence is no fault any more.
    socket: Option<(PathBuf, Duration)>,
    /// When the answer began, and how much of it came.
    begun: Option<(Instant, u64)>,
    /// How long an answer may take once it has begun, however short it is.
    grace: Duration,
}

impl Patient {
    pub(super) fn connect(socket: PathBuf, patience: Duration) -> io::Result<Self> {
        let stream = connect(&socket, patience)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, socket: Some((socket, patience)), begun: None, grace: patience + BUSY })
    }

    #[cfg(test)]
    pub(super) fn plain(stream: UnixStream) -> Self {
        Self { stream, socket: None, begun: None, grace: LONGEST }
    }

    /// For an answer that nobody else can give.
    pub(super) fn bear_slowness(&mut self) {
        self.grace = LONGEST;
    }

    /// Whether the answer has begun and comes slower than any daemon sends one.
    fn trickles(&self) -> bool {
        self.begun.is_some_and(|(began, came)| {
            let due = Duration::from_micros(came / BYTES_PER_MICROSECOND);
            began.elapsed() > self.grace + due
        })
    }

    /// From now on a read that finds nothing says so, and nobody is asked.
    pub(super) fn be_plain(&mut self) {
        self.socket = None;
    }

    pub(super) fn wait_at_most(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((socket, patience)) = &self.socket else { return self.stream.read(buffer) };
        let waiting = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if waiting.elapsed() > LONGEST || self.trickles() {
                        return Err(silent());
                    }
                    // One that has begun to answer is there.
                    if self.begun.is_none() {
                        is_there(socket, *patience)?;
                    }
                }
                Ok(read) => {
                    let (_, came) = self.begun.get_or_insert_with(|| (Instant::now(), 0));
                    *came += read as u64;
                    return if self.trickles() { Err(silent()) } else { Ok(read) };
                }
                other => return other,
            }
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).map_err(silence)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Asks the daemon at this socket whether it is there, on a connection of its own.
pub(super) fn is_there(socket: &Path, patience: Duration) -> io::Result<()> {
    let mut stream = connect(socket, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Request::get(HOST, "/healthz").write_to(&mut stream).map_err(silence)?;
    match stream.read(&mut [0; 16]).map_err(silence)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// A connection, unless nobody is taken in all the time.
fn connect(socket: &Path, patience: Duration) -> io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match agentctl_daemon::call(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < patience => {
                std::thread::sleep(LOOK);
            }
            other => return other.map_err(silence),
        }
    }
}

/// Nothing came in time: of a socket with a deadline the system says that it would block.
fn silence(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { silent() } else { error }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it holds its socket and says nothing")
}

/// Whether somebody is there who does not answer.
pub(crate) fn is_silent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers `/healthz` on every connection but the first, which it keeps waiting for so long.
    fn busy_daemon(listener: UnixListener, waiting: Duration) -> std::thread::JoinHandle<usize> {
        std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            let began = Instant::now();
            listener.set_nonblocking(true).unwrap();
            let mut asked = 0;
            while began.elapsed() < waiting {
                if let Ok((mut stream, _)) = listener.accept() {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                    asked += 1;
                }
                std::thread::sleep(LOOK);
            }
            first.write_all(b"x").unwrap();
            asked
        })
    }

    #[test]
    fn one_at_work_is_waited_for_and_one_that_is_stopped_is_not() {
        let place = tempfile::tempdir().unwrap();
        let _held = agentctl_daemon::Home::at(place.path().to_owned()).hold().unwrap().unwrap();
        let path = place.path().join("s");
        let daemon = busy_daemon(UnixListener::bind(&path).unwrap(), 3 * SILENCE);
        let long = Duration::from_secs(30);
        let mut patient = Patient::connect(path.clone(), long).unwrap();
        assert_eq!(patient.read(&mut [0; 8]).unwrap(), 1);
        assert!(daemon.join().unwrap() >= 1, "it was asked whether it is there");
        std::fs::remove_file(&path).unwrap();
        let stopped = UnixListener::bind(&path).unwrap();
        let mut patient = Patient::connect(path.clone(), SILENCE).unwrap();
        let began = Instant::now();
        assert!(is_silent(&patient.read(&mut [0; 8]).unwrap_err()));
        assert!(began.elapsed() < long / 2, "{:?}", began.elapsed());
        // Until nobody more can even wait, which are few here.
        rustix::net::listen(&stopped, 4).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match Patient::connect(path.clone(), SILENCE) {
                Ok(patient) => waiting.push(patient),
                Err(error) => break error,
            }
        };
        assert!(is_silent(&refused), "{refused}");
        patient.be_plain();
        patient.wait_at_most(LOOK).unwrap();
        assert_eq!(patient.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_long_answer_is_read_to_its_end_and_one_that_trickles_is_not() {
        let place = tempfile::tempdir().unwrap();
        let _held = agentctl_daemon::Home::at(place.path().to_owned()).hold().unwrap().unwrap();
        let path = place.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let patience = Duration::from_millis(200);
        let daemon = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            first.write_all(&vec![b'x'; 32 << 20]).unwrap();
            drop(first);
            let (mut second, _) = listener.accept().unwrap();
            while second.write_all(b"x").is_ok() {
                std::thread::sleep(LOOK);
            }
        });
        let mut whole = Vec::new();
        Patient::connect(path.clone(), patience).unwrap().read_to_end(&mut whole).unwrap();
        assert_eq!(whole.len(), 32 << 20);
        let began = Instant::now();
        let mut trickling = Patient::connect(path, patience).unwrap();
        assert!(is_silent(&trickling.read_to_end(&mut whole).unwrap_err()));
        assert!(began.elapsed() < LONGEST / 2, "{:?}", began.elapsed());
        drop(trickling);
        daemon.join().unwrap();
    }
}
