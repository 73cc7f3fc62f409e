//! Pi stores one append-only file of JSON lines per session: a tree of records whose last one is the active
//! leaf.
//!
//! Pi ties nothing to its process except the environment of the tools that it starts. Pi Rust stores its
//! sessions in the same folders and the same format: this module contains what the two share, and `pi_rust`
//! uses it.

mod control;
mod file;
mod join;
mod processes;
pub mod protocol;
mod shared_store;
mod storage;

use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, ProcessHead};
use serde::Deserialize;

use crate::transcript::jsonl::follow::Follow;
use crate::transcript::jsonl::open::read_small;
use crate::{
    Adapter, Card, Control, Conversation, ListFiles, Looks, Opening, ReadError, Root, Scope, WatchTarget,
    ways,
};
pub(crate) use control::complaint;
pub(crate) use file::entries::entries as entries_of_line;
pub(crate) use file::header::Creator;
pub(crate) use file::marks::marks as marks_of_line;
pub(crate) use file::peek::{follow, read_last};
pub(crate) use processes::{is_headless, is_pi};
pub(crate) use shared_store::{Store, settled};

pub struct Pi;

static CARD: Card = Card::new("pi", "Pi")
    .programs(&["pi"])
    .id_marks(&["PI_SESSION_ID"])
    // It also sets `PI_MODEL` and `PI_PROVIDER`, but these are a user's own settings for Pi Rust and name no session.
    .marks(&["PI_CODING_AGENT", "PI_SESSION_ID", "PI_SESSION_FILE", "PI_REASONING_LEVEL"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume, Capability::Fork])
    .ways(ways::PI)
    .known_good("0.73.1 – 1.5.0")
    .looks(LOOKS);

/// The user's settings, in the agent's folder.
const SETTINGS: &str = "settings.json";

/// The session's id is in the environment of the tools.
pub(crate) const LOOKS: Looks = Looks { offspring: true, ..Looks::NONE };

impl Adapter for Pi {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        root(environ, "PI_CODING_AGENT_SESSION_DIR")
    }

    fn opening(&self, _root: &Root, _id: &str, place: &Path) -> Option<Opening> {
        Opening::by_file("pi", place)
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        self.store(root).survey(scope)
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        is_pi(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        self.store(root).join(harvest, kernel)
    }

    fn watch(&self, root: &Root) -> Vec<WatchTarget> {
        self.store(root).watch()
    }

    fn read(&self, place: &Path, _id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        read_last(place, limit)
    }

    fn follow(&self, place: &Path, _id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        follow(place, backlog)
    }

    fn conversation(&self, place: &Path, _id: &str) -> Conversation<'_> {
        Conversation::lines(place, entries_of_line, marks_of_line)
    }

    fn stored(&self) -> Option<ListFiles> {
        Some(|root| Pi.store(root).stored())
    }

    fn control(&self) -> Option<&'static dyn Control> {
        Some(&Pi)
    }
}

impl Pi {
    fn store<'r>(&'r self, root: &'r Root) -> Store<'r> {
        Store { creator: Creator::Node, adapter: self, root, moved_by_settings }
    }
}

/// The agent's folder, and where `variable` moved its sessions.
pub(crate) fn root(environ: &Environ, variable: &str) -> Option<Root> {
    let home = environ.path("HOME");
    let expanded = |written: PathBuf| match (written.strip_prefix("~"), &home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => written,
    };
    let moved = environ.path("PI_CODING_AGENT_DIR").map(expanded);
    let path = moved.or_else(|| home.as_ref().map(|home| home.join(".pi/agent")))?;
    Some(Root { store: environ.path(variable).map(expanded), ..Root::at(path) })
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Settings {
    session_dir: Option<String>,
}

/// Where the user's settings store new sessions, if they move them. Older sessions stay where they were.
fn moved_by_settings(agent_folder: &Path) -> Option<PathBuf> {
    let bytes = read_small(&agent_folder.join(SETTINGS), 1 << 20).ok()?;
    let settings: Settings = serde_json::from_slice(&bytes).ok()?;
    storage::expand(settings.session_dir?.as_str(), agent_folder)
}
