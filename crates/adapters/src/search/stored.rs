//! Where conversations lie, found without reading one of them.

use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Harvest};
use jiff::Timestamp;

use crate::transcript::folder::harvest_of;
use crate::transcript::parallel;
use crate::{Root, cancel};

/// Finds the files below a root.
pub type ListFiles = fn(&Root) -> Stored;

/// The files of one source that hold one conversation each.
#[derive(Debug)]
pub struct Stored {
    pub files: Vec<StoredFile>,
    /// How much of the folders was heard. It has no sessions.
    pub harvest: Harvest,
}

/// A file that holds one conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    pub path: PathBuf,
    /// What the id of its session begins with, by the name of the file; empty where the name says nothing. Only the records
    /// decide.
    pub id: String,
    /// `None` if it could not be learned.
    pub modified: Option<Timestamp>,
}

impl Stored {
    pub fn nothing(coverage: Coverage) -> Self {
        Self { files: Vec::new(), harvest: Harvest::nothing(coverage) }
    }

    /// The files that `list` names below a root, each with what the id of its session begins with.
    pub(crate) fn below(root: &Path, list: impl FnOnce(&mut Harvest) -> Vec<(String, PathBuf)>) -> Self {
        let mut named = Vec::new();
        let harvest = harvest_of(root, |harvest| named = list(harvest));
        Self::of(named, harvest)
    }

    /// These files, without those that were deleted since they were listed or are still empty.
    pub(crate) fn of(named: Vec<(String, PathBuf)>, harvest: Harvest) -> Self {
        let times = parallel::map(&named, |(_, path), (): &mut ()| {
            cancel::step().ok();
            match path.metadata() {
                Ok(metadata) if metadata.is_file() && metadata.len() == 0 => None,
                Ok(metadata) => {
                    Some(metadata.modified().ok().and_then(|time| Timestamp::try_from(time).ok()))
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
                // Whoever reads it says why it cannot be read.
                Err(_) => Some(None),
            }
        });
        let files = named.into_iter().zip(times);
        let files =
            files.filter_map(|((id, path), modified)| Some(StoredFile { path, id, modified: modified? }));
        Self { files: files.collect(), harvest }
    }
}
