//! Working trees made with git: creating one beside its repository, undoing that, listing and cleaning.
//!
//! The only room of the fleet that runs a program (`git`, so that sparse checkouts and settings are the user's own). Looking at
//! a repository runs nothing that it names; a checkout runs its hooks and filters once a person has agreed to them
//! (`programs`). Nothing is removed that cannot be shown to be kept elsewhere, unless it is forced.

mod clean;
mod config;
mod diff;
mod git;
mod list;
mod programs;
mod view;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kernel_lock::KernelLock;
use crate::marks::Marks;
use crate::store::StoreError;

pub use clean::{Cleaning, Loss, LossKind, Wish, clean, linked};
pub use diff::{DiffStat, Form, diff, diffstat};
pub use list::{TreeState, Worktree, list};
pub use programs::{Programs, consent, programs};
pub use view::{Cleaned, FailedTree, HeldTree, NewTree, Trees, TreesError, Which};

use git::{git, git_says, git_with_programs, text_of};
use list::{Listed, listed};

/// How long another creation in the same repository may take: a checkout of a large one on a slow disk.
const PATIENCE: Duration = Duration::from_mins(5);

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("git cannot be run: {0}")]
    NoGit(std::io::Error),
    #[error("{} is not in a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("`{0}` cannot be the name of a branch")]
    BadBranch(String),
    #[error("`{0}` names no commit in this repository")]
    BadBase(String),
    #[error("the branch {0} exists already, so it cannot begin at another one")]
    BranchExists(String),
    #[error("the branch {0} is on several remotes; --base-branch says which one is meant")]
    SeveralRemotes(String),
    #[error("the branch {branch} is checked out in {}", path.display())]
    BranchInUse { branch: String, path: PathBuf },
    #[error("{} is the main working tree of its repository", .0.display())]
    MainTree(PathBuf),
    /// Nobody has agreed to run these.
    #[error("a checkout of {} runs programs of its own: {}", path.display(), programs.join(", "))]
    Untrusted { path: PathBuf, programs: Vec<String> },
    #[error("git has not answered about {} for {seconds} s", path.display())]
    Silent { path: PathBuf, seconds: u64 },
    #[error("git says more than {megabytes} MiB about {}", path.display())]
    TooMuch { path: PathBuf, megabytes: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("another git operation holds {} for too long", .0.display())]
    Busy(PathBuf),
    #[error("git {doing}: {words}")]
    Git { doing: String, words: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl WorktreeError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Untrusted { .. } => {
                Some("look at them; --trust runs them, and is remembered until they change".to_owned())
            }
            Self::Store(error) => error.hint(),
            _ => None,
        }
    }
}

/// A working tree that we made, with what is needed to undo it, also by another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    pub path: PathBuf,
    pub branch: String,
    /// The branch did not exist before.
    pub created_branch: bool,
    /// Where the branch stood when the tree was made.
    pub commit: String,
    /// The folder that all trees of the repository share (`.git` of the main one).
    common: PathBuf,
}

/// What became of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    Removed,
    /// Somebody has worked there: it stays, and this is why.
    Kept(String),
}

/// Makes a working tree of `repository` beside it, on `branch`: one that exists, or a new one that begins at `base` (without one:
/// at the only remote branch of this name, else at the commit that is checked out in `repository`). One at a time per
/// repository; when it fails, nothing is left. What it runs of the repository's own must have been [agreed to](consent).
pub fn create(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
    marks: &Marks,
) -> Result<Made, WorktreeError> {
    create_noting(repository, branch, base, marks, |_| Ok(()))
}

/// Whether such a tree can be asked for at all: a repository, a name that git takes, and a commit to begin at. Makes nothing.
pub(crate) fn check(repository: &Path, branch: &str, base: Option<&str>) -> Result<(), WorktreeError> {
    let common = common_folder(repository)?;
    checked_name(&common, branch)?;
    let Some(base) = base else { return Ok(()) };
    commit_of(&common, base)?.map(drop).ok_or_else(|| WorktreeError::BadBase(base.to_owned()))
}

/// Where a tree on this branch begins.
struct Beginning {
    branch: String,
    commit: String,
    /// There is no such branch yet.
    is_new: bool,
    /// The remote branch that a new one follows.
    remote: Option<String>,
}

fn begin(
    repository: &Path,
    common: &Path,
    branch: &str,
    base: Option<&str>,
) -> Result<Beginning, WorktreeError> {
    let branch = checked_name(common, branch)?;
    if let Some(commit) = commit_of(common, &format!("refs/heads/{branch}"))? {
        return match base {
            Some(_) => Err(WorktreeError::BranchExists(branch)),
            None => Ok(Beginning { branch, commit, is_new: false, remote: None }),
        };
    }
    let remote = if base.is_none() { remote_branch(common, &branch)? } else { None };
    let start = match (&remote, base) {
        (Some(remote), _) => commit_of(common, remote)?,
        (None, Some(base)) => commit_of(common, base)?,
        (None, None) => commit_of(repository, "HEAD")?,
    };
    let commit = start.ok_or_else(|| WorktreeError::BadBase(base.unwrap_or("HEAD").to_owned()))?;
    Ok(Beginning { branch, commit, is_new: true, remote })
}

/// The same as [`create`]; `note` hears what will be made before it is made, so that whoever dies in between can be cleaned up after.
pub fn create_noting(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
    marks: &Marks,
    note: impl FnOnce(&Made) -> Result<(), WorktreeError>,
) -> Result<Made, WorktreeError> {
    let common = common_folder(repository)?;
    let branch = checked_name(&common, branch)?;
    let _held = hold(&common)?;
    let trees = listed(&common)?;
    if let Some(tree) = trees.iter().find(|tree| tree.branch.as_deref() == Some(&branch)) {
        return Err(WorktreeError::BranchInUse { branch, path: tree.path.clone() });
    }
    let Beginning { branch, commit, is_new, remote } = begin(repository, &common, &branch, base)?;
    // Looked at again, by whoever runs them: what was agreed to may have become something else.
    if let Some(programs) = programs::programs_of(&common, &commit)?
        && !marks.is_agreed(&programs.digest)?
    {
        return Err(WorktreeError::Untrusted { path: repository.to_owned(), programs: programs.named });
    }
    let path = free_path(&trees, &branch);
    let made = Made { path, branch, created_branch: is_new, commit, common };
    note(&made)?;
    if !is_new {
        add(&made, &[made.path.as_os_str(), made.branch.as_ref()])?;
        return Ok(made);
    }
    // A commit's own name can be neither a flag nor ambiguous; only a remote branch is followed.
    let (tracking, start) = match &remote {
        Some(remote) => ("--track", remote),
        None => ("--no-track", &made.commit),
    };
    let new = ["-b".as_ref(), made.branch.as_ref(), tracking.as_ref(), made.path.as_os_str(), start.as_ref()];
    add(&made, &new)?;
    Ok(made)
}

/// Removes a working tree that we made, and the branch if we made that too, when nothing was done there: no changed or new
/// file, no commit of its own. For undoing what a failed launch made.
pub fn remove_if_clean(made: &Made) -> Result<Undone, WorktreeError> {
    let _held = hold(&made.common)?;
    if made.path.exists() {
        let changes = list::changes(&made.path)?;
        if changes.any() {
            return Ok(Undone::Kept(format!("{} has {changes}", made.path.display())));
        }
        let head = commit_of(&made.path, "HEAD")?;
        if head.as_ref() != Some(&made.commit) {
            return Ok(Undone::Kept(format!("{} has commits of its own", made.path.display())));
        }
    }
    // Without --force, git looks once more itself.
    let arguments = ["worktree".as_ref(), "remove".as_ref(), made.path.as_os_str()];
    if listed(&made.common)?.iter().any(|tree| tree.path == made.path) {
        git(&made.common, &arguments)?;
    }
    if made.created_branch {
        return delete_branch(&made.common, &made.branch, &made.commit);
    }
    Ok(Undone::Removed)
}

/// Only if it still stands at `commit`: git compares and deletes in one step.
fn delete_branch(common: &Path, branch: &str, commit: &str) -> Result<Undone, WorktreeError> {
    let reference = format!("refs/heads/{branch}");
    match commit_of(common, &reference)? {
        None => return Ok(Undone::Removed),
        Some(tip) if tip != commit => {
            return Ok(Undone::Kept(format!("the branch {branch} has commits of its own")));
        }
        Some(_) => {}
    }
    // Deleting by comparison does not look whether somebody has it checked out, so we do.
    if let Some(tree) = listed(common)?.iter().find(|tree| tree.branch.as_deref() == Some(branch)) {
        return Ok(Undone::Kept(format!("the branch {branch} is checked out in {}", tree.path.display())));
    }
    git(common, &["update-ref", "-d", &reference, commit])?;
    // What the branch followed is a note that the next branch of this name must not inherit; there may be none.
    let _ = git(common, &["config", "--remove-section", &format!("branch.{branch}")]);
    Ok(Undone::Removed)
}

fn add(made: &Made, arguments: &[&std::ffi::OsStr]) -> Result<(), WorktreeError> {
    let whole: Vec<&std::ffi::OsStr> =
        ["worktree".as_ref(), "add".as_ref()].into_iter().chain(arguments.iter().copied()).collect();
    git_with_programs(&made.common, &whole).map(|_| ()).inspect_err(|_| take_back(made))
}

/// A creation that failed half-way (a hook that refused, a full disk). Nobody else has seen the tree: the lock is still held.
fn take_back(made: &Made) {
    let arguments = ["worktree".as_ref(), "remove".as_ref(), "--force".as_ref(), made.path.as_os_str()];
    let _ = git(&made.common, &arguments);
    // Goes only if it is empty.
    let _ = fs::remove_dir(&made.path);
    if made.created_branch {
        let _ = delete_branch(&made.common, &made.branch, &made.commit);
    }
}

/// The lock that every change of this repository's trees takes: the folder itself, so that nothing is written into it.
fn hold(common: &Path) -> Result<KernelLock, WorktreeError> {
    let failed = |source| WorktreeError::Io { path: common.to_owned(), source };
    let held = KernelLock::on_folder(common, PATIENCE).map_err(failed)?;
    held.ok_or_else(|| WorktreeError::Busy(common.to_owned()))
}

/// The folder that all working trees of a repository share.
fn common_folder(inside: &Path) -> Result<PathBuf, WorktreeError> {
    let not_there = || WorktreeError::NotARepository(inside.to_owned());
    if !inside.is_dir() {
        return Err(not_there());
    }
    let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let answer = git_says(inside, &arguments)?.ok_or_else(not_there)?;
    Ok(PathBuf::from(git::path_text(&answer)))
}

/// The name, if git takes it for exactly this branch.
fn checked_name(common: &Path, branch: &str) -> Result<String, WorktreeError> {
    let bad = || WorktreeError::BadBranch(branch.to_owned());
    if branch.starts_with('-') || branch.contains('\0') {
        return Err(bad());
    }
    let answer = git_says(common, &["check-ref-format", "--branch", branch])?.ok_or_else(bad)?;
    if text_of(&answer) == branch { Ok(branch.to_owned()) } else { Err(bad()) }
}

/// The full name of the commit, `None` when there is none.
fn commit_of(folder: &Path, reference: &str) -> Result<Option<String>, WorktreeError> {
    let commit = format!("{reference}^{{commit}}");
    let answer = git_says(folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])?;
    Ok(answer.map(|answer| text_of(&answer)))
}

/// The only remote that has a branch of this name, as `refs/remotes/…`.
fn remote_branch(common: &Path, branch: &str) -> Result<Option<String>, WorktreeError> {
    let pattern = format!("refs/remotes/*/{branch}");
    let answer = git(common, &["for-each-ref", "--format=%(refname)", &pattern])?;
    let text = text_of(&answer);
    let mut names = text.lines();
    match (names.next(), names.next()) {
        (Some(_), Some(_)) => Err(WorktreeError::SeveralRemotes(branch.to_owned())),
        (only, _) => Ok(only.map(str::to_owned)),
    }
}

/// `<repo>-<branch with / as ->` beside the main tree; the first number that is free when that is taken.
fn free_path(trees: &[Listed], branch: &str) -> PathBuf {
    let main = trees.first().map(|tree| tree.path.clone()).unwrap_or_default();
    let name = main.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.strip_suffix(".git").filter(|name| !name.is_empty()).unwrap_or(&name);
    let plain = main.with_file_name(format!("{name}-{}", branch.replace('/', "-")));
    let taken =
        |path: &PathBuf| fs::symlink_metadata(path).is_ok() || trees.iter().any(|tree| tree.path == *path);
    let numbered = (2..).map(|number| {
        let mut name = plain.as_os_str().to_owned();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    });
    std::iter::once(plain.clone()).chain(numbered).find(|path| !taken(path)).unwrap_or(plain)
}
