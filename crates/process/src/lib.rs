//! The kernel witness: which processes run now. Only this crate reads the process table, and only this crate sends signals.
//!
//! Nothing here knows about agents, reads an agent's files or caches: every answer comes from a fresh read. A read that
//! fails returns [`Observed::Unobservable`], never an empty answer, because callers take absence as proof of death.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use agentctl_model::{HeldLock, NamespaceView, Observed, Process, ProcessHead, ProcessRef, Witnesses};
use jiff::Timestamp;

pub mod fake;
mod halves;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod open_files;
pub mod pages;
pub mod portable;
mod proven;
pub mod signal;
pub mod spawn;
pub mod tmux;

pub use halves::in_halves;
pub use proven::{Proven, is_agentctl};
pub use signal::{Sent, Signal, SignalError, wait_any_gone, wait_gone};
pub use spawn::{Ending, Order, Started, identity, spawn, spawn_with};

/// Which expensive facts [`Kernel::inspect`] reads beyond the usual ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InspectRequest {
    pub open_files: bool,
    pub listening: bool,
}

/// Since when this machine runs. What the platform does not say is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Boot {
    /// Another number after every start of the machine.
    pub id: Option<u128>,
    /// When it started, by the current wall clock.
    pub at: Option<Timestamp>,
}

/// Which open descriptors of a file count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow {
    ForWriting,
    AtAll,
}

/// A process table. There is one implementation per platform, and a scripted one for tests.
pub trait Kernel: Send + Sync {
    /// Which kinds of facts this backend can read at all.
    fn witnesses(&self) -> Witnesses;

    /// Lists every live process, with the facts that are cheap to read. Zombies are dead and not listed.
    fn heads(&self) -> Observed<Vec<ProcessHead>>;

    /// Reads the expensive facts of one process. `None` when it has exited, even if its pid was reused.
    fn inspect(&self, head: &ProcessHead, request: InspectRequest) -> Option<Process>;

    /// Which process holds which file lock.
    fn locks(&self) -> Observed<Vec<HeldLock>>;

    /// Whether this process, which the caller has just seen alive, holds a lock on the file with this device and inode.
    /// This is cheap: the open files of the process are read first.
    fn holds(&self, pid: u32, _device: u64, _inode: u64) -> Observed<bool> {
        Observed::Unobservable(format!("this platform does not show what process {pid} holds"))
    }

    /// Whether exactly this process is still alive.
    fn is_alive(&self, process: ProcessRef) -> Observed<bool>;

    /// The resident memory of the process in bytes; `None` when it cannot be read.
    fn memory(&self, process: ProcessRef) -> Option<u64>;

    /// The effective user id of this program; `None` where the backend does not know it.
    fn own_uid(&self) -> Option<u32> {
        None
    }

    /// Which user accepted a TCP connection of ours, found by the addresses of both ends. `Seen(None)` when the remote end
    /// is not a socket of our network namespace, or when nobody has accepted the connection yet.
    fn accepted_by(&self, _near: SocketAddr, _far: SocketAddr) -> Observed<Option<u32>> {
        Observed::Unobservable("this platform does not show whose sockets there are".to_owned())
    }

    /// Since when this machine runs.
    fn boot(&self) -> Boot {
        Boot::default()
    }

    /// Which pid namespace this backend sees, and whether that is the whole machine.
    fn namespace_view(&self) -> NamespaceView {
        NamespaceView::ALL
    }

    /// Inspects exactly this process without listing all of them; `Seen(None)` when it has exited.
    fn again(&self, process: ProcessRef, request: InspectRequest) -> Observed<Option<Process>> {
        match self.heads() {
            Observed::Unobservable(why) => Observed::Unobservable(why),
            Observed::Seen(heads) => {
                let head = heads.iter().find(|head| head.process == process);
                Observed::Seen(head.and_then(|head| self.inspect(head, request)))
            }
        }
    }

    /// Whether the path `theirs` leads the process to the same directory as the path `ours` leads us: a container has its
    /// own root.
    fn is_same_folder(&self, _process: ProcessRef, theirs: &Path, ours: &Path) -> bool {
        theirs == ours
    }

    /// Whether any process of this machine has the file open (for writing, or at all), including processes that are not
    /// visible from here. Ask this only about files that an agent keeps open for as long as it owns the session.
    fn is_open(&self, path: &Path, _how: OpenHow) -> Observed<bool> {
        Observed::Unobservable(format!("this platform does not show who has {} open", path.display()))
    }

    /// Whether the directory is a bind mount from outside, as a container gets them: a mount of a part of a file system.
    fn is_lent(&self, _folder: &Path) -> bool {
        false
    }
}

/// The process table of this machine.
pub fn system() -> Arc<dyn Kernel> {
    #[cfg(target_os = "linux")]
    return Arc::new(linux::Linux::new());
    #[cfg(not(target_os = "linux"))]
    return Arc::new(portable::Portable::new());
}
