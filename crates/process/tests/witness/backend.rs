//! The backends under test, each with the signal functions that understand its identities.

use std::time::{Duration, Instant};

use agentctl_model::{ProcessHead, ProcessRef};
use agentctl_process::portable::Portable;
use agentctl_process::signal::polled;
use agentctl_process::{Kernel, Sent, Signal, SignalError};

/// Nothing here takes this long; a test that waits this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct Backend {
    pub(crate) kernel: Box<dyn Kernel>,
    pub(crate) signal: fn(ProcessRef, Signal) -> Result<Sent, SignalError>,
    pub(crate) wait_gone: fn(ProcessRef, Duration) -> bool,
}

impl Backend {
    #[cfg(target_os = "linux")]
    pub(crate) fn native() -> Self {
        use agentctl_process::linux::Linux;
        use agentctl_process::signal::pidfd;
        Self { kernel: Box::new(Linux::new()), signal: pidfd::signal_unproven, wait_gone: pidfd::wait_gone }
    }

    pub(crate) fn portable() -> Self {
        Self {
            kernel: Box::new(Portable::new()),
            signal: polled::signal_unproven,
            wait_gone: polled::wait_gone,
        }
    }

    pub(crate) fn heads(&self) -> Vec<ProcessHead> {
        self.kernel.heads().seen().expect("a process table").clone()
    }

    pub(crate) fn find(&self, pid: u32) -> Option<ProcessHead> {
        self.heads().into_iter().find(|head| head.process.pid == pid)
    }

    pub(crate) fn head(&self, pid: u32) -> ProcessHead {
        self.find(pid).unwrap_or_else(|| panic!("process {pid} is not in the table"))
    }

    /// The same once its program is loaded: in the middle of `execve` a process has no arguments, and only the Linux
    /// look waits for them.
    pub(crate) fn loaded_head(&self, pid: u32) -> ProcessHead {
        until("the program is loaded", || !self.head(pid).argv.is_empty());
        self.head(pid)
    }

    pub(crate) fn is_alive(&self, process: ProcessRef) -> bool {
        *self.kernel.is_alive(process).seen().expect("an answer")
    }
}

/// Waits for something that must come true.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < DEADLINE, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// Makes one test per backend out of functions that take a backend.
macro_rules! on_each_backend {
    ($($name:ident),+ $(,)?) => {
        #[cfg(target_os = "linux")]
        mod linux {
            $(#[test] fn $name() { super::$name(&crate::backend::Backend::native()); })+
        }
        mod portable {
            $(#[test] fn $name() { super::$name(&crate::backend::Backend::portable()); })+
        }
    };
}
pub(crate) use on_each_backend;
