//! What was done in a working tree since it was made: committed, changed and new files alike.

use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use tempfile::TempDir;

use super::git::{Settings, git, git_set, path_text, text_of};
use super::list::listed;
use super::{Made, WorktreeError, commit_of};

/// How much was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DiffStat {
    pub files: u64,
    pub insertions: u64,
    pub deletions: u64,
}

/// How a difference is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Patch,
    /// A line for each file, in this many columns.
    Stat(usize),
}

/// The counts. `None` when neither the tree nor its branch are there any more.
pub fn diffstat(made: &Made, base: Option<&str>) -> Result<Option<DiffStat>, WorktreeError> {
    Ok(compare(made, base, &["--numstat"])?.map(|answer| count(&text_of(&answer))))
}

/// The difference in git's words.
pub fn diff(made: &Made, base: Option<&str>, form: Form) -> Result<Option<Vec<u8>>, WorktreeError> {
    match form {
        Form::Patch => compare(made, base, &["--patch"]),
        Form::Stat(width) => compare(made, base, &[&format!("--stat={width}")]),
    }
}

/// A line for each file: insertions, deletions, name. A binary file has dashes.
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

fn compare(made: &Made, base: Option<&str>, form: &[&str]) -> Result<Option<Vec<u8>>, WorktreeError> {
    // Neither the user's own diff program nor colours nor other prefixes: this is read by programs too.
    let mut arguments = vec!["diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"];
    arguments.extend(["--src-prefix=a/", "--dst-prefix=b/"]);
    // Inside a submodule git would go by that one's own settings, which are not looked at here.
    arguments.extend(["--submodule=short", "--ignore-submodules=dirty"]);
    arguments.extend(form);
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

/// The commit that the work began at: where the branch left its base. That is not where it stood when it was made once it was
/// moved onto a newer base; and once the base has it all, where it was made is all that is known.
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

/// A copy of the tree's index in which new files are announced, so that they are part of a difference. The tree's own index is
/// the agent's and is never written.
fn index_with_new_files(tree: &Path) -> Result<(Option<TempDir>, Settings), WorktreeError> {
    let new = git(tree, &["ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/"])?;
    if new.is_empty() {
        return Ok((None, Vec::new()));
    }
    let folder = tempfile::tempdir().map_err(|source| WorktreeError::Io { path: "/tmp".into(), source })?;
    let failed = |source: io::Error| WorktreeError::Io { path: folder.path().to_owned(), source };
    let own = git(tree, &["rev-parse", "--path-format=absolute", "--git-path", "index"])?;
    let (index, names) = (folder.path().join("index"), folder.path().join("names"));
    // Git compares the contents of a file that was changed at the time of the index or later: a copy that looked younger
    // would hide what was changed in the same second without becoming longer.
    match agentctl_files::copy_small(path_text(&own).as_ref(), &index, LARGEST_INDEX) {
        // A tree without a single file has no index.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    agentctl_files::write_anew(&names, &new).map_err(failed)?;
    let settings: Settings = vec![("GIT_INDEX_FILE", index.into_os_string())];
    // The announcement stores an empty file: outside the repository, which is only looked at.
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
