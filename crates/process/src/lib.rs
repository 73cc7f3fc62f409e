//! The kernel witness: what runs now. The only room that looks at processes, and the only hands that signal them.
//!
//! Nothing here knows an agent, reads an agent's files or keeps what it saw: every answer is a fresh look. A look that
//! fails is [`Observed::Unobservable`], never an empty answer, because absence is proof of death further up.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

use std::sync::Arc;

use agentctl_model::{HeldLock, Observed, Process, ProcessHead, ProcessRef, Witnesses};

pub mod fake;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod open_files;
pub mod portable;
pub mod signal;
pub mod spawn;
pub mod tmux;

pub use signal::{Sent, Signal, SignalError, signal, wait_gone};
pub use spawn::{Ending, Order, Started, identity, spawn};

/// Which expensive looks are wanted of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    pub open_files: bool,
    pub listening: bool,
}

/// A process table that can be asked. One implementation per platform, and a scripted one for tests.
pub trait Kernel: Send + Sync {
    /// Which witnesses this backend has at all.
    fn witnesses(&self) -> Witnesses;

    /// The cheap pass over every live process. Zombies are dead and not in it.
    fn heads(&self) -> Observed<Vec<ProcessHead>>;

    /// The expensive look at one of them; `None` when that process is gone by now (its pid may be another's).
    fn inspect(&self, head: &ProcessHead, want: Want) -> Option<Process>;

    /// Who holds which file lock.
    fn locks(&self) -> Observed<Vec<HeldLock>>;

    /// Whether exactly this process still lives.
    fn is_alive(&self, process: ProcessRef) -> Observed<bool>;

    /// How many bytes of memory it holds; `None` when that cannot be seen.
    fn memory(&self, process: ProcessRef) -> Option<u64>;
}

/// The process table of this machine.
pub fn system() -> Arc<dyn Kernel> {
    #[cfg(target_os = "linux")]
    return Arc::new(linux::Linux::new());
    #[cfg(not(target_os = "linux"))]
    return Arc::new(portable::Portable::new());
}
