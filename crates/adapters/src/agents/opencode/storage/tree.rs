//! The old tree of JSON files (up to 1.1.x) as a [`Conversation`]: one file per session, message and part.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::text::clean;
use jiff::Timestamp;

use crate::agents::opencode::conversation::records::SessionFile;
use crate::agents::opencode::conversation::session::{BEGINNING, Conversation, Head, RawPart};
use crate::transcript::jsonl::open::read_small;

/// No record file is this large: a part contains at most what a tool printed.
const FILE_LIMIT: u64 = 64 << 20;

/// A session's own file, before it was opened.
pub(crate) struct SessionPath {
    pub(crate) path: PathBuf,
    pub(crate) id: String,
}

impl SessionPath {
    pub(crate) fn modified(&self) -> Option<Timestamp> {
        modified(&self.path)
    }
}

/// Every session file below `storage/session`. A missing tree has none.
pub(crate) fn session_files(storage: &Path) -> io::Result<Vec<SessionPath>> {
    let mut files = Vec::new();
    for project in listed(&storage.join("session"))? {
        if !project.is_dir() {
            continue;
        }
        for path in listed(&project)? {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| stem.starts_with("ses"));
            if let (Some(id), true) = (stem, path.extension().is_some_and(|extension| extension == "json")) {
                files.push(SessionPath { id: id.to_owned(), path });
            }
        }
    }
    Ok(files)
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match agentctl_files::entries(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// Reads a session's own file. Files are rewritten in place, so one that does not parse may be half written and is
/// read once more.
pub(crate) fn head(file: &SessionPath, parse: impl Fn(&[u8]) -> Option<Head>) -> io::Result<Head> {
    for _ in 0..3 {
        let bytes = read_small(&file.path, FILE_LIMIT)?;
        // The name of the file leads to the messages, so it must match the session's id.
        if let Some(head) = parse(&bytes).filter(|head| head.id == file.id) {
            return Ok(head);
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "is no session record"))
}

pub(crate) fn parse(bytes: &[u8]) -> Option<Head> {
    let file: SessionFile<'_> = serde_json::from_slice(bytes).ok()?;
    if file.id.is_empty() {
        return None;
    }
    let text = |value: Option<&str>| value.map(clean);
    Some(Head {
        id: file.id.clone().into_owned(),
        parent: text(file.parent.as_deref()),
        directory: text(file.directory.as_deref()),
        title: text(file.title.as_deref()),
        version: text(file.version.as_deref()),
        created: file.time.created(),
        updated: file.time.updated(),
        archived: file.time.archived(),
        ..Head::default()
    })
}

/// The tree below `storage`. Names sort by time.
pub(crate) struct Tree {
    storage: PathBuf,
    /// The messages of the session that is being read, oldest first.
    listed: RefCell<HashMap<String, Vec<String>>>,
}

impl Tree {
    pub(crate) fn new(storage: PathBuf) -> Self {
        Self { storage, listed: RefCell::default() }
    }

    fn messages(&self, session: &str) -> io::Result<Vec<String>> {
        if let Some(ids) = self.listed.borrow().get(session) {
            return Ok(ids.clone());
        }
        let ids = ids_in(&self.storage.join("message").join(session))?;
        let mut listed = self.listed.borrow_mut();
        listed.clear();
        listed.insert(session.to_owned(), ids.clone());
        Ok(ids)
    }
}

fn ids_in(folder: &Path) -> io::Result<Vec<String>> {
    let mut ids: Vec<String> = listed(folder)?
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

impl Conversation for Tree {
    type Error = io::Error;

    fn newest(&self, session: &str, limit: usize) -> io::Result<Vec<String>> {
        Ok(self.messages(session)?.into_iter().rev().take(limit).collect())
    }

    fn oldest(&self, session: &str, limit: usize) -> io::Result<Vec<String>> {
        Ok(self.messages(session)?.into_iter().take(limit).collect())
    }

    fn message(&self, session: &str, id: &str) -> io::Result<Vec<u8>> {
        read_small(&self.storage.join("message").join(session).join(format!("{id}.json")), FILE_LIMIT)
    }

    fn parts(&self, message: &str, largest: u64) -> io::Result<Vec<RawPart>> {
        let folder = self.storage.join("part").join(message);
        let part = |id: String| {
            let path = folder.join(format!("{id}.json"));
            // A part that cannot be read, or was just removed by a revert, is left out.
            let size = fs::metadata(&path).ok()?.len();
            let is_cut = size > largest;
            let json = if is_cut {
                agentctl_files::read_beginning(&path, BEGINNING as u64).ok()?
            } else {
                read_small(&path, FILE_LIMIT).ok()?
            };
            Some(RawPart { id, json, is_cut })
        };
        Ok(ids_in(&folder)?.into_iter().filter_map(part).collect())
    }
}

/// When a directory or file was last changed.
pub(crate) fn modified(path: &Path) -> Option<Timestamp> {
    fs::metadata(path).ok()?.modified().ok().and_then(|time| Timestamp::try_from(time).ok())
}
