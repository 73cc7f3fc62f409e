//! Connecting to the daemon's socket without waiting: one that takes nobody in, because it is stopped or has too much to
//! do, would otherwise hold up whoever wants something of it for as long as it likes.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

#[cfg(target_os = "linux")]
use agentctl_model::Observed;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

#[cfg(target_os = "linux")]
use crate::home::Home;

/// A connection, at once or not at all. An error of kind `WouldBlock` says that somebody is there and has more waiting
/// than it takes.
pub(crate) fn knock(socket: &Path) -> io::Result<UnixStream> {
    let descriptor = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    stream.set_nonblocking(false)?;
    is_ours(&stream)?;
    Ok(stream)
}

/// The same for whoever is going to believe what is said there. The daemon is whoever holds `daemon.lock`: a listener that
/// is seen not to hold it is none, and the error ([`is_impostor`]) names it.
pub fn call(socket: &Path) -> io::Result<UnixStream> {
    let mut looks = 0;
    loop {
        let stream = knock(socket)?;
        let Some(pid) = impostor(&stream, socket) else { return Ok(stream) };
        looks += 1;
        // A daemon that is just ending may have given back its lock before its socket.
        if looks == LOOKS {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, Impostor { pid }));
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

const LOOKS: usize = 3;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Somebody at the daemon's socket who is not the daemon.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} listens at the daemon's socket and does not hold the daemon's lock")]
struct Impostor {
    pid: u32,
}

/// Whether somebody else was found at the daemon's socket.
pub fn is_impostor(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Impostor>())
}

/// The process that listens, if it is seen not to be the daemon.
fn impostor(stream: &UnixStream, socket: &Path) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        let listener = rustix::net::sockopt::socket_peercred(stream).ok()?.pid;
        let pid = u32::try_from(listener.as_raw_nonzero().get()).ok()?;
        let home = Home::at(socket.parent()?.to_owned());
        let holds = match home.lock_identity() {
            Some((device, inode)) => agentctl_process::system().holds(pid, device, inode),
            None => Observed::Seen(false),
        };
        (holds == Observed::Seen(false)).then_some(pid)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stream, socket);
        None
    }
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
        drop(waiting);
        drop(listener);
        assert_eq!(knock(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_whoever_holds_the_lock_is_the_daemon() {
        let place = tempfile::tempdir().unwrap();
        let (home, path) = (Home::at(place.path().to_owned()), place.path().join("s"));
        let _listener = UnixListener::bind(&path).unwrap();
        let refused = call(&path).unwrap_err();
        assert!(is_impostor(&refused), "{refused}: there is no lock at all");
        assert!(refused.to_string().starts_with(&format!("process {} ", std::process::id())), "{refused}");
        let held = home.hold().unwrap();
        assert!(held.is_some() && call(&path).is_ok());
        drop(held);
        assert!(is_impostor(&call(&path).unwrap_err()), "the lock is nobody's");
        let elsewhere = knock(&place.path().join("none")).unwrap_err();
        assert!(!is_impostor(&elsewhere), "{elsewhere}");
    }
}
