//! Storage that is damaged in every way: each damage costs at most the session that it hit and is named in a
//! warning, and nothing in the agent's folder is modified.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod content;
mod moving;
mod places;
mod storage;
