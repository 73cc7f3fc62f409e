//! The few files that agentctl writes itself: launch records, manual locks, consents, the outbox. No status is ever among
//! them.

pub mod fault;
pub mod fresh;
pub mod kernel_lock;
pub mod launches;
pub mod locks;
pub mod marks;
pub mod outbox;
pub mod store;
pub mod whole_file;
