//! Listing folders of an agent's storage: what is missing is empty, what cannot be read is said.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Harvest};
use jiff::Timestamp;

/// One entry of a folder.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    pub path: PathBuf,
    kind: Option<fs::FileType>,
}

impl Listed {
    pub fn is_folder(&self) -> bool {
        self.kind.is_some_and(|kind| kind.is_dir() || (kind.is_symlink() && self.path.is_dir()))
    }
}

/// Why nothing can be read below this root; `None` when it is there.
pub fn absence(root: &Path) -> Option<Coverage> {
    let error = fs::metadata(root).err()?;
    Some(match error.kind() {
        ErrorKind::NotFound => Coverage::NotInstalled,
        _ => Coverage::Failed { error: format!("{}: {error}", root.display()) },
    })
}

/// The entries of a folder, in a stable order. A missing folder is empty; an unreadable one is left out, with its name.
/// An entry whose name is no UTF-8 is none that an agent gives, and is not listed.
pub fn list(folder: &Path, harvest: &mut Harvest) -> Vec<Listed> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            harvest.left_out(format!("{}: {error}", folder.display()));
            return Vec::new();
        }
    };
    let mut listed = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => {
                if let Ok(name) = entry.file_name().into_string() {
                    listed.push(Listed { name, path: entry.path(), kind: entry.file_type().ok() });
                }
            }
            Err(error) => harvest.left_out(format!("{}: {error}", folder.display())),
        }
    }
    listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listed
}

/// Whether a file was written since then; unknown counts as yes.
pub fn written_since(path: &Path, since: Option<Timestamp>) -> bool {
    let (Some(since), Ok(modified)) = (since, path.metadata().and_then(|metadata| metadata.modified()))
    else {
        return true;
    };
    Timestamp::try_from(modified).map_or(true, |modified| modified >= since)
}
