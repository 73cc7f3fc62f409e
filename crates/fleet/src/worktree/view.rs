//! Working trees as `worktree … --json` prints them and the API answers: joined with who holds them.

use std::path::{Path, PathBuf};

use agentctl_model::{DirectoryHolder, SourceReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CleanOptions, Cleaning, Made, Worktree, WorktreeError, clean, linked, list};
use crate::{Fleet, Locks, Query, Wanted};

/// What `worktree list --json` prints and `GET /v1/worktrees` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trees {
    /// The main one first.
    pub worktrees: Vec<HeldTree>,
    pub sources: Vec<SourceReport>,
}

/// A working tree, and who is in it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HeldTree {
    #[serde(flatten)]
    pub tree: Worktree,
    /// Sessions that work there, and manual locks on it or above it.
    pub holders: Vec<DirectoryHolder>,
}

/// What `worktree create --json` prints and `POST /v1/worktrees` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTree {
    pub path: String,
    pub branch: String,
    created_branch: bool,
    /// Where the branch stands.
    commit: String,
}

impl From<Made> for NewTree {
    fn from(made: Made) -> Self {
        Self {
            path: made.path.to_string_lossy().into_owned(),
            branch: made.branch,
            created_branch: made.created_branch,
            commit: made.commit,
        }
    }
}

/// What `worktree clean --json` prints and `POST /v1/worktrees/clean` answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cleaned {
    pub dry_run: bool,
    pub worktrees: Vec<Cleaning>,
    /// Trees about which nothing could be said.
    pub failed: Vec<FailedTree>,
    pub sources: Vec<SourceReport>,
}

/// A working tree that could not be looked at, and why.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FailedTree {
    pub path: String,
    pub error: String,
}

/// Which worktrees are to be cleaned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorktreeSelection {
    /// All that were added to the repository.
    All,
    These(Vec<PathBuf>),
}

impl Fleet {
    /// Returns the worktrees of a repository, and who is in them.
    pub fn worktrees(
        &self,
        repository: &Path,
        locks: &Locks,
        now: Timestamp,
    ) -> Result<Trees, WorktreeError> {
        let trees = list(repository)?;
        let survey = self.survey(&Query::new(Wanted::Live));
        let held = |tree: Worktree| {
            let holders = locks.holders(&survey, Path::new(&tree.path), now)?;
            Ok::<_, WorktreeError>(HeldTree { tree, holders })
        };
        let worktrees = trees.into_iter().map(held).collect::<Result<_, _>>()?;
        Ok(Trees { worktrees, sources: survey.sources })
    }

    /// Removes the worktrees with which nothing would be lost, and reports what keeps the others.
    pub fn clean_worktrees(
        &self,
        repository: &Path,
        which: WorktreeSelection,
        options: CleanOptions,
        locks: &Locks,
        now: Timestamp,
    ) -> Result<Cleaned, WorktreeError> {
        let paths = match which {
            WorktreeSelection::All => linked(repository)?,
            WorktreeSelection::These(paths) => paths,
        };
        let survey = self.survey(&Query::new(Wanted::Live));
        let (mut worktrees, mut failed) = (Vec::new(), Vec::new());
        for path in &paths {
            let holders = locks.holders(&survey, path, now)?;
            match clean(path, Some(repository), &holders, options) {
                Ok(cleaning) => worktrees.push(cleaning),
                // One bad name among several must not hide the results of the others.
                Err(error) if paths.len() > 1 && !matches!(error, WorktreeError::NoGit(_)) => {
                    failed.push(FailedTree {
                        path: path.to_string_lossy().into_owned(),
                        error: error.to_string(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Cleaned { dry_run: options.dry_run, worktrees, failed, sources: survey.sources })
    }
}
