//! OpenClaw: sessions that live in a gateway. There is no process per session and no file to read; the gateway's word,
//! asked for over WebSocket, is all there is, and only while it can be heard.

mod acts;
mod address;
mod client;
mod config;
mod device;
mod dotenv;
mod few;
mod fold;
mod follow;
mod gateway;
mod history;
mod json5;
mod list;
mod natives;
mod paging;
mod places;
mod rows;
mod session;
mod survey;
mod target;
mod trouble;
mod watch;
mod weight;

use std::path::Path;

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, ProcessHead};

use crate::{Adapter, Card, Follow, Line, ReadError, Root, Scope, WatchTarget};

pub use gateway::{Decision, Gateway, Launch, Launched, Sent, Stopped};
pub use rows::{Approval, ApprovalRequest};
pub use trouble::{Details, Refusal, Trouble};
pub use watch::Watch;

pub struct OpenClaw;

static CARD: Card = Card::new("openclaw", "OpenClaw")
    .programs(&["openclaw"])
    .capabilities(&[
        Capability::Peek,
        Capability::Stop,
        Capability::Resume,
        Capability::Send,
        Capability::Approve,
        Capability::Interrupt,
    ])
    .known_good("2026.9.6");

impl Adapter for OpenClaw {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        places::root(environ)
    }

    fn configured_root(&self, path: &Path, environ: &Environ) -> Root {
        places::written(path, environ)
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        survey::survey(root, scope)
    }

    /// Its processes carry no session: the gateway is a server, and tools are children of it.
    fn recognises(&self, _: &ProcessHead) -> bool {
        false
    }

    fn join(&self, _: &Root, _: &Harvest, _: &KernelView) -> Joined {
        Joined::default()
    }

    fn gateway(&self) -> Option<&'static dyn crate::Gateway> {
        Some(&OpenClaw)
    }

    fn lines(&self, root: &Root, _: &dyn Fn() -> KernelView) -> Vec<Line> {
        Gateway::of(root).map(|gateway| Line::new("gateway", Watch::new(gateway))).into_iter().collect()
    }

    /// Its gateway tells by itself.
    fn watch(&self, _: &Root) -> Vec<WatchTarget> {
        Vec::new()
    }

    /// Without keys, so of a gateway that wants none; [`Gateway::read`](crate::Gateway::read) has them.
    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        follow::read_last(&Root::at(place), id, limit)
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Ok(Box::new(follow::Follower::start(&Root::at(place), id, backlog)))
    }
}
