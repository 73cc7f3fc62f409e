//! Connects to sockets in our own folders without blocking. A listener that accepts no connections, because it is stopped
//! or overloaded, could otherwise delay its caller for any length of time.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

/// Connects at once or fails. An error of kind `WouldBlock` means that a listener exists and its queue of connections is
/// full. Nothing is said to a listener of another user.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    let descriptor = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true)?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?;
    stream.set_nonblocking(false)?;
    is_ours(&stream)?;
    Ok(stream)
}

/// Another user who once could write in agentctl's folder may have placed a socket there. Our requests contain variables
/// and prompts, which only our own processes may receive.
fn is_ours(stream: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let listener = rustix::net::sockopt::socket_peercred(stream)?.uid;
        if listener != rustix::process::geteuid() {
            let why = format!("another user (uid {}) listens there", listener.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    let _ = stream;
    Ok(())
}
