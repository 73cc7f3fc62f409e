//! What a stored conversation says: its messages and their parts, the same in the database and in the old tree.

pub(super) mod entries;
pub(super) mod follow;
pub(super) mod marks;
pub(crate) mod records;
pub(crate) mod session;
pub(crate) mod turn;
