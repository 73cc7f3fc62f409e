//! Lists directories of an agent's storage: a missing one is empty, an unreadable one is reported.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentctl_model::{Coverage, Harvest};
use jiff::{SignedDuration, Timestamp};

/// One entry of a directory.
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

/// Why nothing can be read below this root; `None` when the root exists.
pub fn absence(root: &Path) -> Option<Coverage> {
    let error = fs::metadata(root).err()?;
    Some(match error.kind() {
        ErrorKind::NotFound => Coverage::NotInstalled,
        _ => Coverage::Failed { error: format!("{}: {error}", root.display()) },
    })
}

/// The entries of a directory, in a stable order. A missing directory is empty; an unreadable one is left out and
/// named. Agents never use names that are not UTF-8, so such an entry is not listed.
pub fn list(folder: &Path, harvest: &mut Harvest) -> Vec<Listed> {
    let entries = match agentctl_files::entries(folder) {
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

/// The kernel dates files by its last tick, which on a loaded machine can be well before the moment of the write: a
/// file may look older than the process that wrote it. Code that selects files by their time still reads the records
/// to decide.
const CLOCK_LAG: SignedDuration = SignedDuration::from_secs(2);

/// Whether a file may have been written since then; an unknown time counts as yes.
pub fn written_since(path: &Path, since: Option<Timestamp>) -> bool {
    let (Some(since), Ok(modified)) = (since, path.metadata().and_then(|metadata| metadata.modified()))
    else {
        return true;
    };
    Timestamp::try_from(modified).map_or(true, |modified| since.duration_since(modified) <= CLOCK_LAG)
}

/// The harvest of a root, which `read` fills if the root can be read at all.
pub(crate) fn harvest_of(root: &Path, read: impl FnOnce(&mut Harvest)) -> Harvest {
    if let Some(absent) = absence(root) {
        return Harvest::nothing(absent);
    }
    let mut harvest = Harvest::complete(Vec::new());
    read(&mut harvest);
    harvest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_look_a_little_older_than_the_process_that_wrote_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let written = Timestamp::try_from(file.metadata().unwrap().modified().unwrap()).unwrap();
        let since = |millis| Some(written + SignedDuration::from_millis(millis));
        assert!(written_since(&file, since(0)) && written_since(&file, since(30)));
        assert!(!written_since(&file, since(60_000)));
        assert!(written_since(&file, None) && written_since(&place.path().join("gone"), since(60_000)));
    }
}
