//! Qwen Code stores transcripts under `projects/<folder>/chats/`, and notes of the processes that write them.

mod control;
mod entries;
mod head;
mod join;
mod marks;
mod notes;
mod processes;
mod records;
mod session;
mod storage;
mod tail;
mod usage;

use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, Process, ProcessHead};

use crate::transcript::folder::harvest_of;
use crate::transcript::gather::gather;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower};
use crate::transcript::jsonl::open::read_small;
use crate::transcript::jsonl::peek::read_last;
use crate::{
    Adapter, Card, Control, Conversation, ListFiles, Reach, ReadError, Root, Scope, Stored, Trace, ways,
};
use storage::StoredFiles;

pub struct Qwen;

static CARD: Card = Card::new("qwen", "Qwen Code")
    .programs(&["qwen"])
    .home("QWEN_HOME", ".qwen")
    .opened_by(&["qwen", "--resume", "ID"])
    .id_marks(&["QWEN_CODE_SESSION_ID"])
    .marks(&[
        "QWEN_CODE",
        "QWEN_CODE_AGENT_ID",
        "QWEN_CODE_CLI",
        "QWEN_CODE_LAUNCHER_PID",
        "QWEN_CODE_MANAGED_NPM_PIN",
        "QWEN_CODE_MANAGED_NPM_ROOT",
        "QWEN_CODE_MODEL",
        "QWEN_CODE_MODEL_IDENTITY",
        "QWEN_CODE_NO_RELAUNCH",
        "QWEN_CODE_PRIVATE_RELAUNCH_ENV_PROVENANCE",
        "QWEN_CODE_PROJECT_DIR",
        "QWEN_CODE_PROMPT_ID",
        "QWEN_CODE_SESSION_ID",
        "QWEN_CODE_STARTUP_VERSION",
    ])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume, Capability::Fork])
    .ways(ways::QWEN)
    .known_good("0.24.4")
    // Interactive sessions have a note, headless runs have none.
    .trace(Trace::Nothing);

impl Adapter for Qwen {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        let home = environ.path("HOME");
        // The agent itself expands a tilde in these variables.
        let resolved = |path: PathBuf| match (path.strip_prefix("~"), &home) {
            (Ok(inside), Some(home)) => home.join(inside),
            _ => path.clone(),
        };
        let moved = environ.path("QWEN_HOME").map(resolved);
        let path = moved.or_else(|| home.as_ref().map(|home| home.join(".qwen")))?;
        let store = environ.path("QWEN_RUNTIME_DIR").map(resolved).filter(|store| *store != path);
        Some(Root { store, ..Root::at(path) })
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        let store = root.store.as_ref().unwrap_or(&root.path);
        harvest_of(store, |harvest| {
            let mut files = match scope.reach {
                Reach::Live(kernel) => {
                    let ours = |process: &Process| self.is_ours(root, kernel, process);
                    storage::live(store, kernel, ours, scope.subagents, harvest)
                }
                Reach::Ids(_) | Reach::All { .. } => storage::all(store, scope.subagents, harvest),
            };
            if let Reach::Ids(_) = scope.reach {
                files.transcripts.retain(|file| scope.reach.names(&file.id));
            }
            read_notes(&files, scope, harvest);
            gather(&files.transcripts, scope, harvest, session::read);
        })
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::QWEN.is(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        // A session at its empty prompt has only the agent's note and no messages yet.
        if is_transcript(place) { read_last(place, entries::entries, limit) } else { Ok(Vec::new()) }
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        if is_transcript(place) {
            return Ok(Box::new(JsonlFollower::start(place, entries::entries, backlog)?));
        }
        let transcript = place.with_file_name(format!("{id}.jsonl"));
        Ok(Box::new(JsonlFollower::from_beginning(&transcript, entries::entries)))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        if is_transcript(place) {
            Conversation::lines(place, entries::entries, marks::marks)
        } else {
            Conversation::Nothing
        }
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            let store = root.store.as_ref().unwrap_or(&root.path);
            Stored::below(store, |harvest| {
                let files = storage::all(store, true, harvest).transcripts;
                files.into_iter().map(|file| (file.id, file.path)).collect()
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Qwen)
    }
}

fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

fn read_notes(files: &StoredFiles, scope: &Scope<'_>, harvest: &mut Harvest) {
    for path in &files.notes {
        scope.progress.tick();
        // An invalid note, or one that was removed meanwhile, is ignored, because the process table shows
        // whether the process still lives. All notes are read, whichever sessions are requested: a process
        // that a note ties to one session is not a candidate for another.
        harvest
            .registrations
            .extend(read_small(path, 64 << 10).ok().and_then(|bytes| notes::parse(&bytes, path)));
    }
}
