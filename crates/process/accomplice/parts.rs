//! The parts that tests of the kernel witness let a child play: holding files, waiting for a lock, running out of descriptors.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentctl_process::Kernel;
use agentctl_process::linux::Linux;
use agentctl_process::portable::Portable;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

pub(crate) fn play() {
    let folder =
        std::env::var_os("ACCOMPLICE_FOLDER").map(PathBuf::from).expect("ACCOMPLICE_FOLDER names a folder");
    match std::env::args().nth(1).as_deref() {
        Some("holds_files") => holds_files(&folder),
        Some("waits_for_the_lock") => waits_for_the_lock(&folder),
        Some("looks_without_descriptors") => looks_without_descriptors(&folder),
        other => panic!("no part is called {other:?}"),
    }
}

fn open(path: PathBuf) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("a file")
}

fn say_and_stay(word: &str) {
    println!("\n{word}");
    let _ = std::io::stdin().read(&mut [0]);
}

fn holds_files(folder: &Path) {
    let flock = open(folder.join("flock"));
    flock.lock().expect("a lock");
    let posix = open(folder.join("posix"));
    fcntl_lock(&posix, FlockOperation::LockExclusive).expect("a lock");
    std::fs::write(folder.join("read"), "x").expect("a file");
    let read = File::open(folder.join("read")).expect("a file");
    let deleted = open(folder.join("deleted"));
    std::fs::remove_file(folder.join("deleted")).expect("removed");
    let file = flock.metadata().expect("a file");
    println!("\nfile {} {}", file.dev(), file.ino());
    say_and_stay("holding");
    drop((flock, posix, read, deleted));
}

fn waits_for_the_lock(folder: &Path) {
    open(folder.join("flock")).lock().expect("a lock");
}

fn looks_without_descriptors(folder: &Path) {
    let (native, portable) = (Linux::new(), Portable::new());
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) })
        .expect("a limit");
    let mut kept: Vec<File> = std::iter::from_fn(|| File::open(folder).ok()).collect();
    // With one descriptor the table can be listed, with two an entry can be opened, with neither it can be read.
    for spare in 0..3 {
        let answers = (native.heads().why_not().is_some(), portable.heads().why_not().is_some());
        if answers != (true, true) {
            kept.clear();
            println!("\nanswers with {spare} spare: {answers:?}");
            return;
        }
        kept.pop();
    }
    kept.clear();
    println!("\nanswers blind");
}
