//! Takes a snapshot: asks what `list`, `status` and `logs` ask, and keeps what was read for it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentctl_adapters::sqlite::excerpt;
use agentctl_files::trace::{Touched, traced};
use agentctl_fleet::keep::launches::Ledger;
use agentctl_fleet::read::recover::is_of;
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{CoverageKind, Environ, Error, SessionKey, SourceReport, Surveyed, Witness};
use jiff::Timestamp;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::archive::{
    LARGEST_PART, LARGEST_WHOLE, MOST_PARTS, Parts, is_beside_a_database, is_database, pack,
};
use crate::kernel::Recorder;
use crate::manifest::{FileEntry, Manifest, NotCarried, SourceEntry, UnheardSource, VERSION};
use crate::redact::{IN_A_SERVER, LIVE_ANSWER, Redactor, is_known_word};

/// How many sessions a snapshot may hold.
pub const MOST_SESSIONS: usize = 500;

/// A file up to this size is taken whole; of a larger one both ends are.
const WHOLE: u64 = 16 << 20;
const END: usize = 4 << 20;

/// How many entries of a conversation are read, as `logs` does.
const ENTRIES: usize = 50;

/// Which sessions are taken.
#[derive(Debug, Clone)]
pub enum Selection {
    /// What `list` shows.
    Live,
    /// What `list -a` shows.
    All(Since),
    These(Vec<SessionKey>),
}

/// Whose snapshot it is, and when.
pub struct Circumstances<'c> {
    pub environ: &'c Environ,
    pub home: Option<PathBuf>,
    pub now: Timestamp,
    /// Without one, texts stay as they are.
    pub redactor: Option<&'c Redactor>,
}

/// A snapshot that is not written yet.
pub struct Snapshot {
    pub manifest: Manifest,
    pub sessions: Vec<Surveyed>,
    files: Vec<Vec<u8>>,
}

impl Snapshot {
    /// The whole file.
    pub fn pack(self) -> Result<Vec<u8>, Error> {
        let failed = |error: String| Error::failed(format!("the snapshot cannot be packed: {error}"));
        let manifest = serde_json::to_vec(&self.manifest).map_err(|error| failed(error.to_string()))?;
        pack(&Parts { manifest, files: self.files }).map_err(|error| failed(error.to_string()))
    }

    /// How many bytes the records have.
    pub fn bytes(&self) -> u64 {
        self.manifest.files.iter().map(|file| file.size).sum()
    }
}

/// Takes a snapshot of these sessions. Nothing is written.
pub fn take(fleet: &Fleet, selection: &Selection, of: &Circumstances<'_>) -> Result<Snapshot, Error> {
    let recorder = Arc::new(Recorder::new(fleet.shared_kernel()));
    let watched = fleet.seen_by(recorder.clone());
    let ((sessions, heard), touched) = traced(|| survey(&watched, selection));
    if sessions.len() > MOST_SESSIONS {
        let message = format!("these are {} sessions, and a snapshot holds {MOST_SESSIONS}", sessions.len());
        return Err(Error::usage(message).hint("name the sessions that matter, or a shorter --since"));
    }
    let mut not_carried = Vec::new();
    let mut sources = sources(&watched, &sessions, &heard, &mut not_carried);
    let launches = watched.launches_folder().map(Path::to_owned);
    let ours = launches.as_deref().map(|folder| launches_of(folder, &sessions)).unwrap_or_default();
    let roots: Vec<PathBuf> = sources
        .iter()
        .flat_map(|source| std::iter::once(&source.root).chain(&source.store))
        .cloned()
        .collect();
    let is_wanted = |path: &Path| match &launches {
        // Its rows are taken from the database, whichever of its files they lie in.
        _ if is_beside_a_database(path) => false,
        Some(launches) if path == launches => true,
        Some(launches) if path.starts_with(launches) => ours.iter().any(|launch| path.starts_with(launch)),
        _ => roots.iter().any(|root| path.starts_with(root)),
    };
    let wanted: Vec<(PathBuf, Touched)> =
        touched.paths.into_iter().filter(|(path, _)| is_wanted(path)).collect();
    let folders = wanted.iter().filter(|(_, what)| *what == Touched::Folder).map(|(path, _)| path.clone());
    let folders: Vec<PathBuf> = folders.collect();
    let (mut files, mut entries, mut room) = (Vec::new(), Vec::new(), LARGEST_WHOLE / 2);
    let no_rows = BTreeSet::new();
    for (path, _) in wanted.iter().filter(|(_, what)| *what == Touched::File) {
        let rows = touched.rows.get(path).unwrap_or(&no_rows);
        match carry(path, &Rows { fleet: &watched, sessions: rows }, of.redactor) {
            Ok((entry, bytes)) => {
                room = room.checked_sub(entry.size).filter(|_| entries.len() < MOST_PARTS - 1).ok_or_else(
                    || {
                        Error::usage("these sessions have too many records for one snapshot")
                            .hint("name fewer of them")
                    },
                )?;
                entries.push(entry);
                files.push(bytes);
            }
            Err(why) => not_carried.push(NotCarried { what: path.display().to_string(), why }),
        }
    }
    for source in &mut sources {
        source.forget_what_is_seen_again(&entries);
    }
    let locked: HashSet<(u64, u64)> = entries.iter().map(|entry| (entry.device, entry.inode)).collect();
    let mut held: Vec<PathBuf> = ours.into_iter().filter(|launch| is_held(launch)).collect();
    held.sort();
    let mut manifest = Manifest {
        version: VERSION,
        agentctl: env!("CARGO_PKG_VERSION").to_owned(),
        platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        taken_at: of.now,
        host: watched.host().to_owned(),
        home: of.home.clone(),
        environ: choosing(of.environ),
        redacted: of.redactor.is_some(),
        kernel: recorder.record(&locked, &roots),
        sources,
        launches,
        held,
        folders,
        files: entries,
        branches: branches(&sessions),
        not_carried,
    };
    said_by_servers(&sessions, &mut manifest.not_carried);
    if let Some(redactor) = of.redactor {
        manifest.redact(redactor);
    }
    Ok(Snapshot { manifest, sessions, files })
}

/// The sessions, and how the sources were heard.
fn survey(fleet: &Fleet, selection: &Selection) -> (Vec<Surveyed>, Vec<SourceReport>) {
    let all = |wanted: Wanted| vec![fleet.survey(&Query { subagents: true, ..Query::new(wanted) })];
    let (mut found, mut heard) = (Vec::new(), Vec::new());
    let surveys = match selection {
        Selection::Live => all(Wanted::Live),
        Selection::All(since) => all(Wanted::All { since: *since }),
        Selection::These(keys) => keys.iter().map(|key| fleet.survey(&Query::one(key))).collect(),
    };
    for survey in surveys {
        found.extend(survey.sessions);
        heard.extend(survey.sources);
    }
    if let Selection::These(keys) = selection {
        found.retain(|found| keys.contains(&found.key));
    }
    for surveyed in found.iter().take(MOST_SESSIONS) {
        // As `status` and `logs` read it.
        fleet.survey(&Query { usage: true, whole_texts: true, ..Query::one(&surveyed.key) });
        let _ = fleet.read(surveyed, ENTRIES);
    }
    (found, heard)
}

/// The places that were read. One that is no folder cannot be carried, and is kept as one that was not heard.
fn sources(
    fleet: &Fleet,
    sessions: &[Surveyed],
    heard: &[SourceReport],
    not_carried: &mut Vec<NotCarried>,
) -> Vec<SourceEntry> {
    let mut sources = Vec::new();
    for source in fleet.sources() {
        let adapter = source.name().to_owned();
        let root = source.root.path.clone();
        let is_this = |report: &&SourceReport| report.adapter == adapter && Path::new(&report.root) == root;
        // A session that was asked for alone may have been heard better than another one of its source.
        let report = heard.iter().filter(is_this).max_by_key(|report| badness(report.coverage));
        let mut unheard = report.map(|report| UnheardSource {
            coverage: report.coverage,
            error: report.error.clone(),
            warnings: report.warnings.clone(),
            timeout_ms: u64::try_from(source.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        if source.adapter.gateway().is_some() || !root.is_absolute() {
            if let Some(answered) = unheard.as_mut().filter(|one| one.has_answered()) {
                (answered.coverage, answered.error) = (CoverageKind::Failed, Some(IN_A_SERVER.to_owned()));
            }
            if sessions.iter().any(|surveyed| surveyed.key.adapter == adapter) {
                let what = format!("{adapter} at {}", root.display());
                not_carried.push(NotCarried { what, why: IN_A_SERVER.to_owned() });
            }
            if source.adapter.gateway().is_some() && unheard.is_some() {
                sources.push(SourceEntry { adapter, root, store: None, unheard });
            }
            continue;
        }
        // That an agent is not installed is seen again.
        let is_worse = |one: &UnheardSource| badness(one.coverage) > 0;
        let unheard = unheard.filter(is_worse);
        sources.push(SourceEntry { adapter, root, store: source.root.store.clone(), unheard });
    }
    sources
}

/// How far a source is from being heard.
fn badness(coverage: CoverageKind) -> u8 {
    match coverage {
        CoverageKind::Complete | CoverageKind::NotInstalled => 0,
        CoverageKind::Partial => 1,
        CoverageKind::TimedOut | CoverageKind::Failed => 2,
    }
}

/// The launch records of these sessions.
fn launches_of(folder: &Path, sessions: &[Surveyed]) -> Vec<PathBuf> {
    let ledger = Ledger::read(folder);
    let ours =
        ledger.entries().iter().filter(|(_, record)| sessions.iter().any(|one| is_of(record, &one.key)));
    ours.map(|(launch, _)| launch.path().to_owned()).collect()
}

fn is_held(launch: &Path) -> bool {
    agentctl_fleet::KernelLock::is_held(launch).unwrap_or(false)
}

/// Reads one record, bounded and redacted.
fn carry(path: &Path, rows: &Rows<'_>, redactor: Option<&Redactor>) -> Result<(FileEntry, Vec<u8>), String> {
    path.to_str().ok_or("its name is no text")?;
    let failed = |error: io::Error| error.to_string();
    let (file, metadata) = agentctl_files::open_regular(path).map_err(failed)?;
    let (mut bytes, mut left_out) = both_ends(&file, metadata.len()).map_err(failed)?;
    let mut entry = FileEntry {
        path: path.to_owned(),
        size: 0,
        modified: (metadata.mtime(), u32::try_from(metadata.mtime_nsec()).unwrap_or_default()),
        device: metadata.dev(),
        inode: metadata.ino(),
        left_out: 0,
        database_of: None,
    };
    if is_database(&bytes) {
        let (adapter, taken) = rows.taken(path, redactor)?;
        entry.database_of = Some(adapter);
        (bytes, left_out) = (taken.lines, taken.left_out);
    } else if let Some(redactor) = redactor {
        bytes = if path.extension().is_some_and(|extension| extension == "zst") {
            if left_out > 0 {
                return Err("it is compressed and too large".to_owned());
            }
            let text = decompressed(&bytes).map_err(failed)?;
            compress_to_vec(redacted(&text, redactor).as_slice(), CompressionLevel::Fastest)
        } else {
            redacted(&bytes, redactor)
        };
    }
    entry.size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    entry.left_out = left_out;
    Ok((entry, bytes))
}

/// The sessions whose rows were read in a database.
struct Rows<'r> {
    fleet: &'r Fleet,
    sessions: &'r BTreeSet<String>,
}

impl Rows<'_> {
    /// The rows, and whose database it is. A database is never copied: it is taken row by row.
    fn taken(&self, path: &Path, redactor: Option<&Redactor>) -> Result<(String, excerpt::Excerpt), String> {
        let holds = |source: &&Source| {
            path.starts_with(&source.root.path) || source.root.store.as_deref() == Some(path)
        };
        let mut tables = self.fleet.sources().iter().filter(holds).filter_map(|source| {
            let tables = source.adapter.tables()?;
            Some((source.name().to_owned(), tables))
        });
        let (adapter, tables) = tables.next().ok_or("it is a database that no reader reads")?;
        let replace = |text: &str| redactor.map_or_else(|| text.to_owned(), |redactor| redactor.cell(text));
        Ok((adapter, excerpt::take(path, tables, self.sessions, &replace)?))
    }
}

/// The whole file, or its first and last lines and how much lies between them.
fn both_ends(file: &std::fs::File, size: u64) -> io::Result<(Vec<u8>, u64)> {
    use std::os::unix::fs::FileExt;
    let read = |from: u64, most: usize| {
        let mut bytes = vec![0; most];
        let mut filled = 0;
        while filled < most {
            match file.read_at(&mut bytes[filled..], from + u64::try_from(filled).unwrap_or(0))? {
                0 => break,
                count => filled += count,
            }
        }
        bytes.truncate(filled);
        io::Result::Ok(bytes)
    };
    if size <= WHOLE {
        // It may grow while it is read; what was written later belongs to a later moment.
        return read(0, usize::try_from(size).unwrap_or(0)).map(|bytes| (bytes, 0));
    }
    let mut first = read(0, END)?;
    first.truncate(first.iter().rposition(|byte| *byte == b'\n').map_or(first.len(), |at| at + 1));
    let last = read(size - u64::try_from(END).unwrap_or(0), END)?;
    let last = &last[last.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
    first.extend_from_slice(last);
    let kept = u64::try_from(first.len()).unwrap_or(u64::MAX);
    Ok((first, size.saturating_sub(kept)))
}

fn decompressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let decoder = StreamingDecoder::new(bytes).map_err(io::Error::other)?;
    let mut text = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(decoder, LARGEST_PART + 1), &mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > LARGEST_PART {
        return Err(io::Error::other("it is compressed and too large"));
    }
    Ok(text)
}

/// Bytes that are no text are not passed on, but that there were some is: such a line is damaged.
fn redacted(bytes: &[u8], redactor: &Redactor) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Ok(line) = std::str::from_utf8(line) {
            out.extend_from_slice(redactor.contents(line).as_bytes());
        } else {
            excerpt::push_broken(&redactor.contents(&String::from_utf8_lossy(line)), &mut out);
        }
    }
    out
}

/// The variables that choose where agents keep their sessions.
fn choosing(environ: &Environ) -> BTreeMap<String, String> {
    let pairs = environ.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    let read = pairs.filter(|(name, value)| is_known_word(name) && value.starts_with('/'));
    read.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn branches(sessions: &[Surveyed]) -> BTreeMap<String, String> {
    let live = sessions.iter().filter(|surveyed| surveyed.session.pid.is_some());
    live.filter_map(|surveyed| surveyed.session.cwd.clone().zip(surveyed.session.branch.clone())).collect()
}

/// A live server was asked about these sessions, and cannot be asked again.
fn said_by_servers(sessions: &[Surveyed], not_carried: &mut Vec<NotCarried>) {
    let asked = |surveyed: &&Surveyed| {
        surveyed.session.evidence.iter().any(|evidence| evidence.source == Witness::Gateway)
    };
    for surveyed in sessions.iter().filter(asked) {
        let what = format!("what the server of {} {} said", surveyed.key.adapter, surveyed.key.id);
        not_carried.push(NotCarried { what, why: LIVE_ANSWER.to_owned() });
    }
}

impl SourceEntry {
    /// What is wrong with a record that is carried is seen again in a replay, by whoever reads that record. Of a database
    /// only sound rows are carried.
    fn forget_what_is_seen_again(&mut self, carried: &[FileEntry]) {
        let Some(unheard) = self.unheard.as_mut().filter(|one| one.coverage == CoverageKind::Partial) else {
            return;
        };
        let is_about = |warning: &str, file: &FileEntry| {
            warning.strip_prefix(&*file.path.to_string_lossy()).is_some_and(|rest| rest.starts_with(": "))
        };
        let is_seen_again = |warning: &String| {
            carried.iter().any(|file| file.database_of.is_none() && is_about(warning, file))
        };
        unheard.warnings.retain(|warning| !is_seen_again(warning));
        if unheard.warnings.is_empty() {
            self.unheard = None;
        }
    }
}

impl Manifest {
    fn redact(&mut self, redactor: &Redactor) {
        let path = |path: &PathBuf| redactor.path(path).unwrap_or_default();
        self.host = redactor.name(&self.host);
        self.home = self.home.as_ref().map(path);
        self.environ.values_mut().for_each(|value| *value = redactor.value(value));
        for source in &mut self.sources {
            source.root = path(&source.root);
            source.store = source.store.as_ref().map(path);
            if let Some(unheard) = &mut source.unheard {
                for reason in unheard.error.iter_mut().chain(&mut unheard.warnings) {
                    *reason = redactor.reason(reason);
                }
            }
        }
        self.launches = self.launches.as_ref().map(path);
        self.held = self.held.iter().map(path).collect();
        self.folders = self.folders.iter().map(path).collect();
        self.files.iter_mut().for_each(|file| file.path = path(&file.path));
        self.kernel.redact(redactor);
        let branches = std::mem::take(&mut self.branches).into_iter();
        self.branches =
            branches.map(|(cwd, branch)| (redactor.value(&cwd), redactor.value(&branch))).collect();
        for one in &mut self.not_carried {
            (one.what, one.why) = (redactor.value(&one.what), redactor.reason(&one.why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_a_carried_record_is_seen_again() {
        let carried = |path: &str, database_of: Option<&str>| FileEntry {
            path: PathBuf::from(path),
            size: 1,
            modified: (0, 0),
            device: 1,
            inode: 1,
            left_out: 0,
            database_of: database_of.map(str::to_owned),
        };
        let warnings = [
            "/r/x.jsonl: has a damaged record",
            "/r/x.jsonl.zst: holds no readable record",
            "/r/opencode.db: 1 damaged session row(s)",
        ];
        let mut source = SourceEntry {
            adapter: "codex".to_owned(),
            root: PathBuf::from("/r"),
            store: None,
            unheard: Some(UnheardSource {
                coverage: CoverageKind::Partial,
                error: None,
                warnings: warnings.map(str::to_owned).to_vec(),
                timeout_ms: 1,
            }),
        };
        source.forget_what_is_seen_again(&[
            carried("/r/x.jsonl", None),
            carried("/r/opencode.db", Some("opencode")),
        ]);
        assert_eq!(source.unheard.as_ref().unwrap().warnings, warnings[1..]);
        source.forget_what_is_seen_again(&[carried("/r/x.jsonl.zst", None), carried("/r/opencode.db", None)]);
        assert!(source.unheard.is_none(), "nothing is left that was not heard");
    }
}
