//! The caller on whose behalf something is started: its variables, its programs, and agentctl's own directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agentctl_adapters::control::SHARED_MARKS;
use agentctl_adapters::{Adapter, Control, registry};
use agentctl_model::Environ;

use crate::keep::launches;

/// The caller and what it provides.
#[derive(Debug, Clone)]
pub struct Caller {
    /// All variables of the caller.
    pub environ: Environ,
    /// The configured programs, by adapter.
    pub programs: BTreeMap<String, PathBuf>,
    /// agentctl's own directory.
    pub home: PathBuf,
    /// The path of the agentctl program.
    pub agentctl: PathBuf,
}

impl Caller {
    pub fn launches(&self) -> PathBuf {
        self.home.join(launches::FOLDER)
    }

    /// Returns the caller's variables without those that any agent sets: agentctl may itself have been called by an
    /// agent, and what it starts does not belong to that agent.
    pub fn clean_environ(&self) -> Environ {
        let mut environ = self.environ.clone();
        for mark in all_marks() {
            environ.remove(mark);
        }
        environ
    }

    /// Finds the program of this name on the caller's `PATH`.
    pub fn find_program(&self, program: &Path) -> Option<PathBuf> {
        find_program(program, &self.environ)
    }
}

/// Returns the first executable of this name on the `PATH` of these variables; a name with a slash is itself the path.
pub fn find_program(program: &Path, environ: &Environ) -> Option<PathBuf> {
    use rustix::fs::{Access, access};
    let runnable = |place: &PathBuf| place.is_file() && access(place, Access::EXEC_OK).is_ok();
    if program.components().count() > 1 {
        return Some(program.to_owned()).filter(runnable);
    }
    let path = environ.get("PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(program)).find(runnable)
}

/// Returns the marks of all agents.
pub fn all_marks() -> impl Iterator<Item = &'static str> {
    let of_agents = registry().into_iter().filter_map(Adapter::control).flat_map(Control::marks);
    SHARED_MARKS.iter().chain(of_agents).copied()
}
