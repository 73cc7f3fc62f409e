//! Locks under the device number that `stat` gives for the file.
//!
//! `/proc/locks` names the device of the file system. On btrfs and on overlays (most containers), `stat` gives another
//! number for the same file, so that nobody who compares the two would ever find the holder. The holder's own
//! descriptor knows both: `stat` through it gives the one, its `fdinfo` the other.

use std::os::fd::OwnedFd;

use agentctl_model::HeldLock;
use rustix::fs::major;

use super::entry::{Entry, LookError};
use super::locks;

/// Only file systems without a disk of their own (major number 0) have two numbers.
pub(super) fn as_stat_names_them(held: Vec<HeldLock>, proc: &OwnedFd) -> Vec<HeldLock> {
    let mut buffer = Vec::new();
    let renamed = |lock: HeldLock| match major(lock.device) {
        // What cannot be looked up stays as the kernel wrote it: on most file systems that is right as well.
        0 => {
            device_seen_by_holder(lock, proc, &mut buffer).map_or(lock, |device| HeldLock { device, ..lock })
        }
        _ => lock,
    };
    held.into_iter().map(renamed).collect()
}

/// Whether one of the open files of a process is this one, with a lock on it.
pub(super) fn holds(holder: &Entry, device: u64, inode: u64) -> Result<bool, LookError> {
    let mut buffer = Vec::new();
    for descriptor in holder.numbers("fd")? {
        // It may have been closed meanwhile.
        let Ok(file) = holder.target_of(&format!("fd/{descriptor}")) else { continue };
        if (file.device, file.inode) == (device, inode) {
            holder.read(format!("fdinfo/{descriptor}"), &mut buffer)?;
            let locks = locks::of_descriptor(&String::from_utf8_lossy(&buffer));
            if locks.iter().any(|lock| lock.inode == inode) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn device_seen_by_holder(lock: HeldLock, proc: &OwnedFd, buffer: &mut Vec<u8>) -> Option<u64> {
    let holder = Entry::open(proc, lock.pid.to_string()).ok()?;
    let descriptors = holder.numbers("fd").ok()?;
    descriptors.into_iter().find_map(|descriptor| {
        let file = holder.target_of(&format!("fd/{descriptor}")).ok()?;
        // Another file system may have the same inode number: only the lock itself tells that this is the file.
        (file.inode == lock.inode && carries(&holder, descriptor, lock, buffer).ok()?).then_some(file.device)
    })
}

fn carries(holder: &Entry, descriptor: u32, lock: HeldLock, buffer: &mut Vec<u8>) -> Result<bool, LookError> {
    holder.read(format!("fdinfo/{descriptor}"), buffer)?;
    Ok(locks::of_descriptor(&String::from_utf8_lossy(buffer)).contains(&lock))
}
