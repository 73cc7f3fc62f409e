//! GitHub Copilot CLI stores one folder per session under `session-state/`, with its events and a note of the
//! process that owns it.

mod control;
mod entries;
mod head;
mod join;
mod marks;
mod processes;
mod records;
mod session;
mod storage;
mod tail;
mod usage;
mod workspace;

use std::path::Path;

use agentctl_model::{Capability, Entry, Harvest, Joined, KernelView, ProcessHead};

use crate::transcript::folder::harvest_of;
use crate::transcript::gather::gather;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower};
use crate::transcript::jsonl::peek::read_last;
use crate::{
    Adapter, Card, Control, Conversation, ListFiles, Looks, Reach, ReadError, Root, Scope, Stored, Trace,
    ways,
};

pub struct Copilot;

static CARD: Card = Card::new("copilot", "GitHub Copilot CLI")
    .programs(&["copilot"])
    .home("COPILOT_HOME", ".copilot")
    // The value is optional, so it must be in the same argument as the flag.
    .opened_by(&["copilot", "--resume=ID"])
    .id_marks(&["COPILOT_AGENT_SESSION_ID"])
    .marks(&[
        "COPILOT_AGENT_SESSION_ID",
        "COPILOT_CLI",
        "COPILOT_CLI_BINARY_VERSION",
        "COPILOT_CLI_RESOLVED_DIST_DIR",
        "COPILOT_LOADER_PID",
    ])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume])
    .ways(ways::COPILOT)
    .known_good("1.0.102")
    .looks(Looks { open_files: true, ..Looks::NONE })
    .trace(Trace::OpenFile);

impl Adapter for Copilot {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        harvest_of(&root.path, |harvest| {
            let state = root.path.join("session-state");
            let folders = match scope.reach {
                Reach::Live(kernel) => {
                    storage::live(&state, kernel, |process| self.is_ours(root, kernel, process), harvest)
                }
                Reach::Ids(_) | Reach::All { .. } => {
                    let mut all = storage::all(&state, harvest);
                    all.retain(|folder| scope.reach.names(&folder.id));
                    all
                }
            };
            gather(&folders, scope, harvest, session::read);
        })
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::COPILOT.is(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        // A session at its empty prompt has only its workspace file and no messages yet.
        if is_workspace(place) { Ok(Vec::new()) } else { read_last(place, entries::entries, limit) }
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        if is_workspace(place) {
            let events = place.with_file_name("events.jsonl");
            return Ok(Box::new(JsonlFollower::from_beginning(&events, entries::entries)));
        }
        Ok(Box::new(JsonlFollower::start(place, entries::entries, backlog)?))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        if is_workspace(place) {
            return Conversation::Nothing;
        }
        Conversation::lines(place, entries::entries, marks::marks)
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            Stored::below(&root.path, |harvest| {
                let folders = storage::all(&root.path.join("session-state"), harvest);
                folders.into_iter().map(|folder| (folder.id.clone(), folder.events())).collect()
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Copilot)
    }
}

fn is_workspace(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "yaml")
}
