//! What a session has changed in its working tree.

use std::path::Path;

use agentctl_model::{Surveyed, text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::WorktreeError;
use super::diff::{Form, diff, uncommitted};
use super::root::worktree_root;
use crate::Fleet;
use crate::keep::launches::LaunchFolder;

/// The longest patch that is told. No person reads more of it.
const LONGEST: usize = 4 << 20;

/// What `GET /v1/sessions/{id}/changes` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The session's directory; null where its agent does not record one.
    pub cwd: Option<String>,
    /// What the patch is compared with: `branch` (where the session's own branch began) or `commit` (the last commit).
    /// Null when nothing could be compared.
    pub since: Option<String>,
    /// A patch as git writes it. Null when nothing could be compared, and `error` says why.
    pub diff: Option<String>,
    pub files: Vec<ChangedFile>,
    /// Whether the patch is longer than what is told here.
    pub truncated: bool,
    pub error: Option<String>,
}

/// How many lines of one file were changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    pub path: String,
    pub added: u64,
    pub removed: u64,
}

impl Fleet {
    /// What was changed in the session's working tree: since its branch began if it was launched into a tree of its own,
    /// and since the last commit otherwise. Git runs nothing that the repository names.
    pub fn changes(&self, target: &Surveyed) -> Changes {
        let cwd = target.session.cwd.clone();
        let nothing = |error: String| Changes {
            cwd: cwd.clone(),
            since: None,
            diff: None,
            files: Vec::new(),
            truncated: false,
            error: Some(text::one_line(&error)),
        };
        match self.patch_of(target) {
            Ok((since, patch)) => {
                let truncated = patch.len() > LONGEST;
                let told = if truncated { &patch[..LONGEST] } else { &patch[..] };
                let diff = String::from_utf8_lossy(told).into_owned();
                let files = changed_files(&String::from_utf8_lossy(&patch));
                Changes {
                    cwd: cwd.clone(),
                    since: Some(since.to_owned()),
                    diff: Some(diff),
                    files,
                    truncated,
                    error: None,
                }
            }
            Err(error) => nothing(error),
        }
    }

    fn patch_of(&self, target: &Surveyed) -> Result<(&'static str, Vec<u8>), String> {
        let words = |error: WorktreeError| error.to_string();
        let launch = target.session.launch.as_ref().zip(self.launches_folder());
        let record = launch.and_then(|(launch, all)| LaunchFolder::at(all.join(&launch.id)).record().ok());
        if let Some((made, order)) = record.and_then(|record| Some((record.made?, record.order))) {
            let base = order.worktree.as_ref().and_then(|order| order.base.as_deref());
            if let Some(patch) = diff(&made, base, Form::Patch).map_err(words)? {
                return Ok(("branch", patch));
            }
        }
        let cwd = target.session.cwd.as_deref().ok_or("its agent does not record a directory")?;
        let folder = Path::new(cwd);
        if !folder.is_dir() {
            return Err(format!("{cwd} is not there any more"));
        }
        if worktree_root(folder).is_none() {
            return Err(format!("{cwd} is not in a git repository"));
        }
        Ok(("commit", uncommitted(folder).map_err(words)?))
    }
}

/// Counts the lines of each file of a patch.
fn changed_files(patch: &str) -> Vec<ChangedFile> {
    let mut files: Vec<ChangedFile> = Vec::new();
    // Inside a hunk a line that begins like a header is content.
    let mut in_hunk = false;
    for line in patch.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            in_hunk = false;
            let name = names.rsplit_once(" b/").map_or(names, |(_, name)| name);
            files.push(ChangedFile { path: name.trim_end_matches('"').to_owned(), added: 0, removed: 0 });
            continue;
        }
        in_hunk |= line.starts_with("@@");
        let Some(file) = files.last_mut().filter(|_| in_hunk) else { continue };
        match line.as_bytes().first() {
            Some(b'+') => file.added += 1,
            Some(b'-') => file.removed += 1,
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_for_each_file_and_content_is_no_header() {
        let patch = "diff --git a/one b/one\n--- a/one\n+++ b/one\n@@ -1,2 +1,2 @@\n same\n--- old\n+++ new\n+more\n\
                     diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n";
        let counted: Vec<_> =
            changed_files(patch).into_iter().map(|file| (file.path, file.added, file.removed)).collect();
        assert_eq!(counted, [("one".to_owned(), 2, 1), ("logo.png".to_owned(), 0, 0)]);
    }
}
