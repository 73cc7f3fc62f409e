//! A conversation that the gateway returns page by page: summed up, as entries, and followed.

pub(super) mod fold;
pub(super) mod follow;
pub(super) mod history;
