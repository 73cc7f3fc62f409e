//! Storage that is broken in every way storage breaks: each damage costs at most the session it hit, is named in a
//! warning, and nothing in the agent's folder is touched.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod content;
mod moving;
mod places;
mod storage;
