//! What a session file says: its header, its tree of records, both of its ends, and the session that they describe.

mod branch;
pub(super) mod entries;
mod head;
pub(super) mod header;
pub(super) mod marks;
pub(super) mod peek;
mod records;
pub(super) mod session;
mod tail;
mod turn;
mod usage;
