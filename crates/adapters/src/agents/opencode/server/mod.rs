//! OpenCode's own server in a live process: what it reports, what it announces, and what it can be told.

pub(super) mod ask;
pub(super) mod feed;
pub(super) mod held;
pub(super) mod http;
pub(super) mod steer;
