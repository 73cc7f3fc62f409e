//! A new device key: 32 random bytes in a file that only its owner can read.

use std::io::{self, Write};
use std::path::Path;

use agentctl_files::{kernel, own};
use data_encoding::HEXLOWER;

/// Creates the key. If another process created one at the same moment, that one stays.
pub(super) fn make(folder: &Path, path: &Path) -> io::Result<()> {
    own::make_folder(folder)?;
    let digits = HEXLOWER.encode(&kernel::random::<32>()?);
    // The file appears under its final name with its content, or not at all.
    let part = folder.join(format!("device.key.{}", std::process::id()));
    let written = own::create_anew(&part)
        .and_then(|mut file| writeln!(file, "{digits}").and_then(|()| file.sync_all()));
    let linked = written.and_then(|()| std::fs::hard_link(&part, path));
    let _ = std::fs::remove_file(&part);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let (folder, path) = (home.path().join("own"), home.path().join("own/device.key"));
        make(&folder, &path).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        assert_eq!(first.trim().len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        make(&folder, &path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
