//! The programs of a repository's own that a checkout runs: its hooks, and what its configuration names.
//!
//! A repository is somebody's text until a person has agreed to run it. What was agreed to is this content, by its digest:
//! another hook, another command line, another commit that brings its hooks along is asked about anew.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use agentctl_adapters::jsonl::open::read_small;
use agentctl_model::text;
use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use super::git::{config, git_says, hooks_folder, text_of};
use super::view::TreesError;
use super::{Beginning, WorktreeError, begin, common_folder};
use crate::fresh::hex;
use crate::marks::Marks;

/// The hooks that `git worktree add` runs.
const HOOKS: [&str; 3] = ["post-checkout", "post-index-change", "reference-transaction"];

/// No hook is longer.
const LONGEST_HOOK: u64 = 1 << 20;

/// How much of a command line is shown.
const SHOWN: usize = 60;

/// What a checkout would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// For a person, one of each.
    pub named: Vec<String>,
    /// Of everything that was looked at, the repository's place included.
    pub digest: String,
}

/// What making this tree would run; `None` in the ordinary case, that there is nothing.
pub fn programs(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
) -> Result<Option<Programs>, WorktreeError> {
    let common = common_folder(repository)?;
    let Beginning { commit, .. } = begin(repository, &common, branch, base)?;
    programs_of(&common, &commit)
}

/// That what making this tree runs may be run: there is nothing, it was agreed to before, or `agree` agrees now, which is
/// remembered.
pub fn consent(
    marks: &Marks,
    (repository, branch, base): (&Path, &str, Option<&str>),
    now: Timestamp,
    agree: impl FnOnce(&Programs) -> bool,
) -> Result<(), TreesError> {
    let Some(programs) = programs(repository, branch, base)? else { return Ok(()) };
    if marks.is_agreed(&programs.digest)? {
        return Ok(());
    }
    if !agree(&programs) {
        return Err(WorktreeError::Untrusted { path: repository.to_owned(), programs: programs.named }.into());
    }
    Ok(marks.agree(&programs.digest, now)?)
}

pub(super) fn programs_of(common: &Path, commit: &str) -> Result<Option<Programs>, WorktreeError> {
    let config = config(common)?;
    let mut content = Content::new(common);
    for setting in config.run_by_a_checkout() {
        content.add(&cut(&setting), setting.as_bytes());
        // What it runs may be a file of the commit.
        for word in setting.split(|c: char| c.is_whitespace() || "'\"=;&|()".contains(c)) {
            if let Some(id) = object(common, commit, word.trim_start_matches("./"))? {
                content.also(id.as_bytes());
            }
        }
    }
    let (folder, is_theirs) = match config.hooks_path() {
        None => (PathBuf::from("hooks"), true),
        Some((path, of_the_repository)) => (PathBuf::from(OsStr::from_bytes(path)), of_the_repository),
    };
    // A relative folder of the user's lies in every repository, so it is the repository that says what is in it.
    if is_theirs || !(folder.is_absolute() || folder.starts_with("~")) {
        let here = hooks_folder(common)?;
        for name in HOOKS {
            let hook = here.join(name);
            if is_executable(&hook) {
                let bytes =
                    whole(&hook).map_err(|source| WorktreeError::Io { path: hook.clone(), source })?;
                // Agreed to is the hook of this name and content; shown is where to look at it.
                content.also(format!("hook {name}").as_bytes());
                content.also(&bytes);
                content.named.push(format!("hook {}", text::one_line(&hook.to_string_lossy())));
            }
            if !folder.is_absolute()
                && let Some(place) = folder.join(name).to_str()
                && let Some(id) = object(common, commit, place)?
            {
                content.add(&format!("hook {place} of the commit"), id.as_bytes());
            }
        }
    }
    Ok(content.programs())
}

/// Whether git would run it; what cannot be seen is taken for one, and then cannot be read.
fn is_executable(path: &Path) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.is_file() && metadata.permissions().mode() & 0o111 != 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

fn whole(hook: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_small(hook, LONGEST_HOOK)?;
    if bytes.len() as u64 >= LONGEST_HOOK {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "is too long for a hook"));
    }
    Ok(bytes)
}

/// The file of this name in the commit.
fn object(common: &Path, commit: &str, place: &str) -> Result<Option<String>, WorktreeError> {
    if place.is_empty() || place.starts_with('/') || place.contains('\0') {
        return Ok(None);
    }
    let name = format!("{commit}:{place}");
    let answer = git_says(common, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name])?;
    Ok(answer.map(|answer| text_of(&answer)))
}

fn cut(setting: &str) -> String {
    let line = text::one_line(setting);
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Each thing with its length before it, so that no two contents look alike.
struct Content {
    named: Vec<String>,
    digest: Context,
}

impl Content {
    fn new(common: &Path) -> Self {
        let mut content = Self { named: Vec::new(), digest: Context::new(&SHA256) };
        content.also(common.as_os_str().as_bytes());
        content
    }

    fn add(&mut self, name: &str, bytes: &[u8]) {
        self.also(name.as_bytes());
        self.also(bytes);
        self.named.push(name.to_owned());
    }

    fn also(&mut self, bytes: &[u8]) {
        self.digest.update(&(bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    fn programs(self) -> Option<Programs> {
        let digest = hex(self.digest.finish().as_ref());
        (!self.named.is_empty()).then_some(Programs { named: self.named, digest })
    }
}
