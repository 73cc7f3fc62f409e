//! Waits for a daemon only as long as it is alive. A daemon that works on a long answer still answers a
//! liveness check at once; one that is stopped or overloaded does not. A response that has begun must arrive
//! quickly: a trickle of bytes does not extend the deadline.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_adapters::wire::http::Request;

use super::HOST;

/// After this long without data the daemon is asked whether it is alive.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(500);
/// The longest wait for a daemon that is alive: reading ten thousand sessions takes a while.
const LONGEST: Duration = Duration::from_secs(30);
/// How often to retry a connection that the daemon does not accept.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// How long a response that has begun may take beyond the timeout, and the rate at which the rest has to
/// arrive. A busy machine transfers hundreds of megabytes a second.
const BUSY: Duration = Duration::from_millis(300);
const BYTES_PER_MICROSECOND: u64 = 8;

/// A connection that waits for a response.
pub(crate) struct DeadlineStream {
    stream: UnixStream,
    /// Where to check that the daemon is alive, and how long that may take; `None` once silence is no longer
    /// a fault.
    socket: Option<(PathBuf, Duration)>,
    /// When the response began, and how many bytes have arrived.
    begun: Option<(Instant, u64)>,
    /// How long a response may take once it has begun, however short it is.
    grace: Duration,
}

impl DeadlineStream {
    pub(super) fn connect(socket: PathBuf, timeout: Duration) -> io::Result<Self> {
        let stream = connect(&socket, timeout)?;
        stream.set_read_timeout(Some(LIVENESS_INTERVAL))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream, socket: Some((socket, timeout)), begun: None, grace: timeout + BUSY })
    }

    #[cfg(test)]
    pub(super) fn plain(stream: UnixStream) -> Self {
        Self { stream, socket: None, begun: None, grace: LONGEST }
    }

    /// For a response that only the daemon can give.
    pub(super) fn allow_slow_answer(&mut self) {
        self.grace = LONGEST;
    }

    /// Whether the response has begun and arrives slower than any daemon sends one.
    fn is_too_slow(&self) -> bool {
        self.begun.is_some_and(|(began, came)| {
            let due = Duration::from_micros(came / BYTES_PER_MICROSECOND);
            began.elapsed() > self.grace + due
        })
    }

    /// From now on a read without data returns an error, and no liveness check is made.
    pub(super) fn skip_liveness_checks(&mut self) {
        self.socket = None;
    }

    pub(super) fn wait_at_most(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Whether a read waits for data at all.
    pub(super) fn set_waiting(&self, waits: bool) -> io::Result<()> {
        self.stream.set_nonblocking(!waits)
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((socket, timeout)) = &self.socket else { return self.stream.read(buffer) };
        let waiting = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if waiting.elapsed() > LONGEST || self.is_too_slow() {
                        return Err(silent());
                    }
                    // A daemon that has begun to answer is alive.
                    if self.begun.is_none() {
                        check_alive(socket, *timeout)?;
                    }
                }
                Ok(read) => {
                    let (_, came) = self.begun.get_or_insert_with(|| (Instant::now(), 0));
                    *came += read as u64;
                    return if self.is_too_slow() { Err(silent()) } else { Ok(read) };
                }
                other => return other,
            }
        }
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes).map_err(as_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Checks over a separate connection that the daemon at this socket is alive.
pub(super) fn check_alive(socket: &Path, timeout: Duration) -> io::Result<()> {
    let mut stream = connect(socket, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Request::get(HOST, "/healthz").write_to(&mut stream).map_err(as_timeout)?;
    match stream.read(&mut [0; 16]).map_err(as_timeout)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Connects, and retries until the timeout while the daemon accepts no connections.
fn connect(socket: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let began = Instant::now();
    loop {
        match agentctl_daemon::call(socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < timeout => {
                std::thread::sleep(POLL_INTERVAL);
            }
            other => return other.map_err(as_timeout),
        }
    }
}

/// Converts the error of a read or write timeout, which the system reports as "would block".
fn as_timeout(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { silent() } else { error }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it holds its socket and says nothing")
}

/// Whether a daemon exists and does not answer.
pub(crate) fn is_silent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Keeps the first connection waiting until it was asked twice on others whether it is there.
    fn busy_daemon(listener: UnixListener) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            for is_last in [false, true] {
                let (mut stream, _) = listener.accept().unwrap();
                // One that closed before it was asked would break the pipe of who asks.
                let _ = stream.read(&mut [0; 512]).unwrap();
                if is_last {
                    // First of all, so that nobody asks a third time.
                    first.write_all(b"x").unwrap();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            }
        })
    }

    #[test]
    fn one_at_work_is_waited_for_and_one_that_is_stopped_is_not() {
        let place = tempfile::tempdir().unwrap();
        let _held = agentctl_daemon::Home::at(place.path().to_owned()).hold().unwrap().unwrap();
        let path = place.path().join("s");
        let daemon = busy_daemon(UnixListener::bind(&path).unwrap());
        let long = Duration::from_secs(30);
        let mut stream = DeadlineStream::connect(path.clone(), long).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
        daemon.join().unwrap();
        std::fs::remove_file(&path).unwrap();
        let stopped = UnixListener::bind(&path).unwrap();
        let mut stream = DeadlineStream::connect(path.clone(), LIVENESS_INTERVAL).unwrap();
        let began = Instant::now();
        assert!(is_silent(&stream.read(&mut [0; 8]).unwrap_err()));
        assert!(began.elapsed() < long / 2, "{:?}", began.elapsed());
        // The backlog is filled until no connection can wait; it is short here.
        rustix::net::listen(&stopped, 4).unwrap();
        let mut waiting = Vec::new();
        let refused = loop {
            match DeadlineStream::connect(path.clone(), LIVENESS_INTERVAL) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert!(is_silent(&refused), "{refused}");
        stream.skip_liveness_checks();
        stream.wait_at_most(POLL_INTERVAL).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_long_answer_is_read_to_its_end_and_one_that_trickles_is_not() {
        let place = tempfile::tempdir().unwrap();
        let _held = agentctl_daemon::Home::at(place.path().to_owned()).hold().unwrap().unwrap();
        let path = place.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let timeout = Duration::from_secs(3);
        let long = vec![b'x'; 32 << 20];
        let daemon = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            first.write_all(&long).unwrap();
            drop(first);
            let (mut second, _) = listener.accept().unwrap();
            while second.write_all(b"x").is_ok() {
                std::thread::sleep(POLL_INTERVAL);
            }
        });
        let mut whole = Vec::new();
        DeadlineStream::connect(path.clone(), timeout).unwrap().read_to_end(&mut whole).unwrap();
        assert_eq!(whole.len(), 32 << 20);
        let began = Instant::now();
        let mut trickling = DeadlineStream::connect(path, timeout).unwrap();
        assert!(is_silent(&trickling.read_to_end(&mut whole).unwrap_err()));
        assert!(began.elapsed() < LONGEST / 2, "{:?}", began.elapsed());
        drop(trickling);
        daemon.join().unwrap();
    }
}
