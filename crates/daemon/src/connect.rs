//! Connects to the daemon's socket, and makes sure that the daemon listens there.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) use agentctl_files::socket::connect;
#[cfg(target_os = "linux")]
use agentctl_model::Observed;

#[cfg(target_os = "linux")]
use crate::home::Home;

/// Connects for a caller that trusts the answers. The daemon is the process that holds `daemon.lock`: a
/// listener that is seen not to hold it is an impostor, and the error ([`is_impostor`]) names its pid.
pub fn call(socket: &Path) -> io::Result<UnixStream> {
    let mut tries = 0;
    loop {
        let stream = connect(socket)?;
        let Some(pid) = impostor(&stream, socket) else { return Ok(stream) };
        tries += 1;
        // A daemon that is ending may have released its lock before its socket.
        if tries == TRIES {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, Impostor { pid }));
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
}

const TRIES: usize = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A process that listens at the daemon's socket and is not the daemon.
#[derive(Debug, thiserror::Error)]
#[error("process {pid} listens at the daemon's socket and does not hold the daemon's lock")]
struct Impostor {
    pid: u32,
}

/// Whether another process was found at the daemon's socket.
pub fn is_impostor(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<Impostor>())
}

/// The pid of the listener, if it is seen not to be the daemon.
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn one_that_takes_nobody_in_keeps_nobody_waiting() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s");
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "after {}", waiting.len());
        drop(waiting);
        drop(listener);
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
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
        let lock = home.hold().unwrap();
        assert!(lock.is_some() && call(&path).is_ok());
        drop(lock);
        assert!(is_impostor(&call(&path).unwrap_err()), "the lock is nobody's");
        let elsewhere = connect(&place.path().join("none")).unwrap_err();
        assert!(!is_impostor(&elsewhere), "{elsewhere}");
    }
}
