//! What may lie at a path, and what the door does with it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests plant what the door is for")]

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use agentctl_files::{copy_small, entries, open_regular, own, read_beginning, read_small, read_text};

/// Somebody who is neither root nor us.
const NOBODY: u32 = 65534;

/// The answer, which must come: a call that waits for somebody would wait for ever.
fn at_once<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(work()));
    told.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| panic!("{what} did not come back"))
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[track_caller]
fn refused<T>(read: io::Result<T>, why: &str) {
    let error = read.err().unwrap_or_else(|| panic!("not refused: {why}"));
    assert!(error.to_string().contains(why), "{error}");
}

#[test]
fn what_is_no_regular_file_or_too_large_is_an_error_and_comes_at_once() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    make_fifo(&fifo);
    let (to_zero, to_fifo) = (place.path().join("zero"), place.path().join("to fifo"));
    symlink("/dev/zero", &to_zero).unwrap();
    symlink(&fifo, &to_fifo).unwrap();
    let sparse = place.path().join("sparse");
    File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    for (path, why) in [
        (&fifo, "is a FIFO"),
        (&to_fifo, "is a FIFO"),
        (&to_zero, "is a device"),
        (&place.path().to_owned(), "is a directory"),
    ] {
        let path = path.clone();
        let (one, other, third) = at_once(why, move || {
            (open_regular(&path).map(drop), read_small(&path, 10), read_beginning(&path, 10))
        });
        refused(one, why);
        refused(other, why);
        refused(third, why);
    }
    refused(read_small(&sparse, 1 << 20), "is larger than 1048576 bytes");
    refused(copy_small(&sparse, &place.path().join("copy"), 1 << 20), "is larger");
    assert!(!place.path().join("copy").exists());
    assert_eq!(read_beginning(&sparse, 3).unwrap(), [0; 3]);
}

#[test]
fn a_small_file_is_read_whole_or_not_at_all() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
    refused(read_small(&path, 9), "is larger than 9 bytes");
    assert_eq!(read_beginning(&path, 4).unwrap(), b"0123");
    // The kernel says of its own files that they are empty.
    assert!(!read_small(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
    refused(read_small(Path::new("/proc/self/status"), 10), "is larger");
    fs::write(&path, [0xff, 0xfe]).unwrap();
    refused(read_text(&path, 10), "is not UTF-8");
    assert_eq!(entries(place.path()).unwrap().flatten().count(), 1);
    assert_eq!(entries(&path).unwrap_err().kind(), ErrorKind::NotADirectory);
}

#[test]
fn no_link_and_no_fifo_is_taken_for_a_file_of_ours() {
    let place = tempfile::tempdir().unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let home = place.path().join("home");
    own::make_folder(&home).unwrap();
    let every = |path: PathBuf, why: &'static str| {
        let answers = at_once(why, move || {
            [
                own::open(&path).map(drop),
                own::read(&path, 100).map(drop),
                own::append(&path).map(drop),
                own::open_or_create(&path).map(drop),
            ]
        });
        for answer in answers {
            refused(answer, why);
        }
    };
    let (link, fifo) = (home.join("link"), home.join("fifo"));
    symlink(&victim, &link).unwrap();
    every(link.clone(), "is a symbolic link");
    make_fifo(&fifo);
    every(fifo.clone(), "not a regular file");
    refused(own::create_new(&fifo).map(drop), "exists");
    for planted in [&link, &fifo] {
        own::create_anew(planted).unwrap().write_all(b"ours").unwrap();
        assert_eq!(own::read_text(planted, 100).unwrap(), "ours");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    // A folder behind a link.
    let (real, turned) = (place.path().join("real"), home.join("turned"));
    fs::create_dir(&real).unwrap();
    fs::write(real.join("file"), "x").unwrap();
    symlink(&real, &turned).unwrap();
    every(turned.join("file"), "must not be a symbolic link");
    refused(own::entries(&turned), "must not be a symbolic link");
    refused(own::make_folder(&turned), "must not be a symbolic link");
    assert!(matches!(own::folder(&turned), Err(own::FolderFault::Link)));
    assert!(matches!(own::folder(&victim), Err(own::FolderFault::NotAFolder)));
    assert_eq!(own::readable_folder(&victim).unwrap(), None, "there is nothing to read in a file");
    assert!(!own::folder(&home.join("none")).unwrap() && !own::folder(&victim.join("x")).unwrap());
}

#[test]
fn what_others_could_write_is_not_believed_where_they_can_come_to_it() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    for (folder, bits, believed) in [
        (0o755, 0o644, true),
        (0o777, 0o644, true),
        (0o700, 0o666, true),
        (0o710, 0o620, false),
        (0o710, 0o602, true),
        (0o701, 0o602, false),
        (0o755, 0o664, false),
    ] {
        mode(place.path(), folder);
        mode(&file, bits);
        let read = own::read(&file, 10);
        assert_eq!(read.is_ok(), believed, "{folder:o} {bits:o}: {read:?}");
        if !believed {
            refused(read, "can be written by other users");
        }
    }
}

#[test]
fn what_another_user_wrote_is_not_believed_wherever_it_lies() {
    if !rustix::process::geteuid().is_root() {
        return agentctl_testkit::skip("only root can give files away");
    }
    let place = tempfile::tempdir().unwrap();
    let home = place.path().join("home");
    own::make_folder(&home).unwrap();
    let (theirs, ours) = (home.join("theirs"), home.join("ours"));
    for path in [&theirs, &ours] {
        fs::write(path, "x").unwrap();
    }
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    refused(own::read(&theirs, 10), "belongs to another user (uid 65534)");
    refused(own::append(&theirs), "belongs to another user");
    assert!(own::read(&ours, 10).is_ok());
    own::create_anew(&theirs).unwrap();
    assert!(own::read(&theirs, 10).is_ok(), "what they left was taken away");
    // The user's own link is followed, for what the user may keep elsewhere; somebody else's never.
    let (kept, link) = (place.path().join("kept"), home.join("link"));
    fs::write(&kept, "mine").unwrap();
    symlink(&kept, &link).unwrap();
    assert_eq!(own::read_kept_elsewhere(&link, 10).unwrap(), "mine");
    mode(&kept, 0o666);
    refused(own::read_kept_elsewhere(&link, 10), "can be written by other users");
    mode(&kept, 0o600);
    chown(&kept, Some(NOBODY), None).unwrap();
    refused(own::read_kept_elsewhere(&link, 10), "belongs to another user");
    chown(&kept, Some(0), None).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    refused(own::read_kept_elsewhere(&link, 10), "is a symbolic link");
    // The same for the folder itself.
    let other_way = place.path().join("other way");
    symlink(&home, &other_way).unwrap();
    assert_eq!(own::readable_folder(&other_way).unwrap(), Some(fs::canonicalize(&home).unwrap()));
    std::os::unix::fs::lchown(&other_way, Some(NOBODY), None).unwrap();
    assert!(matches!(own::readable_folder(&other_way), Err(own::FolderFault::Link)));
    chown(&home, Some(NOBODY), None).unwrap();
    assert!(matches!(own::readable_folder(&home), Err(own::FolderFault::Foreign { owner: NOBODY })));
    refused(own::read(&ours, 10), "belongs to another user (uid 65534, not 0)");
    refused(own::make_folder(&home), "belongs to another user");
    assert_eq!(own::readable_folder(&home.join("none")).unwrap(), None);
}

/// What is appended must not reach a file that somebody else named.
#[test]
fn a_file_with_a_second_name_is_read_and_not_written() {
    let place = tempfile::tempdir().unwrap();
    let (ours, other) = (place.path().join("daemon.log"), place.path().join("elsewhere"));
    fs::write(&other, "theirs").unwrap();
    fs::hard_link(&other, &ours).unwrap();
    refused(own::append(&ours), "hard link");
    refused(own::open_or_create(&ours), "hard link");
    assert_eq!(own::read_text(&ours, 100).unwrap(), "theirs");
}
