//! What goes out: the ring of events, commands and notices of the user, webhooks, figures.

pub(crate) mod commands;
pub(crate) mod events;
pub(crate) mod metrics;
pub(crate) mod notices;
pub(crate) mod webhooks;
