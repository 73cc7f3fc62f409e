//! Kimi Code stores one folder per session under `sessions/<workspace>/`, with the records of each agent and
//! a state of the whole session.

mod control;
mod entries;
mod head;
mod join;
mod marks;
mod processes;
mod records;
mod session;
mod state;
mod storage;
mod tail;
mod usage;

use std::path::Path;

use agentctl_model::{Capability, Entry, Harvest, Joined, KernelView, ProcessHead};

use crate::transcript::folder::harvest_of;
use crate::transcript::gather::gather;
use crate::transcript::jsonl::follow::{Follow, JsonlFollower};
use crate::transcript::jsonl::peek::read_last;
use crate::{
    Adapter, Card, Control, Conversation, ListFiles, Reach, ReadError, Root, Scope, Stored, WatchTarget, ways,
};

pub struct Kimi;

static CARD: Card = Card::new("kimi", "Kimi Code")
    .programs(&["kimi"])
    .home("KIMI_CODE_HOME", ".kimi-code")
    // The value is optional, so it must be in the same argument as the flag.
    .opened_by(&["kimi", "--session=ID"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume])
    .ways(ways::KIMI)
    .known_good("2.1.0");

impl Adapter for Kimi {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        harvest_of(&root.path, |harvest| {
            let folders = match &scope.reach {
                Reach::Live(kernel) => {
                    storage::live(&root.path, kernel, |process| self.is_ours(root, kernel, process), harvest)
                }
                reach => storage::stored(&root.path, reach, harvest),
            };
            gather(&folders, scope, harvest, session::read);
        })
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        processes::is_kimi(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    /// The records of a session are four levels below the `sessions` folder.
    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        vec![WatchTarget::new(root.path.join("sessions"), 4)]
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        // The session was created, but has no messages yet.
        if place.exists() { read_last(place, entries::entries, limit) } else { Ok(Vec::new()) }
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        if !place.exists() {
            return Ok(Box::new(JsonlFollower::from_beginning(place, entries::entries)));
        }
        Ok(Box::new(JsonlFollower::start(place, entries::entries, backlog)?))
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        Conversation::lines(place, entries::entries, marks::marks)
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| {
            Stored::below(&root.path, |harvest| {
                let folders = storage::stored(&root.path, &Reach::All { since: None }, harvest);
                folders.into_iter().map(|folder| (folder.id.clone(), folder.wire())).collect()
            })
        })
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Kimi)
    }
}
