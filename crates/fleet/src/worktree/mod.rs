//! Worktrees made with git: creating one beside its repository, undoing that, listing and cleaning.
//!
//! This is the only part of the fleet that runs `git`, so that sparse checkouts and settings are the user's own.
//! Nothing of the repository runs unless a person has agreed to it. First an empty worktree is made, then `programs`
//! searches there for what the repository names. If nothing was found, the checkout can run nothing of the repository.
//! Nothing is removed that is not proven to be kept elsewhere, unless it is forced.

mod changes;
mod clean;
mod config;
mod diff;
mod git;
pub(crate) mod head;
mod list;
mod programs;
pub mod root;
mod screened;
mod view;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_model::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

use crate::keep::fault;
use crate::keep::kernel_lock::KernelLock;
use crate::keep::marks::Marks;
use crate::keep::store::StoreError;

pub use changes::{ChangedFile, Changes};
pub use clean::{CleanOptions, Cleaning, Loss, LossKind, clean, linked};
pub use diff::{DiffStat, Form, diff, diffstat};
pub use list::{TreeState, Worktree, list};
pub use programs::{Programs, consent, programs};
pub use view::{Cleaned, FailedTree, HeldTree, NewTree, Trees, WorktreeSelection};

use git::{git, git_about, git_of_the_user, git_says, git_with_programs, text_of};
use list::{Listed, listed};
use programs::{Examined, Hooks};
use screened::Screened;

/// How long another creation in the same repository may take: a checkout of a large one on a slow disk.
const LOCK_TIMEOUT: Duration = Duration::from_mins(5);

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
    /// No person has agreed to run these.
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
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotARepository(_) | Self::BadBranch(_) | Self::BadBase(_) => ErrorKind::Usage,
            Self::BranchInUse { .. }
            | Self::BranchExists(_)
            | Self::MainTree(_)
            | Self::SeveralRemotes(_)
            | Self::Untrusted { .. } => ErrorKind::Refused,
            Self::NoGit(_)
            | Self::Store(_)
            | Self::Busy(_)
            | Self::Git { .. }
            | Self::Silent { .. }
            | Self::TooMuch { .. }
            | Self::Io { .. } => ErrorKind::Failed,
        }
    }

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

impl From<WorktreeError> for Error {
    fn from(error: WorktreeError) -> Self {
        Self { kind: error.kind(), message: error.to_string(), hint: error.hint() }
    }
}

/// A worktree that we made, with what any process needs to undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Made {
    pub path: PathBuf,
    pub branch: String,
    /// The branch did not exist before.
    pub created_branch: bool,
    /// Where the branch stood when the worktree was made.
    pub commit: String,
    /// The directory that all worktrees of the repository share (`.git` of the main one).
    common: PathBuf,
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoResult {
    Removed,
    /// There is work in it, so it stays; this is the reason.
    Kept(String),
}

/// Makes a worktree of `repository` beside it, on `branch`: an existing one, or a new one that begins at `base` (by
/// default at the only remote branch of this name, else at the commit that is checked out in `repository`). Only one is
/// made at a time per repository; if it fails, nothing is left. A person must have [agreed to](consent) what it runs of
/// the repository.
pub fn create(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
    marks: &Marks,
) -> Result<Made, WorktreeError> {
    create_noting(repository, branch, base, marks, |_| Ok(()))
}

/// Checks that such a worktree can be requested at all: there is a repository, a valid branch name, and a commit to
/// begin at. Creates nothing.
pub(crate) fn check(repository: &Path, branch: &str, base: Option<&str>) -> Result<(), WorktreeError> {
    let common = common_folder(repository)?;
    checked_name(&common, branch)?;
    let Some(base) = base else { return Ok(()) };
    commit_of(&common, base)?.map(drop).ok_or_else(|| WorktreeError::BadBase(base.to_owned()))
}

/// Where a worktree on this branch begins.
struct Beginning {
    branch: String,
    commit: String,
    /// The branch does not exist yet.
    is_new: bool,
    /// The remote branch that a new one tracks.
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

/// A worktree that can be made.
struct Planned {
    made: Made,
    /// The remote branch that a new one tracks.
    remote: Option<String>,
}

/// Returns what would be made, and the lock under which that stays true.
fn plan(repository: &Path, branch: &str, base: Option<&str>) -> Result<(KernelLock, Planned), WorktreeError> {
    let common = common_folder(repository)?;
    let branch = checked_name(&common, branch)?;
    let held = hold(&common)?;
    let trees = listed(&common)?;
    if let Some(tree) = trees.iter().find(|tree| tree.branch.as_deref() == Some(&branch)) {
        return Err(WorktreeError::BranchInUse { branch, path: tree.path.clone() });
    }
    let Beginning { branch, commit, is_new, remote } = begin(repository, &common, &branch, base)?;
    let path = free_path(&trees, &branch);
    Ok((held, Planned { made: Made { path, branch, created_branch: is_new, commit, common }, remote }))
}

/// The same as [`create`]; `note` gets what will be made before it is made, so that it can be cleaned up if this
/// process dies in between.
pub fn create_noting(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
    marks: &Marks,
    note: impl FnOnce(&Made) -> Result<(), WorktreeError>,
) -> Result<Made, WorktreeError> {
    let (_held, planned) = plan(repository, branch, base)?;
    let made = &planned.made;
    // If all worktrees have the same settings, a refusal comes before anything is made.
    let config = git::config(&made.common)?;
    if !config.differs_by_tree() {
        agreed(programs::programs_of(made, &config)?.0, repository, marks)?;
    }
    note(made)?;
    make_empty(&planned)?;
    fill(made, repository, marks).inspect_err(|_| remove_unfilled(made))?;
    Ok(planned.made)
}

/// Whether there are programs to run, all of which a person has agreed to.
fn agreed(programs: Option<Programs>, repository: &Path, marks: &Marks) -> Result<bool, WorktreeError> {
    match programs {
        None => Ok(false),
        Some(programs) if marks.is_agreed(&programs.digest)? => Ok(true),
        Some(programs) => {
            Err(WorktreeError::Untrusted { path: repository.to_owned(), programs: programs.named })
        }
    }
}

/// Makes the branch and an empty worktree on it. Runs nothing. If it fails, it removes what it made itself and touches
/// nothing else, because the path or the branch may belong to another process by then.
fn make_empty(Planned { made, remote }: &Planned) -> Result<(), WorktreeError> {
    if made.created_branch {
        // The full name of a commit can be neither a flag nor ambiguous; only a remote branch is tracked.
        let (tracking, start) = match remote {
            Some(remote) => ("--track", remote),
            None => ("--no-track", &made.commit),
        };
        git(&made.common, &["branch", tracking, &made.branch, start])?;
    }
    let empty = ["worktree", "add", "--no-checkout"].map(std::ffi::OsStr::new);
    let arguments = [&empty[..], &[made.path.as_os_str(), made.branch.as_ref()]].concat();
    git(&made.common, &arguments).map(drop).inspect_err(|_| delete_new_branch(made))
}

/// Checks out the files, as `git worktree add` does. The worktree itself is searched for what the repository names,
/// because there all conditions hold as they will; that runs only if it was agreed to. If nothing was found, nothing of
/// the repository can run. A change to the repository after the search has no effect on what runs: git works with what
/// was checked (`screened`).
fn fill(made: &Made, repository: &Path, marks: &Marks) -> Result<(), WorktreeError> {
    let Examined { programs, hooks, config } = programs::examine(made)?;
    let is_agreed = agreed(programs, repository, marks)?;
    let screened = Screened::new(made, &config, &hooks, marks.home())?;
    fault::reach("worktree.looked");
    let settings = screened.settings();
    let files = ["reset", "--hard", "--quiet", "--no-recurse-submodules"];
    let nothing = "0".repeat(made.commit.len());
    let hook = ["hook", "run", "--ignore-missing", "post-checkout", "--", &nothing, &made.commit, "1"];
    let unset = git::Settings::new();
    if is_agreed {
        let hooks = match hooks {
            Hooks::Copied { .. } => screened.hooks().into_os_string(),
            Hooks::Named(path) => std::ffi::OsString::from_vec(path),
        };
        git_with_programs(&made.path, &hooks, &settings, &files)?;
        // The hook may change the repository itself, so it runs in the real one.
        git_with_programs(&made.path, &hooks, &unset, &hook)?;
        return Ok(());
    }
    git_of_the_user(&made.path, &config, &settings, &files)?;
    if config.user_hooks().is_some() {
        git_of_the_user(&made.path, &config, &unset, &hook)?;
    }
    Ok(())
}

/// Removes a worktree that we made, and its branch if we made that too, if nothing was done there: no changed or new
/// file, no commit of its own. This undoes what a failed launch made.
pub fn remove_if_clean(made: &Made) -> Result<UndoResult, WorktreeError> {
    let _held = hold(&made.common)?;
    let mut remove: Vec<&std::ffi::OsStr> = vec!["worktree".as_ref(), "remove".as_ref()];
    if made.path.exists() {
        let never_filled = was_never_filled(made)?;
        if never_filled {
            remove.push("--force".as_ref());
        }
        let changes = list::changes(&made.path)?;
        if changes.any() && !never_filled {
            return Ok(UndoResult::Kept(format!("{} has {changes}", made.path.display())));
        }
        let head = commit_of(&made.path, "HEAD")?;
        if head.as_ref() != Some(&made.commit) {
            return Ok(UndoResult::Kept(format!("{} has commits of its own", made.path.display())));
        }
    }
    // Without --force, git itself checks once more.
    remove.push(made.path.as_os_str());
    if listed(&made.common)?.iter().any(|tree| tree.path == made.path) {
        if !is_ours(made)? {
            return Ok(UndoResult::Kept(format!("{} is on another branch", made.path.display())));
        }
        git_about(&made.common, &made.path, &remove)?;
    }
    if made.created_branch {
        return delete_branch(&made.common, &made.branch, &made.commit);
    }
    Ok(UndoResult::Removed)
}

/// Deletes the branch only if it still stands at `commit`: git compares and deletes in one step.
fn delete_branch(common: &Path, branch: &str, commit: &str) -> Result<UndoResult, WorktreeError> {
    let reference = format!("refs/heads/{branch}");
    match commit_of(common, &reference)? {
        None => return Ok(UndoResult::Removed),
        Some(tip) if tip != commit => {
            return Ok(UndoResult::Kept(format!("the branch {branch} has commits of its own")));
        }
        Some(_) => {}
    }
    // Deleting by comparison does not check whether the branch is checked out somewhere, so we do.
    if let Some(tree) = listed(common)?.iter().find(|tree| tree.branch.as_deref() == Some(branch)) {
        return Ok(UndoResult::Kept(format!(
            "the branch {branch} is checked out in {}",
            tree.path.display()
        )));
    }
    git(common, &["update-ref", "-d", &reference, commit])?;
    // The upstream of the branch is a setting that the next branch of this name must not inherit; there may be none.
    let _ = git(common, &["config", "--remove-section", &format!("branch.{branch}")]);
    Ok(UndoResult::Removed)
}

/// Removes a worktree of ours that could not be filled (no consent, a hook refused, the disk is full). No other process
/// has used it, because the lock is still held.
fn remove_unfilled(made: &Made) {
    let arguments = ["worktree".as_ref(), "remove".as_ref(), "--force".as_ref(), made.path.as_os_str()];
    if is_ours(made).unwrap_or(false) {
        let _ = git_about(&made.common, &made.path, &arguments);
        // This succeeds only if it is empty.
        let _ = fs::remove_dir(&made.path);
    }
    delete_new_branch(made);
}

fn delete_new_branch(made: &Made) {
    if made.created_branch {
        let _ = delete_branch(&made.common, &made.branch, &made.commit);
    }
}

/// Whether the worktree at this path is the one on our branch.
fn is_ours(made: &Made) -> Result<bool, WorktreeError> {
    let is_it = |tree: &Listed| tree.path == made.path && tree.branch.as_ref() == Some(&made.branch);
    Ok(listed(&made.common)?.iter().any(is_it))
}

/// Whether its creator died before any file was checked out: to git all files are missing.
fn was_never_filled(made: &Made) -> Result<bool, WorktreeError> {
    let failed = |source| WorktreeError::Io { path: made.path.clone(), source };
    for entry in agentctl_files::entries(&made.path).map_err(failed)? {
        if entry.map_err(failed)?.file_name() != ".git" {
            return Ok(false);
        }
    }
    let arguments = ["rev-parse", "--path-format=absolute", "--git-path", "index"];
    let index = git(&made.path, &arguments)?;
    Ok(is_ours(made)? && fs::symlink_metadata(git::path_text(&index)).is_err())
}

/// Takes the lock that every change of this repository's worktrees takes. It is on the directory itself, so that
/// nothing is written into it.
fn hold(common: &Path) -> Result<KernelLock, WorktreeError> {
    let failed = |source| WorktreeError::Io { path: common.to_owned(), source };
    let held = KernelLock::on_folder(common, LOCK_TIMEOUT).map_err(failed)?;
    held.ok_or_else(|| WorktreeError::Busy(common.to_owned()))
}

/// Returns the directory that all worktrees of a repository share.
fn common_folder(inside: &Path) -> Result<PathBuf, WorktreeError> {
    let not_there = || WorktreeError::NotARepository(inside.to_owned());
    if !inside.is_dir() {
        return Err(not_there());
    }
    let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
    let answer = git_says(inside, &arguments)?.ok_or_else(not_there)?;
    Ok(PathBuf::from(git::path_text(&answer)))
}

/// Returns the name, if git accepts it as exactly this branch.
fn checked_name(common: &Path, branch: &str) -> Result<String, WorktreeError> {
    let bad = || WorktreeError::BadBranch(branch.to_owned());
    if branch.starts_with('-') || branch.contains('\0') {
        return Err(bad());
    }
    let answer = git_says(common, &["check-ref-format", "--branch", branch])?.ok_or_else(bad)?;
    if text_of(&answer) == branch { Ok(branch.to_owned()) } else { Err(bad()) }
}

/// Returns the full name of the commit; `None` if there is none.
fn commit_of(folder: &Path, reference: &str) -> Result<Option<String>, WorktreeError> {
    let commit = format!("{reference}^{{commit}}");
    let answer = git_says(folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])?;
    Ok(answer.map(|answer| text_of(&answer)))
}

/// Returns the only remote branch of this name, as `refs/remotes/…`.
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

/// Returns `<repo>-<branch with / as ->` beside the main worktree; if that is taken, with the first free number.
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
