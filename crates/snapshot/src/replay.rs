//! Answers from a snapshot: its records are unpacked into a private folder, and its kernel is data.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Root;
use agentctl_adapters::sqlite::excerpt;
use agentctl_files::own;
use agentctl_files::scratch::{self, Scratch};
use agentctl_fleet::{Fleet, KernelLock, Moment, Source, Unheard};
use agentctl_model::{Error, Session, SourceReport, Surveyed};
use serde_json::Value;

use crate::archive::{self, LARGEST_FILE, MOST_PARTS};
use crate::kernel::Replayed;
use crate::manifest::{FileEntry, Manifest, SourceEntry, UnheardSource, VERSION};

/// How long a source may make no progress; its files are here.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How deep a path may be, and how long.
const DEEPEST: usize = 64;
const LONGEST: usize = 3000;

/// A snapshot that was unpacked. The folder is removed when this is dropped.
pub struct Replay {
    pub manifest: Manifest,
    inside: PathBuf,
    /// The launches that a runner held are held again.
    _held: Vec<KernelLock>,
    _folder: Scratch,
}

impl Replay {
    /// Unpacks a file that may come from anybody. `home` is agentctl's own folder.
    pub fn open(file: &Path, home: Option<&Path>) -> Result<Self, Error> {
        let named = |error: io::Error| Error::failed(format!("{}: {error}", file.display()));
        let bytes = agentctl_files::read_small(file, LARGEST_FILE).map_err(named)?;
        let parts = archive::unpack(&bytes).map_err(named)?;
        let manifest = read(&parts.manifest).map_err(named)?;
        if manifest.files.len() != parts.files.len() {
            return Err(named(bad("its list of records and its records differ")));
        }
        let below = scratch::place(home);
        scratch::sweep(&below);
        let folder = Scratch::new_in(&below).map_err(named)?;
        let inside = agentctl_files::real_path(folder.path()).map_err(named)?;
        write(&manifest, &parts.files, &inside).map_err(named)?;
        let held = hold(&manifest, &inside).map_err(named)?;
        Ok(Self { manifest, inside, _held: held, _folder: folder })
    }

    /// The fleet that answers about that moment.
    pub fn fleet(&self) -> Fleet {
        let manifest = &self.manifest;
        let known = agentctl_adapters::registry();
        let source = |entry: &SourceEntry| {
            let adapter = *known.iter().find(|adapter| adapter.card().name == entry.adapter)?;
            let is_folder = adapter.gateway().is_none() && entry.root.is_absolute();
            // No server is asked in a replay, so there is one only as a source that was not heard.
            if !is_folder && entry.unheard.as_ref().is_none_or(UnheardSource::has_answered) {
                return None;
            }
            let store = entry.store.as_deref().and_then(|store| self.here(store));
            let root = Root { path: self.root_here(entry)?, store, keys: None };
            Some(Source { adapter, root, timeout: TIMEOUT })
        };
        let unheard = |entry: &SourceEntry| {
            let unheard = entry.unheard.as_ref()?;
            Some(Unheard {
                adapter: entry.adapter.clone(),
                root: self.root_here(entry)?,
                coverage: unheard.coverage(),
                warnings: unheard.warnings.clone(),
            })
        };
        let sources: Vec<Source> = manifest.sources.iter().filter_map(source).collect();
        let places =
            manifest.sources.iter().flat_map(|source| std::iter::once(&source.root).chain(&source.store));
        let roots: Vec<PathBuf> = places.chain(&manifest.launches).cloned().collect();
        // What was written into the manifest is written again into a value of its own.
        let record =
            serde_json::to_value(&manifest.kernel).and_then(serde_json::from_value).unwrap_or_default();
        let kernel = Replayed::new(record, self.inside.clone(), roots, self.identities());
        let moment = Moment {
            at: manifest.taken_at,
            host: manifest.host.clone(),
            branches: manifest.branches.clone(),
            unheard: manifest.sources.iter().filter_map(unheard).collect(),
        };
        let fleet = Fleet::new(sources, Arc::new(kernel)).at_moment(moment);
        match manifest.launches.as_deref().and_then(|launches| self.here(launches)) {
            Some(launches) => fleet.with_launches(launches),
            None => fleet,
        }
    }

    /// Which file of ours stands for which one of that machine.
    fn identities(&self) -> BTreeMap<(u64, u64), (u64, u64)> {
        let files = self.manifest.files.iter().filter_map(|file| {
            let found = std::fs::symlink_metadata(self.here(&file.path)?).ok()?;
            Some(((file.device, file.inode), (found.dev(), found.ino())))
        });
        files.collect()
    }

    /// The root of a source as it is here. The address of a server stays.
    fn root_here(&self, source: &SourceEntry) -> Option<PathBuf> {
        if source.root.is_absolute() { self.here(&source.root) } else { Some(source.root.clone()) }
    }

    /// A path of that machine, as it is here.
    pub fn here(&self, path: &Path) -> Option<PathBuf> {
        below(&self.inside, path).ok()
    }

    /// A session as that machine would have told it.
    pub fn told(&self, surveyed: Surveyed) -> Surveyed {
        let session = serde_json::to_value(&*surveyed.session).ok();
        let session = session
            .map(|value| self.shown(value))
            .and_then(|value| serde_json::from_value::<Session>(value).ok());
        let mut told = surveyed;
        if let Some(session) = session {
            *told.session = session;
        }
        told.key.root = self.text(&told.key.root);
        told
    }

    /// How a source was heard, as that machine would have told it.
    pub fn told_source(&self, mut source: SourceReport) -> SourceReport {
        source.root = self.text(&source.root);
        source.error = source.error.map(|error| self.text(&error));
        source.warnings.iter_mut().for_each(|warning| *warning = self.text(warning));
        source
    }

    /// A text without the place where the records lie here.
    pub fn text(&self, text: &str) -> String {
        self.inside.to_str().map_or_else(|| text.to_owned(), |inside| text.replace(inside, ""))
    }

    fn shown(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(values) => values.into_iter().map(|value| self.shown(value)).collect(),
            Value::Object(pairs) => pairs
                .into_iter()
                .map(|(key, value)| (key, self.shown(value)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other,
        }
    }
}

fn bad(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

fn read(bytes: &[u8]) -> io::Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } =
        serde_json::from_slice(bytes).map_err(|error| bad(format!("it is no snapshot: {error}")))?;
    if version > VERSION {
        return Err(bad(format!("it is of version {version}, which only a newer agentctl understands")));
    }
    let manifest: Manifest =
        serde_json::from_slice(bytes).map_err(|error| bad(format!("its list is damaged: {error}")))?;
    if manifest.folders.len() > MOST_PARTS
        || manifest.sources.len() > MOST_PARTS
        || manifest.held.len() > MOST_PARTS
    {
        return Err(bad("it is too large"));
    }
    Ok(manifest)
}

/// The path below our folder that stands for a path of that machine. Nothing leads out of it.
fn below(inside: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut place = inside.to_owned();
    let mut depth = 0;
    for component in path.components() {
        match component {
            Component::RootDir => {}
            Component::Normal(name) => {
                depth += 1;
                place.push(name);
            }
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => {
                return Err(bad(format!("{} is no path of a record", path.display())));
            }
        }
    }
    if !path.is_absolute() || depth == 0 || depth > DEEPEST || path.as_os_str().len() > LONGEST {
        return Err(bad(format!("{} is no path of a record", path.display())));
    }
    Ok(place)
}

/// Writes the records. Every file is new, so none is written through a link, and none replaces another.
fn write(manifest: &Manifest, files: &[Vec<u8>], inside: &Path) -> io::Result<()> {
    for folder in &manifest.folders {
        own::make_folder(&below(inside, folder)?)?;
    }
    for (entry, bytes) in manifest.files.iter().zip(files) {
        let place = below(inside, &entry.path)?;
        if let Some(folder) = place.parent() {
            own::make_folder(folder)?;
        }
        refuse_databases(&entry.path, bytes)?;
        let mut file = own::create_new(&place)?;
        if let Some(adapter) = &entry.database_of {
            rebuild(&place, adapter, bytes)?;
            set_modified(&file, entry);
            continue;
        }
        let launch = manifest.launches.as_ref().is_some_and(|launches| entry.path.starts_with(launches));
        let moved = if launch { moved_launch(bytes, inside) } else { None };
        io::Write::write_all(&mut file, moved.as_deref().unwrap_or(bytes))?;
        set_modified(&file, entry);
    }
    Ok(())
}

fn set_modified(file: &std::fs::File, entry: &FileEntry) {
    let (seconds, nanoseconds) = entry.modified;
    let since = Duration::new(u64::try_from(seconds).unwrap_or_default(), nanoseconds.min(999_999_999));
    // A time that this file system cannot hold leaves the present one.
    if let Some(modified) = std::time::UNIX_EPOCH.checked_add(since) {
        let _ = file.set_modified(modified);
    }
}

/// A database that somebody else made, or a log that would become part of one, could hold a schema of theirs.
fn refuse_databases(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if archive::is_beside_a_database(path) || archive::is_database(bytes) {
        return Err(bad(format!("{} is a database, and only rows of one are accepted", path.display())));
    }
    Ok(())
}

/// Makes a database of the rows that were taken from one.
fn rebuild(place: &Path, adapter: &str, rows: &[u8]) -> io::Result<()> {
    let known = agentctl_adapters::registry().into_iter().find(|known| known.card().name == adapter);
    let tables = known.and_then(agentctl_adapters::Adapter::tables);
    excerpt::rebuild(place, tables.ok_or_else(|| bad("it holds a database of no agent"))?, rows)
}

/// A launch record whose session is below our folder.
fn moved_launch(record: &[u8], inside: &Path) -> Option<Vec<u8>> {
    let mut record: Value = serde_json::from_slice(record).ok()?;
    let root = record.pointer_mut("/order/root")?;
    let here = below(inside, Path::new(root.as_str()?)).ok()?;
    *root = here.to_str()?.into();
    serde_json::to_vec(&record).ok()
}

fn hold(manifest: &Manifest, inside: &Path) -> io::Result<Vec<KernelLock>> {
    let mut held = Vec::new();
    for launch in &manifest.held {
        let place = below(inside, launch)?;
        own::make_folder(&place)?;
        held.extend(KernelLock::on_folder(&place, Duration::ZERO)?);
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let inside = Path::new("/inside");
        assert_eq!(below(inside, Path::new("/home/dev/x")).unwrap(), Path::new("/inside/home/dev/x"));
        for path in ["../x", "/../x", "/home/../../x", "x", "", "/", "./x"] {
            assert!(below(inside, Path::new(path)).is_err(), "{path}");
        }
        assert!(below(inside, Path::new(&"/a".repeat(DEEPEST + 1))).is_err());
    }
}
