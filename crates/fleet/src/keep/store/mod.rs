//! The few things that only agentctl knows, as files in its own directory: manual locks, fuses, marks of the inbox.
//!
//! A document is one small JSON file that contains its version. It is read whole, changed under a kernel lock, and
//! replaced by a rename: a reader sees the old one or the new one, and a crash at any moment leaves one of the two. No
//! status, verdict or anything else that was derived may ever become a document.

mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_files::own;
use agentctl_model::{Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::keep::kernel_lock::KernelLock;
use crate::keep::whole_file;

/// Changing a document takes milliseconds, so a process that holds the lock this long is stopped or broken.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A document has a few kilobytes; a larger file is none of ours.
const LARGEST: u64 = 64 << 20;

/// The contents of one file. Its JSON must be an object; the version is added to its keys.
pub trait Document: Default + Serialize + DeserializeOwned {
    /// The name of the file in agentctl's directory.
    const FILE: &'static str;
    const VERSION: u64;
}

/// Why a document could not be read or changed. In this case nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} is of version {version}, which only a newer agentctl understands", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("{} has been held by another process for {} s", path.display(), LOCK_TIMEOUT.as_secs())]
    Busy { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl StoreError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { .. } => Some("AGENTCTL_HOME can name another folder".to_owned()),
            Self::Damaged { path, .. } => {
                Some(format!("look into it, then move it away: `mv {0} {0}.damaged`", path.display()))
            }
            Self::Newer { .. } | Self::Busy { .. } | Self::Io { .. } => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self { kind: ErrorKind::Failed, message: error.to_string(), hint: error.hint() }
    }
}

/// The directory of agentctl that contains the documents. It is created when the first one is written.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the directory ready for writing: it exists, belongs to us, is closed to others, and contains no files of
    /// the predecessor. Returns where those were moved to, if there were any.
    pub fn prepare(&self) -> Result<Option<PathBuf>, StoreError> {
        folder::make(&self.folder)?;
        folder::set_aside_the_predecessors(&self.folder)
    }

    /// Returns what the predecessor left and has not been moved aside yet.
    pub fn left_by_the_predecessor(&self) -> Vec<PathBuf> {
        // A directory that cannot be read, or does not exist, contains nothing.
        folder::the_predecessors(&self.folder).unwrap_or_default()
    }

    /// Returns the document as it is now; one that was never written is empty. This needs no lock and writes nothing.
    pub fn read<D: Document>(&self) -> Result<D, StoreError> {
        if !folder::check(&self.folder)? {
            return Ok(D::default());
        }
        Ok(self.load()?.0)
    }

    /// Changes the document while no other process can, and returns what `edit` returned. If `edit` left the document
    /// as it was, nothing is written.
    pub fn change<D: Document, T>(&self, edit: impl FnOnce(&mut D) -> T) -> Result<T, StoreError> {
        folder::make(&self.folder)?;
        let lock = self.folder.join(format!("{}.lock", D::FILE));
        let held = KernelLock::on_file(&lock, LOCK_TIMEOUT).map_err(|error| StoreError::io(&lock, error))?;
        let Some(_held) = held else { return Err(StoreError::Busy { path: lock }) };
        folder::set_aside_the_predecessors(&self.folder)?;
        let (mut document, before) = self.load::<D>()?;
        let answer = edit(&mut document);
        let after = self.encode(&document)?;
        if before.as_deref() != Some(after.as_slice()) {
            let place = self.folder.join(D::FILE);
            // The lock ensures that no other process writes it.
            whole_file::replace(&place, &after, D::FILE.trim_end_matches(".json"))
                .map_err(|error| StoreError::io(&place, error))?;
        }
        Ok(answer)
    }

    /// Returns the document and the bytes it came from; `None` if there is no file (or only one of the predecessor).
    fn load<D: Document>(&self) -> Result<(D, Option<Vec<u8>>), StoreError> {
        let path = self.folder.join(D::FILE);
        let bytes = match own::read(&path, LARGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((D::default(), None)),
            Err(error) => return Err(StoreError::io(&path, error)),
        };
        let damaged = |why: String| StoreError::Damaged { path: path.clone(), why };
        let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        match version(&value) {
            None => return Ok((D::default(), None)),
            Some(version) if version > D::VERSION => return Err(StoreError::Newer { path, version }),
            Some(_) => {}
        }
        if let Some(object) = value.as_object_mut() {
            object.shift_remove("version");
        }
        let document = serde_json::from_value(value).map_err(|error| damaged(error.to_string()))?;
        Ok((document, Some(bytes)))
    }

    fn encode<D: Document>(&self, document: &D) -> Result<Vec<u8>, StoreError> {
        let encode = || {
            let mut whole = serde_json::Map::from_iter([("version".to_owned(), D::VERSION.into())]);
            match serde_json::to_value(document)? {
                Value::Object(keys) => whole.extend(keys),
                other => whole.extend([("document".to_owned(), other)]),
            }
            let mut bytes = serde_json::to_vec_pretty(&whole)?;
            bytes.push(b'\n');
            Ok(bytes)
        };
        encode().map_err(|error: serde_json::Error| StoreError::io(&self.folder.join(D::FILE), error.into()))
    }
}

/// Every document of ours has a version; no file of the predecessor has one.
fn version(value: &Value) -> Option<u64> {
    value.get("version").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests;
