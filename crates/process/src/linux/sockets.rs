//! Reads the TCP tables of a network namespace: on which addresses a process listens, and which user accepted a connection.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::entry::{Entry, LookError};

const TABLES: [&str; 2] = ["net/tcp", "net/tcp6"];

/// How often the tables are read before a connection counts as missing.
const ATTEMPTS: usize = 3;

/// The state of a listening socket, as the table writes it.
const LISTENING: &str = "0A";

/// The addresses on which the process listens and that we can reach: none for a process in another network namespace.
pub(super) fn listening(entry: &Entry, buffer: &mut Vec<u8>) -> Result<Vec<SocketAddr>, LookError> {
    let mut sockets = HashSet::new();
    for descriptor in entry.numbers("fd")? {
        match entry.link(format!("fd/{descriptor}")) {
            Ok(target) => sockets.extend(target.to_str().and_then(socket)),
            // Closed since the folder was listed.
            Err(LookError::Gone) => {}
            Err(other) => return Err(other),
        }
    }
    let here = rustix::fs::readlink("/proc/self/ns/net", Vec::new()).map_err(LookError::from)?;
    if sockets.is_empty() || entry.link("ns/net")?.as_os_str().as_encoded_bytes() != here.as_bytes() {
        return Ok(Vec::new());
    }
    let mut addresses = Vec::new();
    for table in TABLES {
        if let Some(rows) = read(entry, table, buffer)? {
            addresses.extend(parse(&rows, &sockets));
        }
    }
    Ok(addresses)
}

/// The user at the other end of a connection of ours. That end is a separate socket which belongs to the process that
/// accepted it, so another process cannot take over the port between this check and what is sent.
pub(super) fn accepted_by(
    entry: &Entry,
    near: SocketAddr,
    far: SocketAddr,
) -> Result<Option<u32>, LookError> {
    let mut buffer = Vec::new();
    // The kernel returns the tables in pieces, and a row can be missed between two of them.
    for _ in 0..ATTEMPTS {
        for table in TABLES {
            let rows = read(entry, table, &mut buffer)?.unwrap_or_default();
            if let Some(user) = owner(&rows, far, near) {
                return Ok(Some(user));
            }
        }
    }
    Ok(None)
}

fn read(entry: &Entry, table: &str, buffer: &mut Vec<u8>) -> Result<Option<String>, LookError> {
    match entry.read_to_end(table, buffer) {
        Ok(()) => Ok(Some(String::from_utf8_lossy(buffer).into_owned())),
        // A kernel without IPv6 has no such table.
        Err(LookError::Gone) if table != TABLES[0] => Ok(None),
        Err(other) => Err(other),
    }
}

/// The owner of the socket with these addresses. A socket that nobody has accepted yet, or that was closed, has no inode,
/// and the kernel writes root as its owner.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let is = |text: &str, wanted: SocketAddr| {
        let same = |found: SocketAddr| {
            found.ip().to_canonical() == wanted.ip().to_canonical() && found.port() == wanted.port()
        };
        address(text).is_some_and(same)
    };
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let has_owner = *fields.get(9)? != "0" && is(fields[1], local) && is(fields[2], remote);
        has_owner.then(|| fields[7].parse().ok()).flatten()
    })
}

/// `socket:[1234]`
fn socket(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn parse(table: &str, sockets: &HashSet<u64>) -> Vec<SocketAddr> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let inode = fields.get(9)?.parse().ok()?;
            let listens = *fields.get(3)? == LISTENING && sockets.contains(&inode);
            listens.then(|| address(fields[1])).flatten()
        })
        .collect()
}

/// `0100007F:1F90`: words of four bytes in the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = words.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match words.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for index in 0..4 {
                bytes[index * 4..index * 4 + 4].copy_from_slice(&word(index)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn only_listening_sockets_of_the_process_are_taken() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1000 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1 0\n\
             1: 0100007F:1001 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 78 1 0\n\
             2: 0100007F:1002 0100007F:1000 01 00000000:00000000 00:00000000 00000000  1000        0 79 1 0\n\
             3: torn";
        let mine = HashSet::from([77, 79]);
        assert_eq!(parse(table, &mine), [SocketAddr::from(([127, 0, 0, 1], 4096))]);
        let six = "00000000000000000000000001000000:0050";
        assert_eq!(address(six), Some("[::1]:80".parse().expect("an address")));
        assert_eq!(address("7F:1"), None);
        let (server, client) = ("127.0.0.1:4096".parse().unwrap(), "127.0.0.1:4098".parse().unwrap());
        assert_eq!(owner(table, client, server), Some(1000));
        assert_eq!(owner(table, server, client), None, "a listener is no end of a connection");
        let waiting = table.replace(" 79 1 0", " 0 1 0");
        assert_eq!(owner(&waiting, client, server), None, "nobody has accepted it yet");
        let mapped = "sl\n 0: 0000000000000000FFFF00000100007F:1000 0000000000000000FFFF00000100007F:1002 01 0:0 0:0 0 33 0 5";
        assert_eq!(owner(mapped, server, client), Some(33), "a server that listens on both at once");
        assert_eq!((socket("socket:[9]"), socket("pipe:[9]")), (Some(9), None));
    }
}
