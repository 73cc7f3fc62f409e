//! The directory of one launch: what is written into it, and in which order.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_files::own;
use agentctl_model::EndedBy;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{Callback, Exit, Failed, Record, VERSION};
use crate::keep::fault::reach;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::whole_file;

/// How large an agent's output may grow, and how much of its end is kept when it grew larger.
const OUTPUT_CAP: u64 = 16 << 20;
const OUTPUT_KEPT: u64 = 4 << 20;

/// The largest file of a launch that is read whole. A prompt may contain files, but not that many.
const LARGEST: u64 = 256 << 20;

/// How long to wait for the lock of the `told` mark. Writing one file takes milliseconds, so a process that holds it
/// this long is stopped or broken.
const MARK_TIMEOUT: Duration = Duration::from_secs(15);

/// One launch on disk.
#[derive(Debug, Clone)]
pub struct LaunchFolder {
    path: PathBuf,
}

/// A launch directory that was just made, and the two locks that keep others from treating it as a leftover.
#[derive(Debug)]
pub struct NewLaunch {
    pub folder: LaunchFolder,
    /// The runner holds this one for its whole life.
    pub held: KernelLock,
    /// The caller of the launch holds this one until it has read the result.
    pub awaited: KernelLock,
}

impl LaunchFolder {
    /// Makes a new directory with the record and the prompt in it. It is complete before any other process can see it,
    /// and locked from its first moment, so that no process treats it as a leftover.
    pub fn create(launches: &Path, record: &Record, words: &str) -> io::Result<NewLaunch> {
        Self::create_whole(launches, record, words, None)
    }

    /// The same for a launch that runs no process here. It is over for us from its first moment, so no process ever
    /// treats it as one in progress.
    pub fn create_over(launches: &Path, record: &Record, words: &str, exit: &Exit) -> io::Result<Self> {
        Self::create_whole(launches, record, words, Some(exit)).map(|new| new.folder)
    }

    fn create_whole(
        launches: &Path,
        record: &Record,
        words: &str,
        exit: Option<&Exit>,
    ) -> io::Result<NewLaunch> {
        own::make_folder(launches)?;
        let folder = Self { path: launches.join(&record.id) };
        // The name tells a search for leftovers that this directory is not complete yet.
        let half = Self { path: launches.join(format!(".{}.new", record.id)) };
        let made = half.make_held(launches).and_then(|held| {
            let mut prompt = create(&half.path.join("prompt"))?;
            prompt.write_all(words.as_bytes())?;
            let awaited = KernelLock::on_opened(prompt)?;
            half.write_record(record)?;
            exit.map_or(Ok(()), |exit| half.write_exit(exit))?;
            fs::rename(&half.path, &folder.path)?;
            Ok(NewLaunch { folder, held, awaited })
        });
        if made.is_err() {
            half.forget();
        }
        made
    }

    /// Makes and locks the directory in what is one step as far as [`half_made`](super::half_made) can see.
    fn make_held(&self, launches: &Path) -> io::Result<KernelLock> {
        let _lock = lock_launches(launches)?;
        DirBuilder::new().mode(0o700).create(&self.path)?;
        self.hold()?.ok_or_else(|| io::Error::other("another process holds a new folder"))
    }

    /// Removes a directory that was never finished. It deletes file by file, because that works without a free
    /// descriptor.
    fn forget(&self) {
        for name in ["prompt", "launch.json", "exit.json"] {
            let path = self.path.join(name);
            whole_file::forget_half(&path);
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_dir(&self.path);
    }

    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn record(&self) -> io::Result<Record> {
        let record: Record = self.read("launch.json")?;
        if record.version != VERSION {
            let why = format!("launch.json is of version {}, this agentctl knows {VERSION}", record.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(record)
    }

    pub fn write_record(&self, record: &Record) -> io::Result<()> {
        self.write("launch.json", record)
    }

    /// Notes that the process of this launch goes on in another session. Before the turn was seen, the runner alone
    /// writes the record.
    pub(crate) fn follow_session(&self, id: &str) -> io::Result<()> {
        let mut record = self.record()?;
        if !record.settled || record.session_id.as_deref() == Some(id) {
            return Ok(());
        }
        record.session_id = Some(id.to_owned());
        self.write_record(&record)
    }

    pub fn exit(&self) -> Option<Exit> {
        self.read("exit.json").ok()
    }

    pub fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        self.write("exit.json", exit)
    }

    pub fn callback(&self) -> Option<Callback> {
        self.read("callback.json").ok()
    }

    pub fn write_callback(&self, callback: &Callback) -> io::Result<()> {
        self.write("callback.json", callback)
    }

    pub fn failed(&self) -> Option<Failed> {
        self.read("failed.json").ok()
    }

    pub fn write_failed(&self, failed: &Failed) -> io::Result<()> {
        self.write("failed.json", failed)
    }

    /// Records that the caller of the launch no longer wants it; the runner undoes it.
    pub fn cancel(&self) -> io::Result<()> {
        create(&self.path.join("cancel")).map(drop)
    }

    pub fn is_cancelled(&self) -> bool {
        self.path.join("cancel").exists()
    }

    /// Records that agentctl is about to end the process. This is written before the first signal, so that the process
    /// which sees the exit knows why.
    pub fn ask_to_end(&self, by: &EndedBy) -> io::Result<()> {
        self.write("asked", by)
    }

    /// Removes that record because the process lives on; a later end has another reason.
    pub fn forget_asking(&self) {
        let _ = fs::remove_file(self.path.join("asked"));
    }

    /// Why agentctl is ending the process, if it is.
    pub fn asked_to_end(&self) -> Option<EndedBy> {
        let path = self.path.join("asked");
        // An older agentctl left this file empty; then a person stopped it.
        path.exists().then(|| self.read("asked").unwrap_or_else(|_| EndedBy::stop()))
    }

    /// The prompt for the agent.
    pub fn words(&self) -> io::Result<String> {
        own::read_text(&self.path.join("prompt"), LARGEST)
    }

    /// The first characters of the prompt, for lists.
    pub fn first_words(&self, limit: usize) -> Option<String> {
        let mut bytes = Vec::new();
        let most = u64::try_from(limit * 4).unwrap_or(u64::MAX);
        self.open_words().ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).chars().take(limit).collect())
    }

    pub fn open_words(&self) -> io::Result<File> {
        own::open(&self.path.join("prompt"))
    }

    /// Opens a file for the agent's output in append mode, so that it can be truncated while the agent writes.
    pub fn open_output(&self, name: &str) -> io::Result<File> {
        own::append(&self.path.join(name))
    }

    /// Returns the end of an output, at most this many bytes.
    pub fn output(&self, name: &str, most: u64) -> String {
        let tail = || {
            let mut file = own::open(&self.path.join(name))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
            let mut bytes = Vec::new();
            file.take(most).read_to_end(&mut bytes)?;
            io::Result::Ok(bytes)
        };
        tail().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Cuts an output that grew too large down to its end. What is written at this very moment may be lost. That is
    /// acceptable, because the output is a copy for people; the agent's own records are elsewhere.
    pub fn cap_output(&self, name: &str) -> io::Result<()> {
        let path = self.path.join(name);
        if fs::metadata(&path)?.len() <= OUTPUT_CAP {
            return Ok(());
        }
        let end = self.output(name, OUTPUT_KEPT);
        let mut file = own::append(&path)?;
        file.set_len(0)?;
        file.write_all(end.as_bytes())
    }

    /// Takes the lock that the runner holds for its whole life: a launch whose directory can be locked has no runner.
    pub fn hold(&self) -> io::Result<Option<KernelLock>> {
        KernelLock::on_folder(&self.path, Duration::ZERO)
    }

    /// Lets one caller at a time answer what the agent's own server asks: the server takes the first answer, and tells
    /// everybody only that there was one. `None` means that another caller was at it all the time.
    pub(crate) fn answer_alone(&self, timeout: Duration) -> io::Result<Option<KernelLock>> {
        KernelLock::on_file(&self.path.join("answering"), timeout)
    }

    /// Whether a live runner lets others speak through it.
    pub(crate) fn is_served(&self) -> bool {
        self.path.join(crate::hold::SOCKET).exists() && self.is_held()
    }

    /// Whether a runner, or the process that makes or removes the directory, holds it. If this cannot be seen, the
    /// answer is no, so that nothing waits for it.
    pub fn is_held(&self) -> bool {
        KernelLock::is_held(&self.path).unwrap_or(false)
    }

    /// Whether a caller still waits for the result of this launch; then no other process may remove it.
    pub fn is_awaited(&self) -> bool {
        matches!(KernelLock::on_existing(&self.path.join("prompt"), Duration::ZERO), Ok(None))
    }

    /// Announces the end of this launch once, by the process that sees it first, the runner or the daemon. Returns
    /// whether this call did it. After a crash between `put` and the mark, it is announced a second time under the same
    /// id.
    pub fn tell_end(&self, put: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        let mark = self.path.join("told");
        let held = KernelLock::on_file(&mark, MARK_TIMEOUT)?;
        let _held =
            held.ok_or_else(|| io::Error::other(format!("{} is held for too long", mark.display())))?;
        if fs::metadata(&mark)?.len() > 0 {
            return Ok(false);
        }
        put()?;
        reach("told.put");
        let mut file = own::open_or_create(&mark)?;
        file.write_all(b"1\n")?;
        file.sync_all()?;
        Ok(true)
    }

    /// Records that no receiver was configured when the runner finished. Webhooks that are configured later do not
    /// announce this end, but a daemon that sees the end itself and has a receiver still does.
    pub fn nobody_to_tell(&self) -> io::Result<()> {
        mark(&self.path.join("unwanted"))
    }

    pub fn had_nobody_to_tell(&self) -> bool {
        self.path.join("unwanted").exists()
    }

    /// When its end was announced to the receivers of that time.
    pub fn told_at(&self) -> Option<Timestamp> {
        let mark = fs::metadata(self.path.join("told")).ok().filter(|mark| mark.len() > 0)?;
        mark.modified().ok()?.try_into().ok()
    }

    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        serde_json::from_slice(&own::read(&self.path.join(name), LARGEST)?).map_err(io::Error::from)
    }

    /// Only the runner writes here, or a process that found that there is no runner.
    pub(super) fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(value)?;
        whole_file::replace(&self.path.join(name), &bytes, name.trim_end_matches(".json"))
    }
}

/// Takes the lock under which unfinished directories are made and removed.
pub(super) fn lock_launches(launches: &Path) -> io::Result<KernelLock> {
    /// The lock is held for two system calls, or while a few unfinished directories are removed.
    const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
    let held = KernelLock::on_folder(launches, LOCK_TIMEOUT)?;
    held.ok_or_else(|| io::Error::other(format!("another process holds {} for too long", launches.display())))
}

/// Creates a file that carries information only by existing.
fn mark(path: &Path) -> io::Result<()> {
    own::append(path).map(drop)
}

fn create(path: &Path) -> io::Result<File> {
    own::create_new(path)
}
