//! Webhooks, delivered at least once and in order per session, from an outbox on disk. Nothing in the outbox
//! is lost, and each delivery has an id by which a receiver recognizes a duplicate.

pub(crate) mod http;
mod outbox;
mod sender;

pub(crate) use outbox::Outbox;
pub use outbox::OutboxStatus;
pub(crate) use sender::start_senders;
