//! Held sessions: the runner keeps the two-way line of its agent open and lets others speak through it.
//!
//! The runner serves a socket in its launch folder and is asked there like an agent's server, at the moment of the
//! question. It keeps no history and writes no status: when it is gone, the records and the kernel are all there is.

mod callers;
mod feed;
mod holder;
mod inquiry;
mod keeper;
mod reach;
mod wire;

pub(crate) use feed::HoldFeed;
pub(crate) use holder::{Holder, Limits, Pipes};
pub(crate) use inquiry::inquire;
pub(crate) use keeper::keep;
pub(crate) use reach::{Held, state};
pub(crate) use wire::{Report, SOCKET};

#[cfg(test)]
mod tests;
