//! The session id of plans that choose it. Pure.

use agentctl_model::{Conversation, IdSource, Intent};

/// The id for agents that accept one: a stored session keeps its own, a new session and a fork get the fresh one.
pub(crate) fn known_id(intent: &Intent) -> IdSource {
    IdSource::Known(match &intent.conversation {
        Conversation::Stored { id, .. } => id.clone(),
        Conversation::New | Conversation::ForkOf { .. } => intent.fresh_id.clone(),
    })
}
