//! The folder of one launch: what is written into it, and in which order.

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

/// How much of an agent's output is kept, and how much of its end stays when it grew beyond.
const OUTPUT_CAP: u64 = 16 << 20;
const OUTPUT_KEPT: u64 = 4 << 20;

/// The largest file of a launch that is read whole; prompts may carry files, but not so many.
const LARGEST: u64 = 256 << 20;

/// Writing one file takes milliseconds; whoever holds the mark this long is stopped or broken.
const TELLING: Duration = Duration::from_secs(15);

/// One launch on disk.
#[derive(Debug, Clone)]
pub struct LaunchFolder {
    path: PathBuf,
}

/// A launch folder that was just made, and the two locks that keep others from taking it for a leftover.
#[derive(Debug)]
pub struct NewLaunch {
    pub folder: LaunchFolder,
    /// For the runner, which holds it for life.
    pub held: KernelLock,
    /// For whoever asked for the launch, until it has heard what became of it.
    pub awaited: KernelLock,
}

impl LaunchFolder {
    /// A new folder with the record and the words in it, complete before anybody else can see it, and held from its first
    /// moment: nobody may take it for a leftover.
    pub fn create(launches: &Path, record: &Record, words: &str) -> io::Result<NewLaunch> {
        Self::create_whole(launches, record, words, None)
    }

    /// The same for a launch of which nothing runs here: it is over for us from its first moment, so that nobody ever
    /// takes it for one in progress.
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
        // Whoever looks for leftovers knows by the name that this one is not whole yet.
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

    /// Made and held in one step as far as [`half_made`](super::half_made) can see.
    fn make_held(&self, launches: &Path) -> io::Result<KernelLock> {
        let _alone = alone_in(launches)?;
        DirBuilder::new().mode(0o700).create(&self.path)?;
        self.hold()?.ok_or_else(|| io::Error::other("another process holds a new folder"))
    }

    /// Takes away a folder that was never finished. File by file, since that works without a free descriptor.
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

    /// Whoever asked for the launch does not want it any more; the runner undoes it.
    pub fn cancel(&self) -> io::Result<()> {
        create(&self.path.join("cancel")).map(drop)
    }

    pub fn is_cancelled(&self) -> bool {
        self.path.join("cancel").exists()
    }

    /// agentctl is about to end it. Written before the first signal, so that whoever sees the exit knows why.
    pub fn ask_to_end(&self, by: &EndedBy) -> io::Result<()> {
        self.write("asked", by)
    }

    /// It lives on: whatever ends it later is something else.
    pub fn forget_asking(&self) {
        let _ = fs::remove_file(self.path.join("asked"));
    }

    /// Why agentctl has it ended, if it has.
    pub fn asked_to_end(&self) -> Option<EndedBy> {
        let path = self.path.join("asked");
        // An older agentctl left the mark empty: somebody stopped it.
        path.exists().then(|| self.read("asked").unwrap_or_else(|_| EndedBy::stop()))
    }

    /// What is said to the agent.
    pub fn words(&self) -> io::Result<String> {
        own::read_text(&self.path.join("prompt"), LARGEST)
    }

    /// The first characters of the words, for lists.
    pub fn first_words(&self, limit: usize) -> Option<String> {
        let mut bytes = Vec::new();
        let most = u64::try_from(limit * 4).unwrap_or(u64::MAX);
        self.open_words().ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).chars().take(limit).collect())
    }

    pub fn open_words(&self) -> io::Result<File> {
        own::open(&self.path.join("prompt"))
    }

    /// A file for the agent's output. It is appended to, so that it can be cut while the agent writes.
    pub fn open_output(&self, name: &str) -> io::Result<File> {
        own::append(&self.path.join(name))
    }

    /// The end of an output, at most this many bytes of it.
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

    /// Cuts an output that grew too large down to its end. What is written in this very moment may be lost: it is a
    /// copy for people, the agent's own records are elsewhere.
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

    /// Held by the runner for its life: a launch whose folder can be locked has no runner.
    pub fn hold(&self) -> io::Result<Option<KernelLock>> {
        KernelLock::on_folder(&self.path, Duration::ZERO)
    }

    /// A runner, or whoever makes or clears away the folder, is at work on it. Where that cannot be seen, nobody is waited
    /// for.
    pub fn is_held(&self) -> bool {
        KernelLock::is_held(&self.path).unwrap_or(false)
    }

    /// Somebody waits for what becomes of this launch: nobody else may take the answer away.
    pub fn is_awaited(&self) -> bool {
        matches!(KernelLock::on_existing(&self.path.join("prompt"), Duration::ZERO), Ok(None))
    }

    /// Tells of the end of this launch, once: by whoever sees it first, the runner or the daemon. Says whether it was us. A
    /// crash behind `put` and before the mark tells it a second time, under the same id.
    pub fn tell_end(&self, put: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        let mark = self.path.join("told");
        let held = KernelLock::on_file(&mark, TELLING)?;
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

    /// The runner had nobody to tell. Whoever asks for webhooks later on does not hear of it; a daemon that sees the end
    /// itself and wants to tell of it still does.
    pub fn nobody_to_tell(&self) -> io::Result<()> {
        mark(&self.path.join("unwanted"))
    }

    pub fn had_nobody_to_tell(&self) -> bool {
        self.path.join("unwanted").exists()
    }

    /// When its end was told of, to whoever wanted to hear of it then.
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

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        serde_json::from_slice(&own::read(&self.path.join(name), LARGEST)?).map_err(io::Error::from)
    }

    /// Only the runner writes here, or whoever found that there is none.
    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(value)?;
        whole_file::replace(&self.path.join(name), &bytes, name.trim_end_matches(".json"))
    }
}

/// The lock under which unfinished folders come and go.
pub(super) fn alone_in(launches: &Path) -> io::Result<KernelLock> {
    /// Held for two calls of the kernel, or for removing a few unfinished folders.
    const PATIENCE: Duration = Duration::from_secs(30);
    let held = KernelLock::on_folder(launches, PATIENCE)?;
    held.ok_or_else(|| io::Error::other(format!("another process holds {} for too long", launches.display())))
}

/// A file whose being there is all that it says.
fn mark(path: &Path) -> io::Result<()> {
    own::append(path).map(drop)
}

fn create(path: &Path) -> io::Result<File> {
    own::create_new(path)
}
