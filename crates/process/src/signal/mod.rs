//! The hands: signals to exactly one process.
//!
//! A process is never addressed by name, by a pid alone or as a group: whoever wants to signal must have a
//! [`Proven`](crate::Proven), and gets [`Sent::AlreadyGone`] when its pid belongs to somebody else by now.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use agentctl_model::ProcessRef;
use thiserror::Error;

#[cfg(target_os = "linux")]
pub mod pidfd;
pub mod polled;

#[cfg(target_os = "linux")]
pub(crate) use pidfd as platform;
#[cfg(not(target_os = "linux"))]
pub(crate) use polled as platform;

/// What a process can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// Its terminal went away.
    Hangup,
    /// What Ctrl-C sends: break off what you do.
    Interrupt,
    /// End yourself.
    Terminate,
    /// Be ended.
    Kill,
    /// Go on, if you were stopped: one that is stopped hears no other signal but the last.
    Continue,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Delivered,
    /// The process had ended before the signal came: nobody was signalled.
    AlreadyGone,
}

#[derive(Debug, Error)]
pub enum SignalError {
    #[error("not permitted to signal process {pid}; it belongs to another user")]
    Denied { pid: u32 },
    #[error("process {pid} was not signalled: {why}")]
    NotOurs { pid: u32, why: String },
    #[error("cannot tell whether process {pid} is still the same, so it was not signalled: {why}")]
    Unobservable { pid: u32, why: String },
    #[error("cannot signal process {pid}: {source}")]
    Failed { pid: u32, source: std::io::Error },
}

/// Waits until the process has ended, at most for `deadline`. `false` says that it was not seen to end: it lives, or it
/// cannot be looked at.
pub fn wait_gone(process: ProcessRef, deadline: Duration) -> bool {
    platform::wait_gone(process, deadline)
}

/// Waits until one of the processes has ended, at most for `deadline`; `wake` ends the waiting as soon as it can be read.
/// Says whether a process has ended. Where that cannot be watched the waiting is short, so that the caller looks.
pub fn wait_any_gone(processes: &[ProcessRef], wake: Option<BorrowedFd<'_>>, deadline: Duration) -> bool {
    platform::wait_any_gone(processes, wake, deadline)
}
