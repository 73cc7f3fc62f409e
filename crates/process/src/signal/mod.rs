//! Signals to exactly one process.
//!
//! A process is never addressed by name, by its pid alone or as a group: the sender needs a [`Proven`](crate::Proven), and
//! gets [`Sent::AlreadyGone`] when the process has exited, even if its pid was reused.

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

/// The signals that agentctl sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// The terminal of the process was closed (SIGHUP).
    Hangup,
    /// What Ctrl-C sends (SIGINT).
    Interrupt,
    /// A request to exit (SIGTERM).
    Terminate,
    /// The kernel ends the process (SIGKILL).
    Kill,
    /// Resumes a stopped process (SIGCONT): while stopped, it handles no other signal except SIGKILL.
    Continue,
}

/// The result of sending a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    Delivered,
    /// The process had exited before, so no signal was sent.
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

/// Waits at most `deadline` until the process has ended. `false` means that its end was not observed: it is alive, or it
/// cannot be watched.
pub fn wait_gone(process: ProcessRef, deadline: Duration) -> bool {
    platform::wait_gone(process, deadline)
}

/// Waits until one of the processes has ended, at most for `deadline`; `wake` ends the waiting as soon as it can be read.
/// Says whether a process has ended. Where that cannot be watched the waiting is short, so that the caller looks.
pub fn wait_any_gone(processes: &[ProcessRef], wake: Option<BorrowedFd<'_>>, deadline: Duration) -> bool {
    platform::wait_any_gone(processes, wake, deadline)
}
