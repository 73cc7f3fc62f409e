//! Translates the device numbers of locks into those that `stat` returns.
//!
//! `/proc/locks` contains the device of the file system. On btrfs and on overlays (most containers), `stat` returns another
//! number for the same file, so comparing the two would never find the holder. The descriptor of the holder shows both:
//! `stat` through it returns the one, its `fdinfo` the other.

use std::os::fd::OwnedFd;

use agentctl_model::HeldLock;
use rustix::fs::major;

use super::entry::{Entry, LookError};
use super::locks;

/// Only file systems without a disk of their own (major number 0) have two device numbers.
pub(super) fn as_stat_names_them(held: Vec<HeldLock>, proc: &OwnedFd) -> Vec<HeldLock> {
    let mut buffer = Vec::new();
    let renamed = |lock: HeldLock| match major(lock.device) {
        // If the lookup fails, the kernel's number stays: on most file systems it is the right one.
        0 => {
            device_seen_by_holder(lock, proc, &mut buffer).map_or(lock, |device| HeldLock { device, ..lock })
        }
        _ => lock,
    };
    held.into_iter().map(renamed).collect()
}

/// Whether a process has this file open and holds a lock on it.
pub(super) fn holds(holder: &Entry, device: u64, inode: u64) -> Result<bool, LookError> {
    let mut buffer = Vec::new();
    for descriptor in holder.numbers("fd")? {
        // The descriptor may have been closed since it was listed.
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
        // Another file system may use the same inode number: only the lock in `fdinfo` identifies the file.
        (file.inode == lock.inode && has_lock(&holder, descriptor, lock, buffer).ok()?).then_some(file.device)
    })
}

fn has_lock(
    holder: &Entry,
    descriptor: u32,
    lock: HeldLock,
    buffer: &mut Vec<u8>,
) -> Result<bool, LookError> {
    holder.read(format!("fdinfo/{descriptor}"), buffer)?;
    Ok(locks::of_descriptor(&String::from_utf8_lossy(buffer)).contains(&lock))
}
