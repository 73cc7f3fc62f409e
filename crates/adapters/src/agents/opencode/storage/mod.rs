//! Where OpenCode stores sessions: the databases, and the old tree of files.

pub(super) mod database;
mod remembered;
pub(crate) mod selection;
pub(super) mod survey;
pub(crate) mod tree;
