//! Pi Rust (`pi_agent_rust`) is a port of Pi that stores its sessions in the same folders and format.
//!
//! The header (the active leaf, the model) and the file names show how it differs from Pi. Its arguments stay visible,
//! so `--session FILE` ties a process to its session. A run with one prompt, or over ACP, keeps nothing unless its start
//! names the folder of the sessions.

mod control;

use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, ProcessHead};

use crate::agents::pi;
use crate::agents::pi::{Creator, Store};
use crate::transcript::jsonl::follow::Follow;
use crate::{Adapter, Card, Control, Conversation, ListFiles, Opening, ReadError, Root, Scope, ways};

pub struct PiRust;

static CARD: Card = Card::new("pi-rust", "Pi Rust")
    .programs(&["pi-rust", "pi"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume])
    .ways(ways::PI_RUST)
    .known_good("0.8.0")
    .looks(pi::LOOKS);

impl Adapter for PiRust {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        pi::root(environ, "PI_SESSIONS_DIR")
    }

    fn store_to_name(&self, root: &Root) -> Option<PathBuf> {
        Some(pi::settled(root))
    }

    fn opening(&self, _root: &Root, _id: &str, place: &Path) -> Option<Opening> {
        Opening::by_file("pi-rust", place)
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        self.store(root).survey(scope)
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        pi::is_pi(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        self.store(root).join(harvest, kernel)
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        pi::read_last(place, limit)
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        pi::follow(place, backlog)
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        Conversation::lines(place, pi::entries_of_line, pi::marks_of_line)
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| PiRust.store(root).stored())
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&PiRust)
    }
}

impl PiRust {
    fn store<'r>(&'r self, root: &'r Root) -> Store<'r> {
        Store { creator: Creator::Rust, adapter: self, root, moved_by_settings: |_| None }
    }
}
