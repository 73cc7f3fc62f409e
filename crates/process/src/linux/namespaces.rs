//! Which pid namespace `/proc` shows, and what is known about processes in other namespaces.

use std::fs;
use std::path::Path;

use agentctl_model::{NamespaceView, PidNamespace};
use rustix::fs::{Mode, OFlags, fstat, open};

use super::clock::StartClock;
use super::entry::{Entry, FileId};
use super::stat::Stat;

/// The kernel's number for the first pid namespace of a machine (`PROC_PID_INIT_INO`), the same on every machine.
const FIRST: &str = "pid:[4026531836]";

const MACHINE: &str = "/etc/machine-id";

pub(super) fn view(proc: &Path) -> NamespaceView {
    if sees_all(proc) {
        return NamespaceView::ALL;
    }
    let clock = StartClock::now();
    let first = fs::read(proc.join("1/stat")).ok().and_then(|line| Stat::parse(&line));
    NamespaceView {
        sees_all: false,
        namespace: namespace(proc),
        born_at: first.and_then(|stat| clock.at(stat.start)),
        booted_at: clock.boot(),
    }
}

/// Our own namespace, whether `/proc` shows that one or one above it. Where `/proc` does not show this process, it is the
/// namespace that `/proc` shows.
fn namespace(proc: &Path) -> Option<PidNamespace> {
    let link = ["self", "1"].iter().find_map(|who| fs::read_link(proc.join(who).join("ns/pid")).ok())?;
    let machine = agentctl_files::read_text(Path::new(MACHINE), 4096).unwrap_or_default();
    PidNamespace::named(&machine, link.to_str()?)
}

/// Whether `/proc` shows the first namespace of the machine. If `/proc` is mounted for our own namespace, our own link shows
/// that. If we are in a namespace below it, the link of process 1 shows it, where we are permitted to read it.
fn sees_all(proc: &Path) -> bool {
    let is_first =
        |who: &str| fs::read_link(proc.join(who).join("ns/pid")).is_ok_and(|link| link.as_os_str() == FIRST);
    is_first("self") || is_first("1")
}

/// The pid of a process in its own namespace, if that is below the one that `/proc` shows.
pub(super) fn inner_pid(entry: &Entry, pid: u32, buffer: &mut Vec<u8>) -> Option<u32> {
    entry.read("status", buffer).ok()?;
    innermost(&String::from_utf8_lossy(buffer)).filter(|inner| *inner != pid)
}

/// `NSpid:\t4711\t42\t7`: outermost first.
fn innermost(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let mut pids = line.split_ascii_whitespace();
    let _outermost = pids.next()?;
    pids.last()?.parse().ok()
}

/// The identity of a directory, independent of its path.
pub(super) fn folder(path: &Path) -> Option<FileId> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Some(fstat(open(path, flags, Mode::empty()).ok()?).ok()?.into())
}

/// Whether the directory lies on a mount of only a part of a file system: a container gets directories of its host that way.
pub(super) fn is_lent(proc: &Path, folder: &Path) -> bool {
    let Ok(table) = fs::read_to_string(proc.join("self/mountinfo")) else { return false };
    let Ok(real) = fs::canonicalize(folder) else { return false };
    lent(&table, &real)
}

/// The fields of a line are: mount id, parent id, device, root of the mount within its file system, mount point.
fn lent(table: &str, folder: &Path) -> bool {
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        Some((fields.next()?, fields.next()?.replace("\\040", " ")))
    });
    // Of two mounts at one path the later one is on top, and `max_by_key` returns the last of equals.
    let holding = mounts.filter(|(_, place)| folder.starts_with(place)).max_by_key(|(_, place)| place.len());
    holding.is_some_and(|(shown, place)| shown != "/" && place != "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_the_one_that_the_process_knows() {
        assert_eq!(innermost("Name:\tx\nNSpid:\t4711\t42\t7\n"), Some(7));
        assert_eq!(innermost("NSpid:\t4711\n"), None, "it lives in ours");
        assert_eq!(innermost("Name:\tx\n"), None);
    }

    #[test]
    fn a_folder_that_was_mounted_into_a_container_is_lent() {
        let table = "27 1 0:50 / / rw - overlay overlay rw\n\
                     40 27 254:0 /home/dev/.claude /root/.claude rw - ext4 /dev/vda rw\n\
                     41 27 0:60 / /tmp rw - tmpfs tmpfs rw\n\
                     42 40 0:61 / /root/.claude/own\\040part rw - tmpfs tmpfs rw\n";
        assert!(lent(table, Path::new("/root/.claude/sessions")));
        assert!(!lent(table, Path::new("/root/.codex")), "the container's own");
        assert!(!lent(table, Path::new("/tmp/home/.claude")), "a whole file system");
        assert!(!lent(table, Path::new("/root/.claude/own part/x")));
    }
}
