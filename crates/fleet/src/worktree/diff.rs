//! What was done in a worktree since it was made, including committed, changed and new files.

use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::git::{Settings, git, git_set, path_text, text_of};
use super::list::listed;
use super::{Made, WorktreeError, commit_of};

/// How much was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffStat {
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
}

/// The format of a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Patch,
    /// One line for each file, in this many columns.
    Stat(usize),
}

/// Returns the counts. `None` if both the worktree and its branch are gone.
pub fn diffstat(made: &Made, base: Option<&str>) -> Result<Option<DiffStat>, WorktreeError> {
    Ok(compare(made, base, &["--numstat"])?.map(|answer| count(&text_of(&answer))))
}

/// Returns the diff as git prints it.
pub fn diff(made: &Made, base: Option<&str>, form: Form) -> Result<Option<Vec<u8>>, WorktreeError> {
    match form {
        Form::Patch => compare(made, base, &["--patch"]),
        Form::Stat(width) => compare(made, base, &[&format!("--stat={width}")]),
    }
}

/// Returns how the working tree around this folder differs from its last commit; new files count.
pub(super) fn uncommitted(folder: &Path) -> Result<Vec<u8>, WorktreeError> {
    let mut arguments = exact(&["--patch"]);
    // Before the first commit everything is new.
    let from = match commit_of(folder, "HEAD")? {
        Some(commit) => commit,
        None => text_of(&git(folder, &["hash-object", "-t", "tree", "/dev/null"])?),
    };
    arguments.extend([from.as_str(), "--"]);
    let (_folder, index) = index_with_new_files(folder)?;
    git_set(folder, &index, &arguments)
}

/// Parses one line for each file: insertions, deletions, name. A binary file has dashes.
fn count(answer: &str) -> DiffStat {
    let mut stat = DiffStat::default();
    for line in answer.lines() {
        let mut fields = line.split('\t').map(|field| field.parse().unwrap_or(0));
        stat.files += 1;
        stat.insertions += fields.next().unwrap_or(0);
        stat.deletions += fields.next().unwrap_or(0);
    }
    stat
}

/// The arguments of a diff. Its output uses neither the user's diff program nor colours nor other prefixes, because
/// programs read it too.
fn exact<'a>(form: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"];
    arguments.extend(["--src-prefix=a/", "--dst-prefix=b/"]);
    // Inside a submodule git would use the submodule's own settings, which are not checked here.
    arguments.extend(["--submodule=short", "--ignore-submodules=dirty"]);
    arguments.extend(form);
    arguments
}

fn compare(made: &Made, base: Option<&str>, form: &[&str]) -> Result<Option<Vec<u8>>, WorktreeError> {
    let mut arguments = exact(form);
    if made.path.is_dir() {
        let from = began(made, &made.path, "HEAD", base)?;
        arguments.extend([from.as_str(), "--"]);
        let (_folder, index) = index_with_new_files(&made.path)?;
        return git_set(&made.path, &index, &arguments).map(Some);
    }
    let branch = format!("refs/heads/{}", made.branch);
    if commit_of(&made.common, &branch)?.is_none() {
        return Ok(None);
    }
    let from = began(made, &made.common, &branch, base)?;
    arguments.extend([from.as_str(), branch.as_str(), "--"]);
    git(&made.common, &arguments).map(Some)
}

/// Returns the commit at which the work began: where the branch left its base. If the branch was moved to a newer base,
/// that is not where it stood when it was made. Once the base contains all of it, the only known commit is the one at
/// which it was made.
fn began(made: &Made, folder: &Path, tip: &str, base: Option<&str>) -> Result<String, WorktreeError> {
    let made_at = made.commit.clone();
    if !made.created_branch {
        return Ok(made_at);
    }
    let base = match base {
        Some(base) => commit_of(&made.common, base)?,
        None => listed(&made.common)?.first().and_then(|main| main.head.clone()),
    };
    let (Some(base), Some(tip)) = (base, commit_of(folder, tip)?) else { return Ok(made_at) };
    let left = super::git::git_says(folder, &["merge-base", &tip, &base])?.map(|answer| text_of(&answer));
    Ok(left.filter(|left| *left != tip).unwrap_or(made_at))
}

/// An index of a million files has about a hundred megabytes.
const LARGEST_INDEX: u64 = 1 << 30;

/// Returns a copy of the worktree's index in which new files are announced, so that they are part of the diff. The
/// worktree's own index belongs to the agent and is never written.
fn index_with_new_files(tree: &Path) -> Result<(Option<TempDir>, Settings), WorktreeError> {
    let new = git(tree, &["ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/"])?;
    if new.is_empty() {
        return Ok((None, Vec::new()));
    }
    let folder = tempfile::tempdir().map_err(|source| WorktreeError::Io { path: "/tmp".into(), source })?;
    let failed = |source: io::Error| WorktreeError::Io { path: folder.path().to_owned(), source };
    let own = git(tree, &["rev-parse", "--path-format=absolute", "--git-path", "index"])?;
    let (index, names) = (folder.path().join("index"), folder.path().join("names"));
    // Git compares the contents of files that were changed at the time of the index or later. A copy with a newer time
    // would hide a change in the same second that does not alter the size.
    match agentctl_files::copy_small(path_text(&own).as_ref(), &index, LARGEST_INDEX) {
        // A worktree without any file has no index.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    agentctl_files::write_anew(&names, &new).map_err(failed)?;
    let settings: Settings = vec![("GIT_INDEX_FILE", index.into_os_string())];
    // The announcement stores an empty object. It goes outside the repository, which is only read.
    let objects = folder.path().join("objects");
    fs::create_dir(&objects).map_err(failed)?;
    let mut announcing = settings.clone();
    announcing.push(("GIT_OBJECT_DIRECTORY", objects.into_os_string()));
    announcing.push(("GIT_LITERAL_PATHSPECS", "1".into()));
    let list = format!("--pathspec-from-file={}", names.display());
    let top = git(tree, &["rev-parse", "--show-toplevel"])?;
    git_set(
        Path::new(path_text(&top)),
        &announcing,
        &["add", "--intent-to-add", &list, "--pathspec-file-nul"],
    )?;
    Ok((Some(folder), settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_binary_files_have_none() {
        let stat = count("3\t1\tsrc/a.rs\n-\t-\tlogo.png\n0\t7\tsrc/{b.rs => c.rs}\n");
        assert_eq!(stat, DiffStat { files: 3, insertions: 3, deletions: 8 });
        assert_eq!(count(""), DiffStat::default());
    }
}
