//! Writes one file of a corpus: counts its bytes, makes it private, and sets its modification time.

use std::fmt::Arguments;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;

pub(crate) struct OutFile {
    path: PathBuf,
    out: BufWriter<File>,
    written: u64,
}

impl OutFile {
    /// Creates the file and its directories; the file must not exist yet.
    pub(crate) fn create(path: PathBuf) -> anyhow::Result<Self> {
        let make = || -> std::io::Result<File> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
        };
        let file = make().with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self { path, out: BufWriter::with_capacity(1 << 18, file), written: 0 })
    }

    pub(crate) fn put(&mut self, text: &str) -> anyhow::Result<()> {
        self.written += text.len() as u64;
        self.out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Writes one line and adds the newline.
    pub(crate) fn line(&mut self, line: Arguments<'_>) -> anyhow::Result<()> {
        self.put(&line.to_string())?;
        self.put("\n")
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Flushes the file and sets its modification time; returns its size.
    pub(crate) fn close(mut self, modified_ms: i64) -> anyhow::Result<u64> {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(modified_ms).unwrap_or(0));
        let mut close = || -> std::io::Result<()> {
            self.out.flush()?;
            self.out.get_ref().set_modified(at)
        };
        close().with_context(|| format!("cannot finish {}", self.path.display()))?;
        Ok(self.written)
    }
}

/// Writes a small file.
pub(crate) fn put(path: &Path, text: &str, modified_ms: i64) -> anyhow::Result<()> {
    let mut file = OutFile::create(path.to_owned())?;
    file.put(text)?;
    file.close(modified_ms).map(drop)
}
