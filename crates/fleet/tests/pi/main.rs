//! Pi and Pi Rust joined with a scripted kernel: contract rows N1, N2, N4, N7, N9 and the traps of one shared store.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod home;
mod processes;
mod store;
