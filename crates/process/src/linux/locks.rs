//! Parses the lines of `/proc/locks`, which also appear in the `fdinfo` of the locked descriptor. Pure.
//!
//! Two kinds of locks have no pid and are left out. An open-file-description lock (`OFDLCK`) belongs to an open file and
//! not to a process: the kernel writes pid -1. A holder outside this pid namespace has pid 0.
//!
//! The pid of a `FLOCK` line is the process that took the lock. A child that inherited the descriptor keeps the lock
//! after that process has died, so the caller must still match the pid with a live process.

use agentctl_model::HeldLock;
use rustix::fs::makedev;

pub(super) fn parse(text: &str) -> Vec<HeldLock> {
    text.lines().filter_map(parse_line).collect()
}

/// The locks in an `fdinfo` file, each after `lock:`.
pub(super) fn of_descriptor(fdinfo: &str) -> Vec<HeldLock> {
    fdinfo.lines().filter_map(|line| parse_line(line.strip_prefix("lock:")?)).collect()
}

/// `1: FLOCK  ADVISORY  WRITE 6300 fe:00:10010766 0 EOF`
fn parse_line(line: &str) -> Option<HeldLock> {
    let mut fields = line.split_ascii_whitespace();
    let _number = fields.next()?;
    // A process that waits for a lock has `->` in this field and holds nothing; leases are not locks.
    let kind = fields.next()?;
    if !matches!(kind, "FLOCK" | "POSIX" | "OFDLCK") {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok().filter(|pid| *pid != 0)?;
    let mut file = fields.next()?.split(':');
    let major = u32::from_str_radix(file.next()?, 16).ok()?;
    let minor = u32::from_str_radix(file.next()?, 16).ok()?;
    let inode = file.next()?.parse().ok()?;
    Some(HeldLock { pid, device: makedev(major, minor), inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flock_and_posix_locks_name_their_holder_and_file() {
        let text = "1: FLOCK  ADVISORY  WRITE 6300 fe:00:10010766 0 EOF\n\
                    2: POSIX  ADVISORY  READ  77 08:102:99 128 1073741826\n";
        let (root, other) = (65024, makedev(8, 0x102));
        assert_eq!(
            parse(text),
            [
                HeldLock { pid: 6300, device: root, inode: 10_010_766 },
                HeldLock { pid: 77, device: other, inode: 99 },
            ]
        );
    }

    #[test]
    fn a_descriptor_tells_of_its_own_locks() {
        let fdinfo = "pos:\t0\nflags:\t0102\nlock:\t1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF\n";
        let lock = HeldLock { pid: 359, device: makedev(0, 0x13), inode: 11_691 };
        assert_eq!(of_descriptor(fdinfo), [lock]);
    }

    #[test]
    fn who_waits_or_cannot_be_named_holds_nothing() {
        let text = "1: FLOCK  ADVISORY  WRITE 0 fe:00:1 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 12 fe:00:1 0 EOF\n\
                    2: OFDLCK ADVISORY  WRITE -1 fe:00:2 0 EOF\n\
                    3: LEASE  ACTIVE    READ  12 fe:00:3 0 EOF\n\
                    4: POSIX  ADVISORY  WRITE 12 <none>:0 0 EOF\n\
                    5: FLOCK  ADVIS";
        assert_eq!(parse(text), []);
    }
}
