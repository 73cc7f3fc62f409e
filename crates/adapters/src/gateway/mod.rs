//! An agent whose sessions live in a gateway and not in processes here: its addresses, its credentials, and what can
//! be read and done there. No process is started; the gateway is asked. For acting it replaces
//! [`Control`](crate::Control): an adapter has one or the other.

pub(crate) mod keys;
pub(crate) mod peer;

use std::path::Path;

use agentctl_model::{Entry, Error, Permission, Session};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::search::Conversation;
use crate::{Answer, Follow, Keys, ReadError, Root};

/// A turn that a server is asked to run.
#[derive(Debug, Clone, Copy)]
pub struct TurnRequest<'a> {
    /// The session that receives the words; `None` begins a new one.
    pub session: Option<&'a str>,
    pub words: &'a str,
    pub model: Option<&'a str>,
    pub permission: Option<Permission>,
    /// Only a directory that the user named: without one the server uses its own.
    pub cwd: Option<&'a Path>,
    /// An idempotency key of this request alone: sent twice with the same key, the turn runs once.
    pub once: &'a str,
}

/// The request that would be sent to the server, for people to read. It contains no key: keys only go over the
/// connection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    pub to: String,
    pub method: &'static str,
    pub params: Value,
}

/// What the server answered: its own id of the session, and of the turn if it names turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub id: String,
    pub run: Option<String>,
}

/// The recipient of a message within a server: a session, an agent, or a session of that agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Addressee {
    pub session: Option<String>,
    pub agent: Option<String>,
}

/// A server that was not reached or did not answer is an error of the kind
/// [`NoAnswer`](agentctl_model::ErrorKind::NoAnswer); one that refuses, or must not be asked, is one of the kind
/// [`Refused`](agentctl_model::ErrorKind::Refused).
pub trait Gateway: Send + Sync {
    /// The root of a gateway that the user configured by its address; `None` for a text that is not such an address.
    fn root_at(&self, address: &str, keys: Keys) -> Option<Root>;

    /// Whether the gateway of this root will want to know which machine is asking (`Keys::device`).
    fn wants_device(&self, root: &Root) -> bool;

    /// The last `limit` entries of a conversation, oldest first. The root contains the keys.
    fn read(&self, root: &Root, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError>;

    /// How a conversation is read to search it.
    fn conversation(&self, root: &Root, id: &str) -> Conversation<'_>;

    /// Entries as they are added, beginning with the last `backlog` ones.
    fn follow(&self, root: &Root, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError>;

    /// Whether this root leads to a server at all.
    fn is_reachable(&self, root: &Root) -> bool;

    /// Whether the server of this root is on this machine, so that its directories are ours too.
    fn is_here(&self, root: &Root) -> bool;

    /// Whether this text means the server of this root: its address, or its name.
    fn is_meant(&self, root: &Root, said: &str) -> bool;

    /// Pure: the request for this turn. What makes no sense for this agent is refused here, before anything is sent.
    fn request(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Request, Error>;

    /// Begins a session, or continues one.
    fn begin(&self, root: &Root, turn: &TurnRequest<'_>) -> Result<Begun, Error>;

    /// Whether the session, as a survey shows it, contains this turn.
    fn shows(&self, session: &Session, begun: &Begun) -> bool;

    /// Interrupts the current turn. Returns whether there was one.
    fn stop(&self, root: &Root, id: &str) -> Result<bool, Error>;

    /// Sends a message to a session. Success means that the server accepted it.
    fn send(&self, root: &Root, id: &str, words: &str, once: &str) -> Result<(), Error>;

    /// Notifies a recipient of something that happened elsewhere. Sent again with the same `once`, it is delivered
    /// once.
    fn tell(&self, root: &Root, to: &Addressee, words: &str, once: &str) -> Result<(), Error>;

    /// Answers the request that a session waits for.
    fn answer(&self, root: &Root, id: &str, answer: &Answer) -> Result<(), Error>;
}

#[cfg(test)]
mod tests {
    use agentctl_model::Environ;

    use crate::registry;

    /// Sets every variable that means something to a gateway.
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
