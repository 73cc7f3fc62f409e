//! The programs of a repository's own that a checkout runs: its hooks, and what its configuration names.
//!
//! A repository is somebody's text until a person has agreed to run it. What was agreed to is this content, by its digest:
//! another hook, another command line, another commit that brings its hooks along is asked about anew.

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
use super::view::TreesError;
use super::{Made, WorktreeError, plan, plant, take_back};
use crate::keep::marks::Marks;

/// The hooks that making a tree runs.
pub(super) const HOOKS: [&str; 3] = ["post-checkout", "post-index-change", "reference-transaction"];

/// No hook is longer.
pub(super) const LONGEST_HOOK: u64 = 1 << 20;

/// What a checkout would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// For a person, one of each.
    pub named: Vec<String>,
    /// Of everything that was looked at, the repository's place included.
    pub digest: String,
}

/// The hooks that filling a tree runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hooks {
    /// These, which lay in this folder, by their contents.
    Copied { from: PathBuf, content: Vec<(&'static str, Vec<u8>)> },
    /// Those of the commit or of the user's own folder, as `core.hooksPath` says.
    Named(Vec<u8>),
}

/// What was found by looking, all at once.
pub(super) struct Looked {
    pub(super) programs: Option<Programs>,
    pub(super) hooks: Hooks,
    pub(super) config: Config,
}

/// What making this tree would run; `None` in the ordinary case, that there is nothing. Where the repository says that its trees
/// differ, an empty one is made to see it, and taken away again.
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
    plant(&planned)?;
    let programs = look_in(made).map(|looked| looked.programs);
    take_back(made);
    programs
}

/// What filling this tree, which is there, would run, and the configuration that says so.
pub(super) fn look_in(made: &Made) -> Result<Looked, WorktreeError> {
    let config = config(&made.path)?;
    let (programs, hooks) = programs_of(made, &config)?;
    Ok(Looked { programs, hooks, config })
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

/// What filling this tree would run under this configuration. The tree itself may not be there yet.
pub(super) fn programs_of(made: &Made, config: &Config) -> Result<(Option<Programs>, Hooks), WorktreeError> {
    let mut content = Content::new(&made.common);
    for (words, setting) in config.run_by_a_checkout() {
        content.add(&words, &setting);
        // What it runs may be a file of the commit.
        for word in words.split(|c: char| c.is_whitespace() || "'\"=;&|()".contains(c)) {
            if let Some(entries) = committed(made, word.as_bytes())? {
                content.also(&entries);
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
        // Also one of the user's: it lies in every repository, so it is the repository that says what is in it.
        if let Some(entries) = committed(made, value)? {
            content.add(&format!("hooks in {} of the commit", String::from_utf8_lossy(value)), &entries);
        }
        // It may lead out of the tree. What lies in the tree itself is the commit's.
        let folder = without_dots(&made.path.join(OsStr::from_bytes(value)));
        if !folder.starts_with(&made.path) {
            hooks = content.hooks(folder)?;
        }
    } else if of_the_repository {
        hooks = content.hooks(hooks_folder(&made.common)?)?;
    }
    Ok((content.programs(), hooks))
}

/// The path as it reads, without asking where links lead.
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

/// What the commit has at this place, as modes, names and ids. Where a link is in the way, or the place leads out, or git cannot
/// say, that is the whole commit: anything in it may then be what runs. `None` when there is nothing.
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

/// `None` when git cannot say: the commit is not wholly here.
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

    /// A person sees the whole of it, also what would not show.
    fn add(&mut self, name: &str, bytes: &[u8]) {
        self.also(name.as_bytes());
        self.also(bytes);
        self.named.push(text::visible_line(name));
    }

    /// The hooks of this folder by the bytes that would run, and where those lie: a link is not what runs.
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
            self.also(end.as_os_str().as_bytes());
            content.push((name, bytes));
        }
        Ok(Hooks::Copied { from: folder, content })
    }

    fn also(&mut self, bytes: &[u8]) {
        self.digest.update(&(bytes.len() as u64).to_le_bytes());
        self.digest.update(bytes);
    }

    fn programs(self) -> Option<Programs> {
        let digest = HEXLOWER.encode(self.digest.finish().as_ref());
        (!self.named.is_empty()).then_some(Programs { named: self.named, digest })
    }
}
