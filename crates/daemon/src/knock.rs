//! Connecting to the daemon's socket without waiting: one that takes nobody in, because it is stopped or has too much to
//! do, would otherwise hold up whoever wants something of it for as long as it likes.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// A connection, at once or not at all. An error of kind `WouldBlock` says that somebody is there and has more waiting
/// than it takes.
pub fn knock(socket: &Path) -> io::Result<UnixStream> {
    let descriptor = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    stream.set_nonblocking(false)?;
    is_ours(&stream)?;
    Ok(stream)
}

/// Whoever could once write in agentctl's folder may have put a socket there. What we ask with, variables and prompts
/// among it, is for our own daemon alone.
fn is_ours(stream: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let listener = rustix::net::sockopt::socket_peercred(stream)?.uid;
        if listener != rustix::process::geteuid() {
            let why = format!("another user (uid {}) listens at the daemon's socket", listener.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    let _ = stream;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_that_takes_nobody_in_keeps_nobody_waiting() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        assert_eq!(knock(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match knock(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "after {}", waiting.len());
        drop(listener);
        assert_eq!(knock(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
