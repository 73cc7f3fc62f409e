//! On whose behalf something is started: the variables, the programs, and agentctl's own folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_adapters::control::SHARED_MARKS;
use agentctl_adapters::{Adapter, Control, registry};
use agentctl_model::Environ;

use crate::keep::launches;

/// Who asks, and what is to be used for it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// All variables of whoever asks.
    pub environ: Environ,
    /// Programs that were configured, by adapter.
    pub programs: BTreeMap<String, PathBuf>,
    /// agentctl's own folder.
    pub home: PathBuf,
    /// agentctl itself.
    pub agentctl: PathBuf,
}

impl Caller {
    pub fn launches(&self) -> PathBuf {
        self.home.join(launches::FOLDER)
    }

    /// The caller's variables without what any agent leaves there: an agent may itself have called agentctl, and what it
    /// starts that way is not its own.
    pub fn clean_environ(&self) -> Environ {
        let mut environ = self.environ.clone();
        for mark in all_marks() {
            environ.remove(mark);
        }
        environ
    }

    /// The program of this name, where the caller would find it.
    pub fn find_program(&self, program: &Path) -> Option<PathBuf> {
        find_program(program, &self.environ)
    }
}

/// The first executable of this name on the `PATH` of these variables; a name with a slash is itself the place.
pub fn find_program(program: &Path, environ: &Environ) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    let runnable = |place: &PathBuf| place.is_file() && access(place, Access::EXEC_OK).is_ok();
    if program.components().count() > 1 {
        return Some(program.to_owned()).filter(runnable);
    }
    let path = environ.get("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(program)).find(runnable)
}

/// The marks of every agent there is.
pub fn all_marks() -> impl Iterator<Item = &'static str> {
    let of_agents = registry().into_iter().filter_map(Adapter::control).flat_map(Control::marks);
    SHARED_MARKS.iter().chain(of_agents).copied()
}
