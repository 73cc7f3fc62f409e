//! What only a program of our own can do for a test: this test binary, started again as a child to play one part.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentctl_process::Kernel;
use agentctl_process::linux::Linux;
use agentctl_process::portable::Portable;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::child::Kept;

const FOLDER: &str = "ACCOMPLICE_FOLDER";

/// Starts the part (one of the ignored tests below); it works in `folder` and lives until its stdin is closed.
pub(crate) fn start(part: &str, folder: &Path) -> Kept {
    let [program, arguments @ ..] = &call(part)[..] else { unreachable!("a call has a program") };
    Kept::start(Command::new(program).args(arguments).env(FOLDER, folder))
}

/// The same, in an overlay that only the child sees. It says `file unavailable` where overlays cannot be mounted.
pub(crate) fn start_in_overlay(part: &str, folder: &Path) -> Kept {
    let script = r#"
        { mount -t tmpfs none "$ACCOMPLICE_FOLDER" && cd "$ACCOMPLICE_FOLDER" && mkdir lower upper work merged &&
          mount -t overlay none -o lowerdir=lower:/usr,upperdir=upper,workdir=work merged; } 2>/dev/null ||
          { echo file unavailable; exit; }
        ACCOMPLICE_FOLDER=$PWD/merged exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).args(call(part)).env(FOLDER, folder);
    Kept::start(&mut command)
}

fn call(part: &str) -> [OsString; 5] {
    let program = std::env::current_exe().expect("this test binary");
    let name = format!("accomplice::{part}");
    [program.into(), "--ignored".into(), "--nocapture".into(), "--exact".into(), name.into()]
}

fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

fn open(path: PathBuf) -> File {
    OpenOptions::new().create(true).append(true).open(path).expect("a file")
}

fn say_and_stay(word: &str) {
    println!("\n{word}");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
#[ignore = "a part that other tests start"]
fn holds_files() {
    let Some(folder) = folder() else { return };
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

#[test]
#[ignore = "a part that other tests start"]
fn waits_for_the_lock() {
    let Some(folder) = folder() else { return };
    open(folder.join("flock")).lock().expect("a lock");
}

#[test]
#[ignore = "a part that other tests start"]
fn looks_without_descriptors() {
    let Some(folder) = folder() else { return };
    let (native, portable) = (Linux::new(), Portable::new());
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) })
        .expect("a limit");
    let mut kept: Vec<File> = std::iter::from_fn(|| File::open(&folder).ok()).collect();
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
