//! What a rollout says: its records, both of its ends, and the session that they describe.

pub(super) mod calls;
pub(super) mod compressed;
pub(super) mod entries;
mod head;
pub(super) mod marks;
mod records;
pub(super) mod session;
mod spent;
mod tail;
mod tokens;
