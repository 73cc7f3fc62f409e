//! Removes a worktree without losing anything, or reports what would be lost.

use std::path::{Path, PathBuf};

use agentctl_model::{DirectoryHolder, LockType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{git, git_about, text_of};
use super::list::{Listed, bases, changes, listed, unpushed};
use super::{UndoResult, WorktreeError, common_folder, delete_branch, hold};
use crate::worktree::root::real_path;

/// Why a tree is not simply removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LossKind {
    Changed,
    Untracked,
    Unpushed,
    /// With `git worktree lock`, or by hand with `agentctl lock`.
    Locked,
    /// A live session works there.
    InUse,
}

/// One thing that would be lost or disturbed, in words and by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    pub kind: LossKind,
    pub summary: String,
    /// Files, commits or holders.
    pub items: Vec<String>,
}

impl Loss {
    fn new(kind: LossKind, noun: (&str, &str), items: Vec<String>) -> Option<Self> {
        let noun = if items.len() == 1 { noun.0 } else { noun.1 };
        (!items.is_empty()).then(|| Self { kind, summary: format!("{} {noun}", items.len()), items })
    }
}

/// What was done with one tree, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cleaning {
    pub path: String,
    pub branch: Option<String>,
    /// In a dry run: it would be.
    pub removed: bool,
    pub branch_deleted: bool,
    /// What stood in the way, or was lost because it was forced.
    pub losses: Vec<Loss>,
    /// Ignored files that go with the tree: builds, dependencies, but maybe also settings.
    pub ignored: Vec<String>,
    /// Why the branch stayed although it was to be deleted.
    pub note: Option<String>,
}

/// How far a cleaning may go.
#[derive(Debug, Clone, Copy, Default)]
pub struct CleanOptions {
    pub force: bool,
    pub delete_branch: bool,
    pub dry_run: bool,
}

/// Removes the worktree at `path` unless something would be lost. `holders` are those of [`crate::Locks::holders`].
/// Force overrides every loss, but does not remove a worktree in which a live process works.
pub fn clean(
    path: &Path,
    repository: Option<&Path>,
    holders: &[DirectoryHolder],
    options: CleanOptions,
) -> Result<Cleaning, WorktreeError> {
    let path = real_path(path);
    // The directory of a worktree may be gone; then only the repository knows of it.
    let common = common_folder(repository.filter(|_| !path.is_dir()).unwrap_or(&path))?;
    let _held = hold(&common)?;
    let trees = listed(&common)?;
    let index = trees.iter().position(|tree| real_path(&tree.path) == path);
    let Some(index) = index else { return Err(WorktreeError::NotARepository(path)) };
    if index == 0 {
        return Err(WorktreeError::MainTree(path));
    }
    let tree = &trees[index];
    let losses = losses(&common, &trees, tree, holders)?;
    let alive = holders.iter().any(|holder| holder.lock_type == LockType::Auto && holder.pid.is_some());
    let mut done = Cleaning {
        path: tree.path.to_string_lossy().into_owned(),
        branch: tree.branch.clone(),
        removed: losses.is_empty() || (options.force && !alive),
        branch_deleted: false,
        losses,
        ignored: ignored(&tree.path)?,
        note: None,
    };
    if !done.removed {
        return Ok(done);
    }
    if options.dry_run {
        done.branch_deleted = options.delete_branch && tree.branch.is_some();
        return Ok(done);
    }
    remove(&common, tree, options.force)?;
    if let (true, Some(branch), Some(head)) = (options.delete_branch, &tree.branch, &tree.head) {
        match delete_branch(&common, branch, head)? {
            UndoResult::Removed => done.branch_deleted = true,
            UndoResult::Kept(why) => done.note = Some(why),
        }
    }
    Ok(done)
}

fn losses(
    common: &Path,
    trees: &[Listed],
    tree: &Listed,
    holders: &[DirectoryHolder],
) -> Result<Vec<Loss>, WorktreeError> {
    let mut losses = Vec::new();
    if tree.path.is_dir() {
        let changes = changes(&tree.path)?;
        losses.extend(Loss::new(LossKind::Changed, ("changed file", "changed files"), changes.changed));
        losses.extend(Loss::new(
            LossKind::Untracked,
            ("untracked file", "untracked files"),
            changes.untracked,
        ));
    }
    let commits = unpushed(common, tree, &bases(common, trees)?)?;
    losses.extend(Loss::new(LossKind::Unpushed, ("unpushed commit", "unpushed commits"), commits));
    if let Some(reason) = &tree.locked {
        let items = if reason.is_empty() { Vec::new() } else { vec![reason.clone()] };
        losses.push(Loss { kind: LossKind::Locked, summary: "locked with git".to_owned(), items });
    }
    for holder in holders {
        let (kind, summary) = match holder.lock_type {
            LockType::Manual => (LossKind::Locked, "locked by hand"),
            LockType::Auto => (LossKind::InUse, "in use"),
        };
        losses.push(Loss { kind, summary: summary.to_owned(), items: vec![holder.to_string()] });
    }
    Ok(losses)
}

fn ignored(tree: &Path) -> Result<Vec<String>, WorktreeError> {
    if !tree.is_dir() {
        return Ok(Vec::new());
    }
    let arguments = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"];
    let answer = text_of(&git(tree, &arguments)?);
    Ok(answer.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// Without force, git itself checks once more. For a locked worktree it needs the flag twice.
fn remove(common: &Path, tree: &Listed, force: bool) -> Result<(), WorktreeError> {
    let mut arguments: Vec<&std::ffi::OsStr> = vec!["worktree".as_ref(), "remove".as_ref()];
    if force {
        arguments.extend([std::ffi::OsStr::new("--force"); 2]);
    }
    arguments.push(tree.path.as_os_str());
    git_about(common, &tree.path, &arguments).map(|_| ())
}

/// Returns the linked worktrees of the repository around `inside`; only these can be cleaned.
pub fn linked(inside: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
    let trees = listed(&common_folder(inside)?)?;
    Ok(trees.into_iter().skip(1).map(|tree| tree.path).collect())
}
