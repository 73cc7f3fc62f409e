//! An agent whose sessions live in a gateway, and not in processes here: the doors of the gateway, the keys that open them,
//! and what can be read and done behind them. Nothing is started, the gateway is asked. For acting it stands in the place
//! of [`Control`](crate::Control); an adapter has one or the other.

pub(crate) mod keys;
pub(crate) mod peer;

use std::path::Path;

use agentctl_model::{Entry, Permission, Refusal, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Answer, Follow, Keys, ReadError, Root};

/// A turn that is wanted of a server.
#[derive(Debug, Clone, Copy)]
pub struct TurnRequest<'a> {
    /// The session that is to hear it; `None` begins a new one.
    pub session: Option<&'a str>,
    pub words: &'a str,
    pub model: Option<&'a str>,
    pub permission: Option<Permission>,
    /// Only a folder that somebody named: without one the server has its own.
    pub cwd: Option<&'a Path>,
    /// A word of this turn alone: sent again with it, it happens once.
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
pub enum ServerError {
    /// It said no, or must not be asked.
    Refused(Refusal),
    /// It was not reached, or did not answer: whether it was done is not known where the words say so.
    Unheard(String),
}

impl From<Refusal> for ServerError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

pub trait Gateway: Send + Sync {
    /// The root of a gateway that the user configured by its address; `None` for what is no address of one.
    fn root_at(&self, address: &str, keys: Keys) -> Option<Root>;

    /// Whether the gateway of this root will want to know which machine asks (`Keys::device`).
    fn wants_device(&self, root: &Root) -> bool;

    /// The last `limit` entries of a conversation, oldest first. The root has the keys.
    fn read(&self, root: &Root, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError>;

    /// Entries as they are added, beginning with the last `backlog` ones.
    fn follow(&self, root: &Root, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError>;

    /// Whether this root leads to a server at all.
    fn is_reachable(&self, root: &Root) -> bool;

    /// Whether the server of this root is on this machine, so that its folders are ones of ours.
    fn is_here(&self, root: &Root) -> bool;

    /// Whether somebody who says this means the server of this root: its address, or its name.
    fn is_meant(&self, root: &Root, said: &str) -> bool;

    /// Pure: the request behind an turn. What makes no sense for this agent is refused here, before anything is sent.
    fn request(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Request, Refusal>;

    /// Begins a session, or goes on with one.
    fn begin(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Begun, ServerError>;

    /// Whether what a survey shows of the session has this turn in it.
    fn shows(&self, session: &Session, begun: &Begun) -> bool;

    /// Breaks off the turn of the moment. Says whether there was one.
    fn stop(&self, root: &Root, id: &str) -> Result<bool, ServerError>;

    /// Says something to a session. Success means that the server accepted it.
    fn send(&self, root: &Root, id: &str, words: &str, once: &str) -> Result<(), ServerError>;

    /// Tells somebody of something that happened elsewhere. Told again with the same `once`, it is heard once.
    fn tell(&self, root: &Root, to: &Addressee, words: &str, once: &str) -> Result<(), ServerError>;

    /// Answers what a session waits for.
    fn answer(&self, root: &Root, id: &str, answer: &Answer) -> Result<(), ServerError>;
}

#[cfg(test)]
mod tests {
    use agentctl_model::Environ;

    use crate::registry;

    /// With every variable set that means something to a gateway.
    #[test]
    fn only_a_gateway_has_keys_and_an_agent_has_plans_or_a_gateway() {
        let environ: Environ = [
            ("HOME", "/home/dev"),
            ("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:7"),
            ("OPENCLAW_GATEWAY_TOKEN", "s3cret"),
        ]
        .into_iter()
        .collect();
        for adapter in registry() {
            let (name, has_gateway) = (adapter.card().name, adapter.gateway().is_some());
            let root = adapter.root(&environ);
            assert_eq!(root.is_some_and(|root| root.keys.is_some()), has_gateway, "{name}");
            assert_eq!(has_gateway, name == "openclaw");
            assert!(!(has_gateway && adapter.control().is_some()), "{name}");
        }
    }
}
