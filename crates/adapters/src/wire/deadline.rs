//! Sockets that answer in time or not at all.
//!
//! The deadline belongs to the socket itself: before each system call the socket gets the remaining time as its
//! timeout, and once no time is left it fails. Code above it may therefore read as often as it likes: TLS, which
//! needs many reads for one record, is bounded like everything else, and a server that trickles bytes gains no time
//! with them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream with a deadline.
pub(crate) trait Timed: Read + Write {
    fn wait_until(&mut self, deadline: Instant);
}

impl<S: Timed + ?Sized> Timed for Box<S> {
    fn wait_until(&mut self, deadline: Instant) {
        self.as_mut().wait_until(deadline);
    }
}

/// A socket of the system, whose calls can be bounded one by one.
pub(crate) trait Socket: Read + Write {
    fn bound_next_call(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn bound_next_call(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Socket for UnixStream {
    fn bound_next_call(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

pub(crate) struct Bounded<S> {
    socket: S,
    deadline: Instant,
}

impl<S: Socket> Bounded<S> {
    pub(crate) fn new(socket: S, deadline: Instant) -> Self {
        Self { socket, deadline }
    }

    fn call<T>(&mut self, mut call: impl FnMut(&mut S) -> io::Result<T>) -> io::Result<T> {
        loop {
            self.socket.bound_next_call(left_until(self.deadline)?)?;
            match call(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // This is how the system reports that the timeout of one call is over.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                other => return other,
            }
        }
    }
}

impl Bounded<TcpStream> {
    /// The addresses of our end and of the peer.
    pub(crate) fn ends(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.socket.local_addr()?, self.socket.peer_addr()?))
    }
}

impl<S: Socket> Timed for Bounded<S> {
    fn wait_until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }
}

impl<S: Socket> Read for Bounded<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.call(|socket| socket.read(into))
    }
}

impl<S: Socket> Write for Bounded<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|socket| socket.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(Write::flush)
    }
}

/// The remaining time; an error once it is over.
pub(crate) fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_buy_no_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let trickle = std::thread::spawn(move || while far.write_all(b" ").is_ok() {});
        let mut bounded = Bounded::new(near, Instant::now() + Duration::from_millis(50));
        let mut byte = [0];
        let error = loop {
            // Every single read succeeds, and the deadline is reached all the same.
            if let Err(error) = bounded.read(&mut byte) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        bounded.wait_until(Instant::now() + Duration::from_mins(1));
        assert_eq!(bounded.read(&mut byte).unwrap(), 1, "with more time it goes on");
        drop(bounded);
        trickle.join().unwrap();
    }

    #[test]
    fn silence_ends_a_read_and_a_full_pipe_a_write() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut bounded = Bounded::new(near, Instant::now() + Duration::from_millis(30));
        assert_eq!(bounded.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        bounded.wait_until(Instant::now() + Duration::from_millis(30));
        let error = bounded.write_all(&vec![0; 32 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }
}
