//! The physical limit: the least work that any lister must do with the same files, as a separate program.
//!
//! It runs as a fresh process, like the program with which it is compared. It only finds, stats and reads files, and parses
//! nothing. In a database it reads every session's row and its newest message.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{io, thread};

use anyhow::{Context, bail};
use rusqlite::{Connection, OpenFlags};

const HEAD_BYTES: usize = 4 << 10;
const TAIL_BYTES: usize = 16 << 10;
const CHUNK_BYTES: usize = 128 << 10;

/// Where agents store transcripts, and how many levels of directories are below.
const ROOTS: [(&str, usize); 7] = [
    (".claude/projects", 1),
    (".codex/sessions", 3),
    (".codex/archived_sessions", 0),
    (".pi/agent/sessions", 1),
    (".copilot/session-state", 1),
    (".qwen/projects", 2),
    (".gemini/tmp", 2),
];

const DATABASE: &str = ".local/share/opencode/opencode.db";
const NEWEST_MESSAGES: &str = "SELECT s.id, s.parent_id, s.directory, s.title, s.model, s.time_updated, \
    (SELECT data FROM message m WHERE m.session_id = s.id ORDER BY m.time_created DESC, m.id DESC LIMIT 1) \
    FROM session s";

/// How much of each file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Nothing: files are found and looked at, as a lister that has read them before must do.
    Nothing,
    /// The first 4 KiB and the last 16 KiB.
    Ends,
    All,
}

impl Depth {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Ends => "ends",
            Self::All => "all",
        }
    }
}

struct Found {
    path: PathBuf,
    bytes: u64,
}

/// `xtask __limit HOME nothing|ends|all THREADS` prints the number of files and of bytes that it read.
pub(crate) fn main(args: &[String]) -> anyhow::Result<()> {
    let [home, depth, threads] = args else { bail!("use: __limit HOME nothing|ends|all THREADS") };
    let all = [Depth::Nothing, Depth::Ends, Depth::All];
    let depth = all.into_iter().find(|one| one.as_str() == depth).context("no such depth")?;
    let (files, bytes) = read(Path::new(home), depth, threads.parse().context("THREADS is not a number")?)?;
    println!("{files} {bytes}");
    Ok(())
}

/// Finds and reads all session files below `home`; returns the number of files and of bytes.
fn read(home: &Path, depth: Depth, threads: usize) -> anyhow::Result<(usize, u64)> {
    let mut files = Vec::new();
    for (root, levels) in ROOTS {
        let root = home.join(root);
        if root.is_dir() {
            find(&root, levels, &mut files).with_context(|| format!("cannot read {}", root.display()))?;
        }
    }
    let database = home.join(DATABASE);
    if depth == Depth::Nothing {
        return Ok((files.len(), 0));
    }
    let (has_database, next) = (AtomicBool::new(database.exists()), AtomicUsize::new(0));
    let batch = if depth == Depth::All { 1 } else { 16 };
    let work = || -> io::Result<u64> {
        let mut buffer = vec![0; if depth == Depth::All { CHUNK_BYTES } else { TAIL_BYTES }];
        let mut sum = 0;
        if has_database.swap(false, Ordering::Relaxed) {
            sum += read_database(&database).map_err(io::Error::other)?;
        }
        loop {
            let from = next.fetch_add(batch, Ordering::Relaxed);
            if from >= files.len() {
                return Ok(sum);
            }
            for file in &files[from..(from + batch).min(files.len())] {
                sum += match depth {
                    Depth::Ends => read_ends(file, &mut buffer)?,
                    Depth::All => read_all(file, &mut buffer)?,
                    Depth::Nothing => 0,
                };
            }
        }
    };
    let bytes = thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut sum = work()?;
        for helper in helpers {
            sum += helper.join().map_err(|_| io::Error::other("a reader panicked"))??;
        }
        io::Result::Ok(sum)
    })?;
    Ok((files.len(), bytes))
}

fn find(folder: &Path, levels: usize, files: &mut Vec<Found>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            // Sub-agents are not separate sessions, so a lister does not descend there.
            if levels > 0 && entry.file_name() != "subagents" {
                find(&entry.path(), levels - 1, files)?;
            }
        } else if entry.file_name().as_encoded_bytes().ends_with(b".jsonl") {
            files.push(Found { path: entry.path(), bytes: entry.metadata()?.len() });
        }
    }
    Ok(())
}

/// The total size of every session's newest message.
fn read_database(path: &Path) -> rusqlite::Result<u64> {
    let uri = format!("file:{}?immutable=1", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)?;
    let mut statement = connection.prepare(NEWEST_MESSAGES)?;
    let mut rows = statement.query([])?;
    let mut sum = 0;
    while let Some(row) = rows.next()? {
        sum += row.get_ref(6)?.as_bytes_or_null()?.map_or(0, |data| data.len() as u64);
    }
    Ok(sum)
}

fn read_ends(file: &Found, buffer: &mut [u8]) -> io::Result<u64> {
    let open = File::open(&file.path)?;
    let mut sum = open.read_at(&mut buffer[..HEAD_BYTES], 0)?;
    if file.bytes > HEAD_BYTES as u64 {
        sum += open.read_at(buffer, file.bytes.saturating_sub(TAIL_BYTES as u64))?;
    }
    Ok(sum as u64)
}

fn read_all(file: &Found, buffer: &mut [u8]) -> io::Result<u64> {
    let open = File::open(&file.path)?;
    let mut at = 0;
    loop {
        let got = open.read_at(buffer, at)?;
        if got == 0 {
            return Ok(at);
        }
        at += got as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{Depth, read};

    #[test]
    fn reads_sessions_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join(".claude/projects/-a");
        std::fs::create_dir_all(project.join("one/subagents")).unwrap();
        std::fs::write(project.join("one.jsonl"), vec![b'x'; 100_000]).unwrap();
        std::fs::write(project.join("two.jsonl"), vec![b'x'; 100]).unwrap();
        std::fs::write(project.join("notes.txt"), "x").unwrap();
        std::fs::write(project.join("one/subagents/agent-a.jsonl"), "x").unwrap();
        for threads in [1, 2] {
            assert_eq!(read(home.path(), Depth::All, threads).unwrap(), (2, 100_100));
            assert_eq!(read(home.path(), Depth::Ends, threads).unwrap(), (2, 4096 + 16384 + 100));
        }
    }
}
