//! The few files that agentctl writes itself: launch records, manual locks, consents, the outbox. None of them ever
//! contains a status.

pub mod fault;
pub mod fuses;
pub mod kernel_lock;
pub mod launches;
pub mod locks;
pub mod marks;
pub mod new_names;
pub mod outbox;
pub mod store;
pub mod told;
pub mod whole_file;
