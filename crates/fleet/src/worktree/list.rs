//! The worktrees of a repository, and the state of each.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::git::{Settings, git, git_set, text_of};
use super::{WorktreeError, commit_of, common_folder};

/// How deep nested submodules are examined.
const DEEPEST: usize = 8;

/// One entry of git's own list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    pub(super) head: Option<String>,
    /// Without `refs/heads/`; `None` if detached.
    pub(super) branch: Option<String>,
    pub(super) bare: bool,
    /// The reason of `git worktree lock` if it is locked (may be empty).
    pub(super) locked: Option<String>,
}

/// What a worktree contains that no commit has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) changed: Vec<String>,
    pub(super) untracked: Vec<String>,
}

impl Changes {
    pub(super) fn any(&self) -> bool {
        !self.changed.is_empty() || !self.untracked.is_empty()
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.changed.len(), self.untracked.len()) {
            (changed, 0) => write!(out, "{changed} changed"),
            (0, untracked) => write!(out, "{untracked} untracked"),
            (changed, untracked) => write!(out, "{changed} changed, {untracked} untracked"),
        }
    }
}

/// What would be lost with a working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TreeState {
    /// Everything is committed and kept elsewhere.
    Clean,
    /// Files that no commit has.
    Dirty,
    /// Commits that neither a remote nor the base branch has.
    Ahead,
    /// Its folder is gone; git still remembers it.
    Missing,
    /// The repository has no files of its own here.
    Bare,
    /// Git cannot say: it is damaged. `error` says how.
    Unknown,
}

/// A working tree and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Worktree {
    pub path: String,
    /// `null` when detached.
    pub branch: Option<String>,
    pub head: Option<String>,
    /// The repository's own working tree, which `clean` never removes.
    pub main: bool,
    pub state: TreeState,
    pub changed: Option<usize>,
    pub untracked: Option<usize>,
    /// Commits that neither a remote nor the base branch has; `null` for the main tree of a repository without remotes.
    pub unpushed: Option<usize>,
    /// Locked with `git worktree lock`.
    pub locked: bool,
    /// Why nothing more is known of it; the other trees are.
    pub error: Option<String>,
}

/// Returns the worktrees of the repository around `inside`, the main one first.
pub fn list(inside: &Path) -> Result<Vec<Worktree>, WorktreeError> {
    let common = common_folder(inside)?;
    let trees = listed(&common)?;
    let bases = bases(&common, &trees)?;
    trees.iter().enumerate().map(|(index, tree)| read_worktree(&common, tree, index == 0, &bases)).collect()
}

/// Reads one worktree. If it is damaged, its entry says so, and the others are still listed.
fn read_worktree(
    common: &Path,
    tree: &Listed,
    main: bool,
    bases: &[Base],
) -> Result<Worktree, WorktreeError> {
    let seen = seen(tree, main);
    match read_state(common, tree, seen.clone(), bases) {
        Err(
            error @ (WorktreeError::Git { .. } | WorktreeError::Silent { .. } | WorktreeError::Io { .. }),
        ) => Ok(Worktree { state: TreeState::Unknown, error: Some(error.to_string()), ..seen }),
        read => read,
    }
}

fn seen(tree: &Listed, main: bool) -> Worktree {
    Worktree {
        path: tree.path.to_string_lossy().into_owned(),
        branch: tree.branch.clone(),
        head: tree.head.clone(),
        main,
        state: TreeState::Clean,
        changed: None,
        untracked: None,
        unpushed: None,
        locked: tree.locked.is_some(),
        error: None,
    }
}

fn read_state(
    common: &Path,
    tree: &Listed,
    seen: Worktree,
    bases: &[Base],
) -> Result<Worktree, WorktreeError> {
    if tree.bare || !tree.path.is_dir() {
        let state = if tree.bare { TreeState::Bare } else { TreeState::Missing };
        return Ok(Worktree { state, ..seen });
    }
    let changes = changes(&tree.path)?;
    // The main worktree is the base of the others; without a remote there is nothing that it could be ahead of.
    let comparable = !seen.main || has_remotes(common)?;
    let unpushed = if comparable { Some(unpushed(common, tree, bases)?.len()) } else { None };
    let state = match (changes.any(), unpushed) {
        (true, _) => TreeState::Dirty,
        (false, None | Some(0)) => TreeState::Clean,
        (false, Some(_)) => TreeState::Ahead,
    };
    Ok(Worktree {
        state,
        changed: Some(changes.changed.len()),
        untracked: Some(changes.untracked.len()),
        unpushed,
        ..seen
    })
}

pub(super) fn listed(common: &Path) -> Result<Vec<Listed>, WorktreeError> {
    Ok(parse(&git(common, &["worktree", "list", "--porcelain", "-z"])?))
}

/// Parses git's list: records end with an empty field, fields end with NUL.
fn parse(answer: &[u8]) -> Vec<Listed> {
    let mut trees: Vec<Listed> = Vec::new();
    for field in answer.split(|byte| *byte == 0).filter(|field| !field.is_empty()) {
        let (key, value) = match field.iter().position(|byte| *byte == b' ') {
            Some(space) => (&field[..space], &field[space + 1..]),
            None => (field, &b""[..]),
        };
        let words = || String::from_utf8_lossy(value).into_owned();
        if key == b"worktree" {
            trees.push(Listed { path: PathBuf::from(OsStr::from_bytes(value)), ..Listed::default() });
        } else if let Some(tree) = trees.last_mut() {
            match key {
                b"HEAD" => tree.head = Some(words()),
                b"branch" => tree.branch = words().strip_prefix("refs/heads/").map(str::to_owned),
                b"bare" => tree.bare = true,
                b"locked" => tree.locked = Some(words()),
                _ => {}
            }
        }
    }
    trees
}

/// Returns what `git status` names. A directory of new files is one entry, and so is a submodule in which anything is
/// changed or new.
pub(super) fn changes(tree: &Path) -> Result<Changes, WorktreeError> {
    changes_below(tree, &Settings::new(), 0)
}

fn changes_below(tree: &Path, settings: &Settings, depth: usize) -> Result<Changes, WorktreeError> {
    let arguments =
        ["status", "--porcelain=v1", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"];
    let answer = git_set(tree, settings, &arguments)?;
    let mut changes = Changes::default();
    let mut fields = answer.split(|byte| *byte == 0).filter(|field| field.len() > 3);
    while let Some(field) = fields.next() {
        let name = String::from_utf8_lossy(&field[3..]).into_owned();
        if field.starts_with(b"??") {
            changes.untracked.push(name);
        } else {
            changes.changed.push(name);
            // A rename also names the old path, in a field of its own.
            if field[..2].contains(&b'R') || field[..2].contains(&b'C') {
                fields.next();
            }
        }
    }
    for name in submodules(tree, settings)? {
        let shown = String::from_utf8_lossy(&name).into_owned();
        if !changes.changed.contains(&shown) && is_changed_inside(tree, &name, depth)? {
            changes.changed.push(shown);
        }
    }
    Ok(changes)
}

/// Returns the paths of submodules that the index names.
fn submodules(tree: &Path, settings: &Settings) -> Result<Vec<Vec<u8>>, WorktreeError> {
    let answer = git_set(tree, settings, &["ls-files", "--stage", "-z", "--", ":/"])?;
    let entries = answer.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    let name = |entry: &[u8]| Some(entry[entry.iter().position(|byte| *byte == b'\t')? + 1..].to_vec());
    Ok(entries.filter_map(name).collect())
}

/// Git would read a submodule under the submodule's own settings and run what they name. So each submodule is examined
/// separately.
fn is_changed_inside(tree: &Path, name: &[u8], depth: usize) -> Result<bool, WorktreeError> {
    let inside = tree.join(OsStr::from_bytes(name));
    // Nothing was checked out there, or it is a link, which git does not follow either.
    if inside.join(".git").symlink_metadata().is_err() || inside.is_symlink() {
        return Ok(false);
    }
    // Anything deeper counts as changed without being read, so it is kept.
    if depth == DEEPEST {
        return Ok(true);
    }
    // A directory that is no repository must not be taken for the one around it.
    let settings: Settings = vec![("GIT_CEILING_DIRECTORIES", tree.as_os_str().to_owned())];
    if git_set(&inside, &settings, &["rev-parse", "--git-dir"]).is_err() {
        return Ok(false);
    }
    changes_below(&inside, &settings, depth + 1).map(|changes| changes.any())
}

fn has_remotes(common: &Path) -> Result<bool, WorktreeError> {
    Ok(!git(common, &["for-each-ref", "--count=1", "refs/remotes"])?.is_empty())
}

/// A commit that counts as kept, and the branch that keeps it.
pub(super) struct Base {
    branch: Option<String>,
    commit: String,
}

/// Besides remotes, these keep a commit: the commit of the main worktree, and the branches with which repositories
/// usually begin.
pub(super) fn bases(common: &Path, trees: &[Listed]) -> Result<Vec<Base>, WorktreeError> {
    let mut bases = Vec::new();
    if let Some(main) = trees.first().filter(|main| !main.bare)
        && let Some(commit) = commit_of(&main.path, "HEAD")?
    {
        bases.push(Base { branch: main.branch.clone(), commit });
    }
    for branch in ["main", "master"] {
        if let Some(commit) = commit_of(common, &format!("refs/heads/{branch}"))? {
            bases.push(Base { branch: Some(branch.to_owned()), commit });
        }
    }
    Ok(bases)
}

/// Returns the commits of a worktree that nothing else keeps, newest first, each with its subject. A branch does not
/// keep itself.
pub(super) fn unpushed(common: &Path, tree: &Listed, bases: &[Base]) -> Result<Vec<String>, WorktreeError> {
    // A branch without any commit has only zeros here.
    let Some(head) = tree.head.as_deref().filter(|head| head.bytes().any(|byte| byte != b'0')) else {
        return Ok(Vec::new());
    };
    let kept = bases.iter().filter(|base| base.branch.is_none() || base.branch != tree.branch);
    let mut arguments = vec!["log", "--no-show-signature", "--format=%h %s", head, "--not", "--remotes"];
    arguments.extend(kept.map(|base| base.commit.as_str()));
    arguments.push("--");
    let text = text_of(&git(common, &arguments)?);
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_list_is_read_with_odd_paths_and_states() {
        let answer = b"worktree /w/repo\0HEAD aa\0branch refs/heads/main\0\0\
            worktree /w/with space\nand line\0HEAD bb\0detached\0locked\0\0\
            worktree /w/gone\0HEAD cc\0branch refs/heads/try/x\0locked on a stick\0prunable gitdir file points nowhere\0\0";
        let trees = parse(answer);
        assert_eq!(trees.len(), 3);
        assert_eq!(trees[0].branch.as_deref(), Some("main"));
        assert_eq!(trees[1].path, Path::new("/w/with space\nand line"));
        assert_eq!((trees[1].branch.as_deref(), trees[1].locked.as_deref()), (None, Some("")));
        assert_eq!(
            (trees[2].branch.as_deref(), trees[2].locked.as_deref()),
            (Some("try/x"), Some("on a stick"))
        );
        assert_eq!(parse(b"worktree /w/bare.git\0bare\0\0").first().map(|tree| tree.bare), Some(true));
    }
}
