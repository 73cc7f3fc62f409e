//! The programs of a repository that a checkout runs: its hooks, and what its configuration names.
//!
//! Nothing of a repository runs until a person has agreed to it. The consent covers these contents, by their digest:
//! for another hook, another command line, or another commit that brings its own hooks, the person is asked again.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use agentctl_adapters::transcript::jsonl::open::read_small;
use agentctl_model::text;
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use super::config::{Config, is_relative};
use super::git::{config, git, hooks_folder};
use super::{Made, WorktreeError, make_empty, plan, remove_unfilled};
use crate::keep::marks::Marks;

/// The hooks that making a worktree runs.
pub(super) const HOOKS: [&str; 3] = ["post-checkout", "post-index-change", "reference-transaction"];

/// The size limit of a hook.
pub(super) const LONGEST_HOOK: u64 = 1 << 20;

/// What a checkout would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// A description for a person, one for each program.
    pub named: Vec<String>,
    /// The digest of everything that was examined, including the path of the repository.
    pub digest: String,
}

/// The hooks that filling a worktree runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hooks {
    /// The contents of these hooks, which were in this directory.
    Copied { from: PathBuf, content: Vec<(&'static str, Vec<u8>)> },
    /// The hooks of the commit or of the user's own directory, as `core.hooksPath` says.
    Named(Vec<u8>),
}

/// Everything that the search found.
pub(super) struct Examined {
    pub(super) programs: Option<Programs>,
    pub(super) hooks: Hooks,
    pub(super) config: Config,
}

/// Returns what making this worktree would run; `None` in the ordinary case that there is nothing. If the repository
/// says that its worktrees differ, an empty one is made to examine it, and removed again.
pub fn programs(
    repository: &Path,
    branch: &str,
    base: Option<&str>,
) -> Result<Option<Programs>, WorktreeError> {
    let (_held, planned) = plan(repository, branch, base)?;
    let made = &planned.made;
    let config = config(&made.common)?;
    if !config.differs_by_tree() {
        return Ok(programs_of(made, &config)?.0);
    }
    make_empty(&planned)?;
    let programs = examine(made).map(|looked| looked.programs);
    remove_unfilled(made);
    programs
}

/// Returns what filling this existing worktree would run, and the configuration that says so.
pub(super) fn examine(made: &Made) -> Result<Examined, WorktreeError> {
    let config = config(&made.path)?;
    let (programs, hooks) = programs_of(made, &config)?;
    Ok(Examined { programs, hooks, config })
}

/// Ensures that what making this worktree runs may run: there is nothing, a person agreed to it before, or `agree`
/// agrees now, which is recorded.
pub fn consent(
    marks: &Marks,
    (repository, branch, base): (&Path, &str, Option<&str>),
    now: Timestamp,
    agree: impl FnOnce(&Programs) -> bool,
) -> Result<(), WorktreeError> {
    let Some(programs) = programs(repository, branch, base)? else { return Ok(()) };
    if marks.is_agreed(&programs.digest)? {
        return Ok(());
    }
    if !agree(&programs) {
        return Err(WorktreeError::Untrusted { path: repository.to_owned(), programs: programs.named });
    }
    Ok(marks.agree(&programs.digest, now)?)
}

/// Returns what filling this worktree would run under this configuration. The worktree itself may not exist yet.
pub(super) fn programs_of(made: &Made, config: &Config) -> Result<(Option<Programs>, Hooks), WorktreeError> {
    let mut content = Content::new(&made.common);
    for (words, setting) in config.run_by_a_checkout() {
        content.add(&words, &setting);
        // What it runs may be a file of the commit.
        for word in words.split(|c: char| c.is_whitespace() || "'\"=;&|()".contains(c)) {
            if let Some(entries) = committed(made, word.as_bytes())? {
                content.hash(&entries);
            }
        }
    }
    let Some((value, of_the_repository)) = config.hooks_path() else {
        let hooks = content.hooks(made.common.join("hooks"))?;
        return Ok((content.programs(), hooks));
    };
    let mut hooks = Hooks::Named(value.to_owned());
    if of_the_repository {
        content.add(&format!("core.hooksPath = {}", String::from_utf8_lossy(value)), value);
    }
    if is_relative(value) {
        // This includes a relative path that the user has set: it leads into every repository, and the repository
        // decides what is in it.
        if let Some(entries) = committed(made, value)? {
            content.add(&format!("hooks in {} of the commit", String::from_utf8_lossy(value)), &entries);
        }
        // The path may lead out of the worktree. What lies in the worktree itself comes from the commit.
        let folder = without_dots(&made.path.join(OsStr::from_bytes(value)));
        if !folder.starts_with(&made.path) {
            hooks = content.hooks(folder)?;
        }
    } else if of_the_repository {
        hooks = content.hooks(hooks_folder(&made.common)?)?;
    }
    Ok((content.programs(), hooks))
}

/// Normalises the path without following links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Whether git would run it. A file that cannot be examined counts as one, and reading it then fails.
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

/// Returns what the commit has at this path, as modes, names and ids. If there is a link on the way, or the path leads
/// out of the worktree, or git cannot tell, this is the whole commit, because then anything in it may be what runs.
/// `None` if there is nothing.
fn committed(made: &Made, place: &[u8]) -> Result<Option<Vec<u8>>, WorktreeError> {
    if place.is_empty() || place.starts_with(b"/") || place.contains(&0) {
        return Ok(None);
    }
    let whole = || Ok(Some(made.commit.as_bytes().to_vec()));
    let parts = place.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&&b".."[..]) || parts.is_empty() {
        return whole();
    }
    for depth in 1..=parts.len() {
        let place = parts[..depth].join(&b'/');
        let Some(entry) = entries(made, &[], &place)? else { return whole() };
        match entry.get(..6) {
            None => return Ok(None),
            Some(b"040000") => {}
            Some(b"120000") => return whole(),
            Some(_) => return Ok((depth == parts.len()).then_some(entry)),
        }
    }
    let Some(inside) = entries(made, &["-r"], &parts.join(&b'/'))? else { return whole() };
    if inside.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"120000")) {
        whole()
    } else {
        Ok(Some(inside))
    }
}

/// Returns `None` if git cannot tell, because the commit is not completely here.
fn entries(made: &Made, flags: &[&str], place: &[u8]) -> Result<Option<Vec<u8>>, WorktreeError> {
    let mut arguments: Vec<&OsStr> = vec!["ls-tree".as_ref(), "-z".as_ref(), "--full-tree".as_ref()];
    arguments.extend(flags.iter().map(OsStr::new));
    arguments.extend([made.commit.as_ref(), OsStr::new("--"), OsStr::from_bytes(place)]);
    match git(&made.common, &arguments) {
        Ok(answer) => Ok(Some(answer)),
        Err(WorktreeError::Git { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Collects contents, each with its length before it, so that no two different contents look alike.
struct Content {
    named: Vec<String>,
    digest: Context,
}

impl Content {
    fn new(common: &Path) -> Self {
        let mut content = Self { named: Vec::new(), digest: Context::new(&SHA256) };
        content.hash(common.as_os_str().as_bytes());
        content
    }

    /// Adds one program. A person sees all of it, including characters that are normally invisible.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        self.hash(name.as_bytes());
        self.hash(bytes);
        self.named.push(text::visible_line(name));
    }

    /// Reads the hooks of this directory: the bytes that would run, and where they lie. A link is resolved, because it
    /// is not what runs.
    fn hooks(&mut self, folder: PathBuf) -> Result<Hooks, WorktreeError> {
        let mut content = Vec::new();
        for name in HOOKS {
            let hook = folder.join(name);
            if !is_executable(&hook) {
                continue;
            }
            let failed = |source| WorktreeError::Io { path: hook.clone(), source };
            let end = agentctl_files::real_path(&hook).map_err(failed)?;
            let bytes = whole(&end).map_err(failed)?;
            self.add(&format!("hook {name} = {}", hook.display()), &bytes);
            self.hash(end.as_os_str().as_bytes());
            content.push((name, bytes));
        }
        Ok(Hooks::Copied { from: folder, content })
    }

    fn hash(&mut self, bytes: &[u8]) {
        self.digest.update(&(bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    fn programs(self) -> Option<Programs> {
        let digest = HEXLOWER.encode(self.digest.finish().as_ref());
        (!self.named.is_empty()).then_some(Programs { named: self.named, digest })
    }
}
