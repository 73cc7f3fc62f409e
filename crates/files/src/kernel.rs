//! Files that the kernel itself makes up: nobody can plant them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::RawFd;

/// For output that nobody wants.
pub fn dev_null() -> io::Result<File> {
    File::options().write(true).open("/dev/null")
}

/// Fills the bytes with what nobody can foresee.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    File::open("/dev/urandom")?.read_exact(bytes)
}

/// A second way to this process's own standard error, for children.
pub fn own_errors() -> io::Result<File> {
    File::options().append(true).open("/proc/self/fd/2")
}

/// What the kernel says of one of this process's descriptors.
pub fn own_descriptor(descriptor: RawFd) -> io::Result<String> {
    fs::read_to_string(format!("/proc/self/fdinfo/{descriptor}"))
}

/// How many descriptors this process has open, the one for counting among them.
pub fn own_descriptors() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// What the kernel says of this process.
pub fn own_status() -> io::Result<String> {
    fs::read_to_string("/proc/self/status")
}
