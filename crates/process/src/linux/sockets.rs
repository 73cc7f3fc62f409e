//! Where a process listens: its socket descriptors, looked up in the TCP tables of its network namespace.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::entry::{Blind, Entry};

/// The state of a socket that listens, as the table writes it.
const LISTENING: &str = "0A";

/// The addresses that can be reached from here: a process in another network namespace has none of those.
pub(super) fn listening(entry: &Entry, buffer: &mut Vec<u8>) -> Result<Vec<SocketAddr>, Blind> {
    let mut sockets = HashSet::new();
    for descriptor in entry.numbers("fd")? {
        match entry.link(format!("fd/{descriptor}")) {
            Ok(target) => sockets.extend(target.to_str().and_then(socket)),
            // Closed since the folder was listed.
            Err(Blind::Gone) => {}
            Err(other) => return Err(other),
        }
    }
    let here = rustix::fs::readlink("/proc/self/ns/net", Vec::new()).map_err(Blind::from)?;
    if sockets.is_empty() || entry.link("ns/net")?.as_os_str().as_encoded_bytes() != here.as_bytes() {
        return Ok(Vec::new());
    }
    let mut addresses = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        match entry.read_to_end(table, buffer) {
            Ok(()) => addresses.extend(parse(&String::from_utf8_lossy(buffer), &sockets)),
            // A kernel without IPv6 has no such table.
            Err(Blind::Gone) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(addresses)
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

/// `0100007F:1F90`: words of four bytes in the machine's own order, then the port.
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
        assert_eq!((socket("socket:[9]"), socket("pipe:[9]")), (Some(9), None));
    }
}
