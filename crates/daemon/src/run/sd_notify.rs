//! Reports the daemon's state to a service manager over the socket that it named. Without a socket nothing is
//! reported.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

pub(crate) fn tell(socket: Option<&OsStr>, state: &str) -> io::Result<()> {
    let Some(name) = socket else { return Ok(()) };
    let address = match name.as_bytes() {
        #[cfg(target_os = "linux")]
        [b'@', rest @ ..] => {
            use std::os::linux::net::SocketAddrExt;
            SocketAddr::from_abstract_name(rest)?
        }
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_the_state_on_both_kinds_of_socket() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        tell(Some(path.as_os_str()), "READY=1\n").unwrap();
        let mut heard = [0; 64];
        let length = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..length], b"READY=1\n");
        assert!(tell(None, "READY=1\n").is_ok());
        assert!(tell(Some(OsStr::new("/no/such/socket")), "READY=1\n").is_err());
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("agentctl-test-{}", std::process::id());
            let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            tell(Some(OsStr::new(&format!("@{name}"))), "STOPPING=1\n").unwrap();
            let length = manager.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], b"STOPPING=1\n");
        }
    }
}
