//! Webhooks: at least once, in order per session, from an outbox on disk. What is in the outbox is not lost; what was
//! delivered carries an id by which a receiver knows it again.

mod outbox;
mod sender;

pub(crate) use outbox::Outbox;
pub use outbox::OutboxStatus;
pub(crate) use sender::keep_sending;
