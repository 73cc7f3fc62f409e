//! The files that a process has open: `/proc/PID/fd` and `/proc/PID/fdinfo`.

use agentctl_model::OpenFile;

use super::entry::{Entry, LookError};

/// Sockets, pipes and other descriptors without a path are left out. The path of an unlinked file keeps the kernel's
/// ` (deleted)` mark, because a file that has the old name now is not the one that is open.
pub(super) fn open_files(entry: &Entry, buffer: &mut Vec<u8>) -> Result<Vec<OpenFile>, LookError> {
    let mut files = Vec::new();
    for descriptor in entry.numbers("fd")? {
        match open_file(entry, descriptor, buffer) {
            Ok(file) => files.extend(file),
            // The descriptor was closed since it was listed.
            Err(LookError::Gone) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(files)
}

fn open_file(entry: &Entry, descriptor: u32, buffer: &mut Vec<u8>) -> Result<Option<OpenFile>, LookError> {
    let path = entry.link(format!("fd/{descriptor}"))?;
    if !path.is_absolute() {
        return Ok(None);
    }
    entry.read(format!("fdinfo/{descriptor}"), buffer)?;
    Ok(writable(buffer).map(|writable| OpenFile { path, writable }))
}

/// The `flags:` line of an fdinfo file is octal; its two lowest bits are the access mode, which is 0 for read-only.
fn writable(fdinfo: &[u8]) -> Option<bool> {
    let line = std::str::from_utf8(fdinfo).ok()?.lines().find_map(|line| line.strip_prefix("flags:"))?;
    Some(u32::from_str_radix(line.trim(), 8).ok()? & 0b11 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_mode_tells_readers_from_writers() {
        assert_eq!(writable(b"pos:\t0\nflags:\t0100000\nmnt_id:\t29\n"), Some(false));
        assert_eq!(writable(b"pos:\t0\nflags:\t0102001\nmnt_id:\t29\n"), Some(true));
        assert_eq!(writable(b"pos:\t0\nflags:\t02000002\n"), Some(true));
        assert_eq!(writable(b"pos:\t0\n"), None);
    }
}
