//! The newest working directory in a transcript, with the branch that was recorded for it. Pure.

use super::keep;

#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    pub(crate) cwd: Option<String>,
    pub(crate) branch: Option<String>,
}

impl Directory {
    /// Records come newest first: the first directory counts, and a branch from an older record than the directory
    /// may belong to another one.
    pub(crate) fn keep(&mut self, cwd: Option<&str>, branch: Option<&str>) {
        if self.cwd.is_none() {
            keep(&mut self.branch, branch);
        }
        keep(&mut self.cwd, cwd);
    }
}
