//! Special files that the kernel provides. No user can replace them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::RawFd;

/// `/dev/null`, for output that is discarded.
pub fn dev_null() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// Random bytes that nobody can predict.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The id that the kernel gave this boot; `None` where it gives none.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

/// A second descriptor for this process's standard error, to give to children.
pub fn own_errors() -> io::Result<File> {
    File::options().append(true).open("/proc/self/fd/2")
}

/// The `fdinfo` of one of this process's descriptors.
pub fn own_descriptor(descriptor: RawFd) -> io::Result<String> {
    fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))
}

/// How many descriptors this process has open, including the one that is used for counting.
pub fn own_descriptors() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// `/proc/self/status`.
pub fn own_status() -> io::Result<String> {
    fs::read_to_string("/proc/self/status")
}
