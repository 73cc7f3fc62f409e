//! What cannot be launched is refused with the position of the mistake, and nothing is created for it: no
//! record, no working tree, no branch, no process.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod callback;
mod defaults;
mod issue;
mod matrix;
mod places;
mod returns;
mod scene;
mod secrets;
mod starved;
mod taken_back;
mod words;
