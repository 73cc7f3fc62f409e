//! The acting half of an agent whose sessions live in a server, and not in processes here: nothing is started, the server
//! is asked. It stands in the place of [`Control`](crate::Control); an adapter has one or the other.

pub(crate) mod far_end;
pub(crate) mod keys;

use std::path::Path;

use agentctl_model::{Permission, Refusal, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Answer, Root};

/// A turn that is wanted of a server.
#[derive(Debug, Clone, Copy)]
pub struct Errand<'a> {
    /// The session that is to hear it; `None` begins a new one.
    pub session: Option<&'a str>,
    pub words: &'a str,
    pub model: Option<&'a str>,
    pub permission: Option<Permission>,
    /// Only a folder that somebody named: without one the server has its own.
    pub cwd: Option<&'a Path>,
    /// A word of this errand alone: sent again with it, it happens once.
    pub once: &'a str,
}

/// What would be said to the server, for people to read. There is no key in it: the wire alone gets those.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    pub to: String,
    pub method: &'static str,
    pub params: Value,
}

/// What the server answered: its own id of the session, and of the turn where it names those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub id: String,
    pub run: Option<String>,
}

/// Who in a server is to hear of something: a session, an agent, or a session of that agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addressee {
    pub session: Option<String>,
    pub agent: Option<String>,
}

/// Why the server did not do it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostError {
    /// It said no, or must not be asked.
    Refused(Refusal),
    /// It was not reached, or did not answer: whether it was done is not known where the words say so.
    Unheard(String),
}

impl From<Refusal> for HostError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub trait Host: Send + Sync {
    /// Whether this root leads to a server at all.
    fn is_reachable(&self, root: &Root) -> bool;

    /// Whether the server of this root is on this machine, so that its folders are ones of ours.
    fn is_here(&self, root: &Root) -> bool;

    /// Whether somebody who says this means the server of this root: its address, or its name.
    fn is_meant(&self, root: &Root, said: &str) -> bool;

    /// Pure: the request behind an errand. What makes no sense for this agent is refused here, before anything is sent.
    fn request(&self, root: &Root, errand: &Errand<'_>) -> Result<Request, Refusal>;

    /// Begins a session, or goes on with one.
    fn begin(&self, root: &Root, errand: &Errand<'_>) -> Result<Begun, HostError>;

    /// Whether what a survey shows of the session has this turn in it.
    fn shows(&self, session: &Session, begun: &Begun) -> bool;

    /// Breaks off the turn of the moment. Says whether there was one.
    fn stop(&self, root: &Root, id: &str) -> Result<bool, HostError>;

    /// Says something to a session. Success means that the server accepted it.
    fn send(&self, root: &Root, id: &str, words: &str, once: &str) -> Result<(), HostError>;

    /// Tells somebody of something that happened elsewhere. Told again with the same `once`, it is heard once.
    fn tell(&self, root: &Root, to: &Addressee, words: &str, once: &str) -> Result<(), HostError>;

    /// Answers what a session waits for.
    fn answer(&self, root: &Root, id: &str, answer: &Answer) -> Result<(), HostError>;
}
