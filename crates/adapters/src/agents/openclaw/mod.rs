//! OpenClaw: sessions that live in a gateway. There is no process per session and no file to read; the gateway's own
//! report over WebSocket is the only source, and only while it can be reached.

mod acts;
mod client;
mod conversation;
#[cfg(fuzzing)]
pub mod fuzzing;
mod list;
mod natives;
mod session;
mod settings;
mod survey;

use std::path::Path;

use agentctl_model::{Capability, Entry, Environ, Harvest, Joined, KernelView, ProcessHead};

use crate::{Adapter, Card, Conversation, Follow, Line, ReadError, Root, Scope, WatchTarget, ways};
use conversation::follow;
use settings::discovery;

pub use client::error::{Details, GatewayError, Refusal};
pub use client::gateway_client::{Decision, GatewayClient, Launch, Launched, Sent, Stopped};
pub use client::rows::{Approval, ApprovalRequest};
pub use client::watch::Watch;

pub struct OpenClaw;

static CARD: Card = Card::new("openclaw", "OpenClaw")
    .programs(&["openclaw"])
    .capabilities(&[Capability::Peek, Capability::Stop, Capability::Resume])
    .ways(ways::OPENCLAW)
    .known_good("2026.9.6");

impl Adapter for OpenClaw {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn root(&self, environ: &Environ) -> Option<Root> {
        discovery::root(environ)
    }

    fn configured_root(&self, path: &Path, environ: &Environ) -> Root {
        discovery::configured_root(path, environ)
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        survey::survey(root, scope)
    }

    /// Its processes own no session: the gateway is a server, and tools are its children.
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
        GatewayClient::of(root).map(|gateway| Line::new("gateway", Watch::new(gateway))).into_iter().collect()
    }

    /// Its gateway announces changes itself.
    fn watch(&self, _: &Root) -> Vec<WatchTarget> {
        Vec::new()
    }

    /// Has no keys, so it only works for a gateway that requires none; [`Gateway::read`](crate::Gateway::read) has
    /// them.
    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        follow::read_last(&Root::at(place), id, limit)
    }

    fn conversation(&self, place: &Path, id: &str) -> Conversation<'_> {
        let (root, id) = (Root::at(place), id.to_owned());
        Conversation::records(move |_| follow::read_all(&root, &id))
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        Ok(Box::new(follow::Follower::start(&Root::at(place), id, backlog)))
    }
}
