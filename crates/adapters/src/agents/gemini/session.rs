//! One file as one session, and several files of one session as one.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::PathBuf;

use agentctl_model::text::clean_cut;
use agentctl_model::{Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Turn, TurnState, Witness};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::head::Head;
use super::places::Place;
use super::processes::is_id;
use super::records::Record;
use super::tail::Tail;
use super::usage::{self, UsageSum};
use crate::Scope;
use crate::transcript::jsonl::head::scan_head;
use crate::transcript::jsonl::open::{Opened, open_regular, read_small};
use crate::transcript::jsonl::whole::lines_containing;
use crate::transcript::jsonl::{LINE_LIMIT, scan_back};

/// A first prompt of some megabytes is read; more is not waited for.
const HEAD_BUDGET: usize = 8 << 20;

/// One file that was read, with what was odd about it.
pub(super) struct ReadFile {
    pub(super) place: PathBuf,
    pub(super) project: PathBuf,
    pub(super) warning: Option<String>,
    pub(super) drift: BTreeMap<String, u64>,
    id: String,
    parent: Option<String>,
    stamp: Stamp,
    head: Head,
    tail: Tail,
    usage: UsageSum,
}

/// Reads one file: `Ok(None)` if it was not written since then, or is gone, or holds no conversation. The agent deletes
/// files itself, so that one which has vanished is nothing that could not be read.
pub(super) fn read(
    place: &Place,
    since: Option<Timestamp>,
    scope: &Scope<'_>,
) -> Result<Option<ReadFile>, String> {
    let named = |error: std::io::Error| format!("{}: {error}", place.path.display());
    let opened = match open_regular(&place.path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(named(error)),
    };
    if opened.modified.is_some_and(|modified| since.is_some_and(|since| modified < since)) {
        return Ok(None);
    }
    let mut file = ReadFile {
        place: place.path.clone(),
        project: place.project.clone(),
        warning: None,
        drift: BTreeMap::new(),
        id: String::new(),
        parent: place.parent.clone(),
        stamp: Stamp { size: opened.size, modified: opened.modified },
        head: Head::new(scope.text_limit),
        tail: Tail::new(scope.text_limit),
        usage: UsageSum::default(),
    };
    let is_document = place.path.extension().is_some_and(|extension| extension == "json");
    let read =
        if is_document { read_document(&mut file, scope) } else { read_lines(&mut file, &opened, scope) };
    read.map_err(named)?;
    file.tail.finish();
    if file.tail.records == 0 && opened.size > 0 {
        return Err(named(std::io::Error::new(ErrorKind::InvalidData, "holds no readable record")));
    }
    file.drift = std::mem::take(&mut file.tail.drift);
    match file.head.session_id.take() {
        Some(id) if !is_id(&id) => {
            Err(named(std::io::Error::new(ErrorKind::InvalidData, "its session id cannot be shown")))
        }
        // A sub-agent beside its parent's file, of an older version, does not say whose it is.
        Some(_) if file.head.is_subagent && file.parent.is_none() => Ok(None),
        Some(id) if file.tail.has_content => Ok(Some(ReadFile { id, ..file })),
        _ => Ok(None),
    }
}

fn read_lines(file: &mut ReadFile, opened: &Opened, scope: &Scope<'_>) -> std::io::Result<()> {
    let seen = scan_back(&opened.file, opened.size, &mut file.tail)?;
    scan_head(&opened.file, opened.size, HEAD_BUDGET, |line| file.head.line(line))?;
    if scope.usage {
        lines_containing(&opened.file, &Finder::new(usage::MARK), |line| file.usage.line(line))?;
    }
    file.warning = match (file.tail.broken, seen.too_long) {
        (0, 0) => None,
        (0, _) => Some("has a line too long to read"),
        _ => Some("has a damaged record"),
    }
    .map(|what| format!("{}: {what}", file.place.display()));
    Ok(())
}

/// Older versions wrote a session as one document.
fn read_document(file: &mut ReadFile, scope: &Scope<'_>) -> std::io::Result<()> {
    if file.stamp.size > LINE_LIMIT as u64 {
        return Err(std::io::Error::new(ErrorKind::FileTooLarge, "is too large to be read whole"));
    }
    let bytes = read_small(&file.place, LINE_LIMIT as u64)?;
    let Some(Record::Header(document)) = Record::parse(&bytes) else { return Ok(()) };
    file.head.take_header(&document);
    file.tail.records = 1;
    file.tail.updated_at = document.updated_at();
    file.tail.summary = document.summary.as_deref().map(|text| clean_cut(text, Some(4096)));
    file.tail.take_document(&document.messages);
    if scope.usage {
        document.messages.iter().for_each(|message| file.usage.message(message));
    }
    Ok(())
}

/// Files of one session become one: the one with the newest turn speaks, the others add what is older.
pub(super) fn joined(files: Vec<ReadFile>) -> Vec<ReadFile> {
    let mut by_id: HashMap<String, usize> = HashMap::with_capacity(files.len());
    let mut sessions: Vec<ReadFile> = Vec::with_capacity(files.len());
    for file in files {
        match by_id.get(&file.id) {
            None => {
                by_id.insert(file.id.clone(), sessions.len());
                sessions.push(file);
            }
            Some(index) => {
                let known = &mut sessions[*index];
                if newest(known) < newest(&file) {
                    let older = std::mem::replace(known, file);
                    known.add(older);
                } else {
                    known.add(file);
                }
            }
        }
    }
    sessions
}

fn newest(file: &ReadFile) -> Option<Timestamp> {
    file.tail.turn.as_ref().and_then(|turn| turn.last)
}

impl ReadFile {
    fn add(&mut self, other: Self) {
        self.usage.add(other.usage);
        self.warning = self.warning.take().or(other.warning);
        let (mine, theirs) = (&mut self.head, other.head);
        let began_earlier = theirs.started_at.is_some() && theirs.started_at < mine.started_at;
        if began_earlier || mine.prompt.is_none() {
            mine.prompt = theirs.prompt.or_else(|| mine.prompt.take());
        }
        if began_earlier {
            mine.started_at = theirs.started_at;
        }
        let (mine, theirs) = (&mut self.tail, other.tail);
        mine.updated_at = mine.updated_at.max(theirs.updated_at);
        mine.last_message = mine.last_message.take().or(theirs.last_message);
        mine.model = mine.model.take().or(theirs.model);
        mine.summary = mine.summary.take().or(theirs.summary);
        for (kind, count) in other.drift {
            *self.drift.entry(kind).or_default() += count;
        }
    }

    pub(super) fn into_found(self, directory: Option<String>) -> Found {
        let (head, tail) = (self.head, self.tail);
        let facts = Facts {
            name: tail.summary,
            turn: Some(tail.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, tail.updated_at))),
            prompt: head.prompt,
            last_message: tail.last_message,
            cwd: directory.or(head.directory),
            model: tail.model,
            started_at: head.started_at,
            updated_at: tail.updated_at,
            tokens: self.usage.total(),
            parent: self.parent.map(|id| Parent { id, relation: Relation::Subagent }),
            ..Facts::default()
        };
        let evidence = facts
            .turn
            .as_ref()
            .map(|turn| Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last));
        Found {
            id: self.id,
            slot: None,
            place: self.place,
            stamp: Some(self.stamp),
            facts,
            evidence: evidence.into_iter().collect(),
        }
    }
}
