//! The kernel witness against real processes. What both backends promise is one suite, run against each of them.
#![allow(
    clippy::disallowed_methods,
    reason = "this crate sends signals, and its tests start what they look at"
)]
#![allow(clippy::print_stdout, reason = "children talk to their tests")]

mod backend;
mod child;
mod death;
mod denied;
mod identity;
mod seen;

#[cfg(target_os = "linux")]
mod accomplice;
#[cfg(target_os = "linux")]
mod linux_only;
