//! A folder left by the TypeScript agentctl. Its files carry no version, ours do.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Files that both kept; only ours say which version they are.
const SHARED: [&str; 2] = ["locks.json", "fuses.json"];
/// Files that only the old one kept.
const OLD_ONLY: [&str; 3] = ["state.json", "agentctl.pid", "daemon.pid"];
/// What stays: settings are the user's, the rest is in use.
const STAYS: [&str; 4] = ["config.toml", "daemon.lock", "launches", "outbox"];

pub(super) fn move_aside(folder: &Path, day: &str) -> io::Result<Option<PathBuf>> {
    if !is_old(folder)? {
        return Ok(None);
    }
    let mut aside = folder.join(format!("old-{day}"));
    let mut number = 2;
    while aside.exists() {
        aside = folder.join(format!("old-{day}-{number}"));
        number += 1;
    }
    fs::create_dir(&aside)?;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let stays = name.to_str().is_some_and(|name| {
            STAYS.contains(&name) || name.starts_with("old-") || name.starts_with(".new-")
        });
        if !stays {
            fs::rename(folder.join(&name), aside.join(&name))?;
        }
    }
    Ok(Some(aside))
}

fn is_old(folder: &Path) -> io::Result<bool> {
    for name in SHARED {
        match fs::read(folder.join(name)) {
            Ok(bytes) if !is_versioned(&bytes) => return Ok(true),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(OLD_ONLY.iter().any(|name| folder.join(name).exists()))
}

fn is_versioned(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok_and(|value| value.get("version").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_the_settings_is_moved_and_nothing_is_lost() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path();
        for (name, text) in
            [("locks.json", "[]"), ("state.json", "{}"), ("config.toml", ""), ("notes", "mine")]
        {
            fs::write(home.join(name), text).unwrap();
        }
        let aside = move_aside(home, "2026-11-15").unwrap().unwrap();
        assert_eq!(aside, home.join("old-2026-11-15"));
        assert_eq!(fs::read_to_string(aside.join("notes")).unwrap(), "mine");
        assert!(aside.join("locks.json").exists() && aside.join("state.json").exists());
        assert!(home.join("config.toml").exists());
        assert_eq!(move_aside(home, "2026-11-15").unwrap(), None, "what is left is ours");
        fs::write(home.join("fuses.json"), "not json").unwrap();
        let second = move_aside(home, "2026-11-15").unwrap();
        assert_eq!(second, Some(home.join("old-2026-11-15-2")));
    }

    #[test]
    fn our_own_folder_stays_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("fuses.json"), r#"{"version":1,"fuses":[]}"#).unwrap();
        fs::create_dir(place.path().join("launches")).unwrap();
        assert_eq!(move_aside(place.path(), "2026-11-15").unwrap(), None);
    }
}
