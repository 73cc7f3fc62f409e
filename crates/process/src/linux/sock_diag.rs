//! Asks the kernel for one TCP connection by its two addresses (netlink, `SOCK_DIAG_BY_FAMILY`). The tables in `/proc/net` are
//! returned in pieces, so a row can be missed while connections come and go; this question has one exact answer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const TCP: u8 = 6;
const HEADER: usize = 16;
/// Where the user and the inode stand in the kernel's answer: behind the header, four bytes, the addresses and three counters.
const UID: usize = HEADER + 4 + 48 + 12;
const INODE: usize = UID + 4;

/// The user that owns the socket with this local and this remote address; `None` if there is no such socket, or if no process
/// has accepted the connection yet (it then has no inode).
pub(super) fn owner(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u32>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    let mut socket = File::from(socket);
    socket.write_all(&request(local, remote))?;
    let mut answer = [0; 512];
    let length = socket.read(&mut answer)?;
    parse(&answer[..length])
}

fn request(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let (local_ip, remote_ip) = (local.ip().to_canonical(), remote.ip().to_canonical());
    let family = if local_ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let mut body = vec![u8::try_from(family.as_raw()).unwrap_or_default(), TCP, 0, 0];
    // Any state of the connection.
    body.extend(u32::MAX.to_ne_bytes());
    body.extend(local.port().to_be_bytes());
    body.extend(remote.port().to_be_bytes());
    body.extend(sixteen_bytes(local_ip));
    body.extend(sixteen_bytes(remote_ip));
    // Any interface, and no cookie of an earlier answer.
    body.extend(0u32.to_ne_bytes());
    body.extend([0xff; 8]);
    let length = u32::try_from(HEADER + body.len()).unwrap_or_default();
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn sixteen_bytes(address: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    bytes
}

fn parse(answer: &[u8]) -> io::Result<Option<u32>> {
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok::<_, io::Error>(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    // The low half of the word behind the length is the type, on machines of either byte order.
    let kind = answer.get(4..6).ok_or(io::ErrorKind::UnexpectedEof)?;
    match u16::from_ne_bytes([kind[0], kind[1]]) {
        SOCK_DIAG_BY_FAMILY => Ok((number(INODE)? != 0).then_some(number(UID)?)),
        NLMSG_ERROR => {
            let error = io::Error::from_raw_os_error(number(HEADER)?.cast_signed().wrapping_neg());
            if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Most tests run as root, whose number could be read from any field that is zero. Here every field is different.
    #[test]
    fn the_user_is_read_from_its_own_field() {
        let answer = |kind: u16, inode: u32| {
            let mut answer = Vec::new();
            // The header: length, type, flags, sequence, port.
            answer.extend(88u32.to_ne_bytes());
            answer.extend(kind.to_ne_bytes());
            answer.extend(2u16.to_ne_bytes());
            answer.extend([3u32, 4].map(u32::to_ne_bytes).concat());
            // The message: family, state, timer, retransmissions; ports, addresses, interface, cookie.
            answer.extend([2, 1, 5, 6]);
            answer.extend([7; 48]);
            // Expiry and the two queues, then what is asked for.
            answer.extend([8u32, 9, 10, 1000, inode].map(u32::to_ne_bytes).concat());
            answer
        };
        assert_eq!(parse(&answer(SOCK_DIAG_BY_FAMILY, 11)).unwrap(), Some(1000));
        assert_eq!(parse(&answer(SOCK_DIAG_BY_FAMILY, 0)).unwrap(), None, "nobody has accepted it");
        assert!(parse(&answer(99, 11)).is_err(), "another kind of answer");
        for length in 0..UID + 8 {
            assert!(parse(&answer(SOCK_DIAG_BY_FAMILY, 11)[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn the_end_that_was_accepted_has_an_owner_and_the_one_that_waits_has_none() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (near, far) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            assert_eq!(owner(far, near).unwrap(), None, "nobody has accepted it yet");
            let accepted = listener.accept().unwrap();
            let us = rustix::process::getuid().as_raw();
            assert_eq!(owner(far, near).unwrap(), Some(us));
            assert_eq!(owner(near, far).unwrap(), Some(us));
            drop(accepted);
            let unused = SocketAddr::new(far.ip(), 1);
            assert_eq!(owner(unused, near).unwrap(), None);
        }
    }
}
