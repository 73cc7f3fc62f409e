//! Gemini CLI stores session files under `tmp/<project>/chats/`. They must be replayed rather than simply
//! read, and the agent deletes them itself.

mod control;
mod entries;
mod head;
mod join;
mod marks;
mod processes;
mod projects;
mod records;
mod session;
mod storage;
mod tail;
mod usage;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Harvest, Joined, KernelView, Process, ProcessHead};

use crate::search::NamedEntries;
use crate::transcript::folder::harvest_of;
use crate::transcript::gather::{add_drift, read_all};
use crate::transcript::jsonl::follow::{Follow, JsonlFollower, ReadOnce};
use crate::transcript::jsonl::open::{open_regular, read_small};
use crate::transcript::jsonl::{LINE_LIMIT, scan_back};
use crate::transcript::show::shortened;
use crate::{Adapter, Card, Control, Conversation, ListFiles, Reach, ReadError, Root, Scope, Stored, ways};
use entries::LastEntries;
use projects::Projects;
use records::Record;
use storage::TranscriptFile;

pub struct Gemini;

static CARD: Card = Card::new("gemini", "Gemini CLI")
    .programs(&["gemini"])
    .home_inside("GEMINI_CLI_HOME", "", ".gemini")
    .opened_by(&["gemini", "--resume", "ID"])
    // The environment of its tools shows that they run in Gemini CLI, but not in which session.
    .marks(&["GEMINI_CLI"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume])
    .ways(ways::GEMINI)
    .known_good("0.61.0");

impl Adapter for Gemini {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        harvest_of(&root.path, |harvest| {
            let projects = Projects::read(&root.path);
            let files = match &scope.reach {
                Reach::Live(kernel) => {
                    let ours = |process: &Process| self.is_ours(root, kernel, process);
                    storage::live(&root.path, &projects, kernel, ours, scope.subagents, harvest)
                }
                reach => storage::stored(&root.path, reach, scope.subagents, harvest),
            };
            read_files(&files, &projects, scope, harvest);
        })
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::GEMINI.is(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        match last_entries(place, limit) {
            Ok(entries) => Ok(shortened(entries)),
            // The file is not written yet, or the agent deleted it: there is nothing to show.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(ReadError::new(place, error)),
        }
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        if is_document(place) || place == no_file() {
            // The agent continues in another file, so this one is complete.
            let entries = shortened(last_entries(place, backlog).unwrap_or_default());
            return Ok(Box::new(ReadOnce(entries)));
        }
        Ok(Box::new(JsonlFollower::start(place, entries::of_line, backlog)?))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        if place == no_file() {
            return Conversation::Nothing;
        }
        if !is_document(place) {
            return Conversation::lines(place, entries::of_line, marks::marks);
        }
        let place = place.to_owned();
        Conversation::records(move |_| {
            let all = last_entries(&place, usize::MAX).map_err(|error| ReadError::new(&place, error))?;
            Ok(all
                .into_iter()
                .enumerate()
                .map(|(index, entry)| (index.to_string(), entry))
                .collect::<NamedEntries>())
        })
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            Stored::below(&root.path, |harvest| {
                let files = storage::stored(&root.path, &Reach::All { since: None }, true, harvest);
                files.into_iter().map(|file| (file.id_begins(), file.path)).collect()
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Gemini)
    }
}

/// The path that stands for a session without a file.
fn no_file() -> PathBuf {
    PathBuf::new()
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

fn last_entries(path: &Path, limit: usize) -> std::io::Result<Vec<Entry>> {
    let mut last = LastEntries::new(limit);
    if is_document(path) {
        let bytes = read_small(path, LINE_LIMIT as u64)?;
        if let Some(Record::Header(document)) = Record::parse(&bytes) {
            document.messages.iter().rev().for_each(|message| last.take(message));
        }
    } else {
        let opened = open_regular(path)?;
        scan_back(&opened.file, opened.size, &mut last)?;
    }
    Ok(last.finish())
}

fn read_files(files: &[TranscriptFile], projects: &Projects, scope: &Scope<'_>, harvest: &mut Harvest) {
    let mut read = Vec::with_capacity(files.len());
    for outcome in read_all(files, scope, |file, since, _| session::read(file, since, scope)) {
        match outcome {
            Ok(file) => read.extend(file),
            Err(warning) => harvest.left_out(warning),
        }
    }
    let mut directories: HashMap<PathBuf, Option<String>> = HashMap::new();
    for session in session::joined(read) {
        let directory = directories
            .entry(session.project.clone())
            .or_insert_with(|| projects.directory(&session.project))
            .clone();
        let session = session.into_session(directory, scope);
        harvest.warnings.extend(session.warning);
        add_drift(harvest, session.drift);
        harvest.found.extend(session.found.filter(|found| scope.reach.names(&found.id)));
    }
}
