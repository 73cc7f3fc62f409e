//! Finds the mounted file systems that may never answer: those that another program or another machine serves.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// File systems that the kernel serves itself, from memory or from a disk. Any other may wait for a program or a machine.
const KERNEL_FILE_SYSTEMS: [&str; 38] = [
    "bcachefs",
    "binfmt_misc",
    "bpf",
    "btrfs",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "erofs",
    "exfat",
    "ext2",
    "ext3",
    "ext4",
    "f2fs",
    "fusectl",
    "hugetlbfs",
    "iso9660",
    "jfs",
    "mqueue",
    "nsfs",
    "ntfs3",
    "overlay",
    "proc",
    "pstore",
    "ramfs",
    "rootfs",
    "securityfs",
    "selinuxfs",
    "squashfs",
    "sysfs",
    "tmpfs",
    "tracefs",
    "vfat",
    "xfs",
    "zfs",
];

/// The mount points of the file systems that another program or machine serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Served(Vec<PathBuf>);

impl Served {
    /// The ones that this process sees now. `None` where the mount table cannot be read.
    pub(crate) fn now() -> Option<Self> {
        static TABLE: Mutex<Option<(File, Served)>> = Mutex::new(None);
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.take();
        let (mut file, known) = match known {
            Some((file, served)) => (file, Some(served)),
            None => (File::open("/proc/self/mountinfo").ok()?, None),
        };
        let served = match known {
            Some(served) if !has_changed(&file) => served,
            _ => {
                let mut text = Vec::new();
                file.rewind().ok()?;
                file.read_to_end(&mut text).ok()?;
                Self::parse(&text)
            }
        };
        *table = Some((file, served.clone()));
        Some(served)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mount that contains this path, by the text of the path: links are not resolved.
    pub(crate) fn around(&self, path: &Path) -> Option<&Path> {
        let above = self.0.iter().filter(|mount| path.starts_with(mount));
        above.max_by_key(|mount| mount.as_os_str().len()).map(PathBuf::as_path)
    }

    fn parse(text: &[u8]) -> Self {
        let served = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b' ');
            let place = unescaped(fields.nth(4)?);
            let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
            // No session works in a directory below /proc, so mounts there do not matter.
            let is_of_kernel = KERNEL_FILE_SYSTEMS.iter().any(|name| name.as_bytes() == kind);
            (!is_of_kernel && !place.starts_with("/proc")).then_some(place)
        });
        Self(served.collect())
    }
}

/// Whether anything was mounted or unmounted since the last call.
fn has_changed(table: &File) -> bool {
    let mut polled = [PollFd::new(table, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_err()
        || polled[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
}

/// The kernel escapes spaces, tabs, line breaks and backslashes as `\` with three octal digits.
fn unescaped(written: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((first, more)) = rest.split_first() {
        let number = more.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &more[3..] } else { more };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_program_or_machine_serves_is_told_apart_by_its_kind() {
        let served = Served::parse(
            b"1 0 254:0 / / rw - ext4 /dev/root rw\n\
              2 1 0:40 / /mnt/far\\040away rw,nosuid shared:1 - fuse.sshfs me@there:/ rw\n\
              3 2 0:41 / /mnt/far\\040away/deeper rw - nfs4 there:/ rw\n\
              4 1 0:42 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n\
              5 1 0:43 / /tmp rw - tmpfs tmpfs rw\n",
        );
        assert_eq!(served.0, [Path::new("/mnt/far away"), Path::new("/mnt/far away/deeper")]);
        assert_eq!(served.around(Path::new("/mnt/far away/x")), Some(Path::new("/mnt/far away")));
        assert_eq!(served.around(Path::new("/mnt/far away/deeper")), Some(Path::new("/mnt/far away/deeper")));
        assert_eq!(served.around(Path::new("/mnt/far")), None);
        assert!(Served::parse(b"1 0 254:0 / / rw - ext4 /dev/root rw\nbroken\n").is_empty());
    }
}
