//! What the daemon announces: the ring of events, commands and notifications of the user, webhooks, metrics.

pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod notices;
pub(crate) mod webhooks;
