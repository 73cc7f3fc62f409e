//! The few things that only agentctl knows, as files in its own folder: manual locks, fuses.
//!
//! A document is one small JSON file with its version in it. It is read whole, changed under a kernel lock, and replaced by
//! rename: whoever reads sees the old one or the new one, and a crash at any moment leaves one of the two. No status,
//! verdict or anything else that was derived may ever become a document.

mod folder;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_files::own;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::keep::kernel_lock::KernelLock;
use crate::keep::whole_file;

/// Changing a document takes milliseconds; whoever has the lock this long is stopped or broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// A document is a few kilobytes; what is larger is none of ours.
const LARGEST: u64 = 64 << 20;

/// What one file holds. Its JSON must be an object; the version is put beside its keys.
pub trait Document: Default + Serialize + DeserializeOwned {
    /// The name of the file in agentctl's folder.
    const FILE: &'static str;
    const VERSION: u64;
}

/// Why a document could not be read or changed. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} is of version {version}, which only a newer agentctl understands", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error("{} has been held by another process for {} s", path.display(), PATIENCE.as_secs())]
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

/// The folder of agentctl, where the documents are. It comes into being with the first one that is written.
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

    /// Makes the folder fit to be written to: there, ours, closed to others, and without the predecessor's files. Says
    /// where those were moved to, if there were any.
    pub fn prepare(&self) -> Result<Option<PathBuf>, StoreError> {
        folder::make(&self.folder)?;
        folder::set_aside_the_predecessors(&self.folder)
    }

    /// What the predecessor left and nobody has moved aside yet.
    pub fn left_by_the_predecessor(&self) -> Vec<PathBuf> {
        // A folder that cannot be read, or is not there, shows nothing.
        folder::the_predecessors(&self.folder).unwrap_or_default()
    }

    /// The document as it is now; one that nobody wrote yet is empty. Needs no lock and writes nothing.
    pub fn read<D: Document>(&self) -> Result<D, StoreError> {
        if !folder::check(&self.folder)? {
            return Ok(D::default());
        }
        Ok(self.load()?.0)
    }

    /// Changes the document while nobody else can, and returns what `edit` returned. A document that `edit` left as it
    /// was is not written.
    pub fn change<D: Document, T>(&self, edit: impl FnOnce(&mut D) -> T) -> Result<T, StoreError> {
        folder::make(&self.folder)?;
        let lock = self.folder.join(format!("{}.lock", D::FILE));
        let held = KernelLock::on_file(&lock, PATIENCE).map_err(|error| StoreError::io(&lock, error))?;
        let Some(_held) = held else { return Err(StoreError::Busy { path: lock }) };
        folder::set_aside_the_predecessors(&self.folder)?;
        let (mut document, before) = self.load::<D>()?;
        let answer = edit(&mut document);
        let after = self.encode(&document)?;
        if before.as_deref() != Some(after.as_slice()) {
            let place = self.folder.join(D::FILE);
            // Under the lock, so nobody else writes it.
            whole_file::replace(&place, &after, D::FILE.trim_end_matches(".json"))
                .map_err(|error| StoreError::io(&place, error))?;
        }
        Ok(answer)
    }

    /// The document and the bytes it came from; `None` when there is no file (or only one of the predecessor).
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

/// What every document of ours has and none of the predecessor's.
fn version(value: &Value) -> Option<u64> {
    value.get("version").and_then(Value::as_u64)
}

#[cfg(test)]
mod tests;
