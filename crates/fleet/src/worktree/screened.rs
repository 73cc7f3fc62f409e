//! The directory that git takes for the shared one of the repository while it fills a worktree. Everything in it leads
//! to the real one except the configuration and the hooks. Those are as they were checked, so that a process that
//! writes into the repository meanwhile cannot change what runs.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agentctl_files::scratch::{self, Scratch};
use agentctl_files::{entries, own, read_small};

use super::config::Config;
use super::git::{Settings, git, path_text};
use super::programs::{Hooks, LONGEST_HOOK};
use super::{Made, WorktreeError};

/// The limit for files beside the hooks.
const MOST_FILES: usize = 256;

pub(super) struct Screened {
    /// Removed with this value; what a killed process leaves is removed at the next start.
    folder: Scratch,
    /// The worktree's own part of the repository.
    git_dir: PathBuf,
    tree: PathBuf,
}

impl Screened {
    pub(super) fn new(
        made: &Made,
        config: &Config,
        hooks: &Hooks,
        home: &Path,
    ) -> Result<Self, WorktreeError> {
        let answer = git(&made.path, &["rev-parse", "--path-format=absolute", "--git-dir"])?;
        let git_dir = PathBuf::from(path_text(&answer));
        let folder = Self::make_folder(made, config, hooks, home)
            .map_err(|source| WorktreeError::Io { path: made.common.clone(), source })?;
        Ok(Self { folder, git_dir, tree: made.path.clone() })
    }

    fn make_folder(made: &Made, config: &Config, hooks: &Hooks, home: &Path) -> io::Result<Scratch> {
        let place = scratch::place(Some(home));
        scratch::sweep(&place);
        let folder = Scratch::new_in(&place)?;
        for entry in entries(&made.common)? {
            let name = entry?.file_name();
            if name != "config" && name != "config.worktree" && name != "hooks" {
                symlink(made.common.join(&name), folder.path().join(&name))?;
            }
        }
        own::create_new(&folder.path().join("config"))?.write_all(&config.repository_config_file())?;
        let copies = folder.path().join("hooks");
        own::make_folder(&copies)?;
        if let Hooks::Copied { from, content } = hooks {
            copy_files_beside_hooks(from, &copies)?;
            for (name, bytes) in content {
                put(&copies.join(name), bytes, true)?;
            }
        }
        Ok(folder)
    }

    /// The directory of hooks that is passed to git.
    pub(super) fn hooks(&self) -> PathBuf {
        self.folder.path().join("hooks")
    }

    /// The variables under which git takes this directory for the shared one.
    pub(super) fn settings(&self) -> Settings {
        let value = |path: &Path| OsString::from(path);
        vec![
            ("GIT_DIR", value(&self.git_dir)),
            ("GIT_COMMON_DIR", value(self.folder.path())),
            ("GIT_WORK_TREE", value(&self.tree)),
        ]
    }
}

/// Copies the files beside the hooks, which the hooks may use. None of them is a hook that a checkout runs.
fn copy_files_beside_hooks(from: &Path, to: &Path) -> io::Result<()> {
    let found = match entries(from) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    for entry in found.flatten().take(MOST_FILES) {
        let name = entry.file_name();
        let is_hook = super::programs::HOOKS.iter().any(|hook| OsStr::new(hook) == name);
        if is_hook || name.as_bytes().ends_with(b".sample") {
            continue;
        }
        let Ok(seen) = entry.metadata().map(|seen| (seen.is_file(), seen.permissions().mode())) else {
            continue;
        };
        // A file that is too large, or no regular file, is left out.
        if let ((true, mode), Ok(bytes)) = (seen, read_small(&entry.path(), LONGEST_HOOK)) {
            put(&to.join(name), &bytes, mode & 0o111 != 0)?;
        }
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8], runs: bool) -> io::Result<()> {
    let mut file = own::create_new(path)?;
    file.write_all(bytes)?;
    file.set_permissions(std::fs::Permissions::from_mode(if runs { 0o700 } else { 0o600 }))
}
