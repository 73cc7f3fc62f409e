//! Reads one file as one session, and joins several files of one session.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use agentctl_model::{Facts, Parent, Relation};
use jiff::Timestamp;

use super::head::Head;
use super::is_document;
use super::processes::is_id;
use super::storage::TranscriptFile;
use super::tail::Tail;
use super::usage::UsageSum;
use crate::Scope;
use crate::transcript::gather::ReadSession;
use crate::transcript::jsonl::LINE_LIMIT;
use crate::transcript::jsonl::open::{Opened, open_regular, read_opened};
use crate::transcript::memory::Counted;
use crate::transcript::read::{self, BothEnds, Format, Reading, Sum, add_up};

pub(super) struct Chat {
    is_document: bool,
}

impl Format for Chat {
    type Head = Head;
    type Tail = Tail;
    type Sum = UsageSum;

    fn sum(&self, _: &Head) -> UsageSum {
        UsageSum::default()
    }

    fn unpacked(&self, opened: &Opened) -> io::Result<Option<BothEnds>> {
        self.is_document.then(|| document(opened)).transpose()
    }
}

/// Older versions wrote a session as one document, which is read as one line.
fn document(opened: &Opened) -> io::Result<BothEnds> {
    if opened.size > LINE_LIMIT as u64 {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is too large to be read whole"));
    }
    let mut tail = read_opened(opened)?;
    // Outside of strings a line break is only white space, and no string contains one.
    tail.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    Ok(BothEnds { head: None, tail })
}

/// A session that was read from one file or several.
pub(super) struct ReadFile {
    pub(super) place: PathBuf,
    pub(super) project: PathBuf,
    id: String,
    parent: Option<String>,
    reading: Reading<Chat>,
    /// Other files of the same session.
    others: Vec<PathBuf>,
}

/// Reads one file. Returns `Ok(None)` if it was not written since `since`, no longer exists, or contains no
/// conversation. The agent deletes files itself, so a missing file is not a failed read.
pub(super) fn read(
    file: &TranscriptFile,
    since: Option<Timestamp>,
    scope: &Scope<'_>,
) -> Result<Option<ReadFile>, String> {
    let chat = Chat { is_document: is_document(&file.path) };
    let Some(mut reading) = read::read(&chat, &file.path, since, scope)?.into_reading() else {
        return Ok(None);
    };
    reading.tail.finish();
    let is_wanted = reading.tail.has_content && (scope.subagents || !reading.head.is_subagent);
    let Some(id) = reading.head.session_id.take().filter(|_| is_wanted) else { return Ok(None) };
    if !is_id(&id) {
        return Err(format!("{}: its session id cannot be shown", file.path.display()));
    }
    Ok(Some(ReadFile {
        place: file.path.clone(),
        project: file.project.clone(),
        id,
        parent: file.parent.clone().or_else(|| reading.head.parent.take().filter(|id| is_id(id))),
        reading,
        others: Vec::new(),
    }))
}

/// Joins the files of one session: the file with the newest turn determines the facts, and the others add
/// older ones.
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
    file.reading.tail.latest.turn.as_ref().and_then(|turn| turn.last)
}

impl ReadFile {
    fn add(&mut self, other: Self) {
        self.others.push(other.place);
        self.others.extend(other.others);
        let (reading, other) = (&mut self.reading, other.reading);
        reading.warning = reading.warning.or(other.warning);
        let (mine, theirs) = (&mut reading.head.first, other.head.first);
        let began_earlier = theirs.started_at.is_some() && theirs.started_at < mine.started_at;
        if began_earlier || mine.prompt.is_none() {
            mine.prompt = theirs.prompt.or_else(|| mine.prompt.take());
        }
        if began_earlier {
            mine.started_at = theirs.started_at;
        }
        reading.tail.summary = reading.tail.summary.take().or(other.tail.summary);
        let (mine, theirs) = (&mut reading.tail.latest, other.tail.latest);
        mine.updated_at = mine.updated_at.max(theirs.updated_at);
        mine.last_message = mine.last_message.take().or(theirs.last_message);
        mine.model = mine.model.take().or(theirs.model);
        for (kind, count) in other.drift {
            *reading.drift.entry(kind).or_default() += count;
        }
    }

    pub(super) fn into_session(mut self, directory: Option<String>, scope: &Scope<'_>) -> ReadSession {
        if scope.usage && !self.others.is_empty() {
            let counted = counted_together(std::iter::once(&self.place).chain(&self.others));
            if counted.is_err() {
                self.reading.warning =
                    Some("could not be counted together with the other files of its session");
            }
            self.reading.counted = counted.unwrap_or_default();
        }
        let parent = self.parent;
        self.reading.into_session(self.id, &self.place, |head, tail, counted| {
            let mut facts = Facts {
                name: tail.summary,
                cwd: directory.or(head.directory),
                ..tail.latest.into_facts(head.first, counted)
            };
            if head.is_subagent && parent.is_none() {
                facts.meta.insert("kind".to_owned(), "subagent".into());
            }
            facts.parent = parent.map(|id| Parent { id, relation: Relation::Subagent });
            facts
        })
    }
}

/// Counts a reply once even if it occurs in several files of one session.
fn counted_together<'p>(files: impl Iterator<Item = &'p PathBuf>) -> io::Result<Counted> {
    let mut sum = UsageSum::default();
    for path in files {
        let opened = open_regular(path)?;
        if is_document(path) {
            add_up(&mut sum, &document(&opened)?.tail.as_slice())?;
        } else {
            add_up(&mut sum, &opened.file)?;
        }
    }
    Ok(sum.counted(false))
}
