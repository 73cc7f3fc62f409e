//! Folders of session files: what lies in them, and what of it was written lately.

use std::fs;
use std::path::{Path, PathBuf};

use agentctl_model::Harvest;
use jiff::Timestamp;

/// One entry of a folder.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    kind: Option<fs::FileType>,
}

impl Listed {
    pub(crate) fn is_folder(&self) -> bool {
        self.kind.is_some_and(|kind| kind.is_dir() || (kind.is_symlink() && self.path.is_dir()))
    }
}

/// The entries of a folder, in a stable order. A missing folder is empty; an unreadable one is left out, with its name.
pub(crate) fn list(folder: &Path, harvest: &mut Harvest) -> Vec<Listed> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut listed = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => listed.push(Listed {
                // A name that is no UTF-8 is not one the agent gives.
                name: entry.file_name().to_string_lossy().into_owned(),
                path: entry.path(),
                kind: entry.file_type().ok(),
            }),
            Err(error) => harvest.left_out(format!("{}: {error}", folder.display())),
        }
    }
    listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listed
}

/// Whether a file was written since then; unknown counts as yes.
pub(crate) fn written_since(path: &Path, since: Option<Timestamp>) -> bool {
    let (Some(since), Ok(modified)) = (since, path.metadata().and_then(|metadata| metadata.modified()))
    else {
        return true;
    };
    Timestamp::try_from(modified).map_or(true, |modified| modified >= since)
}
