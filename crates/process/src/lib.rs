//! The kernel witness: what runs now. The only room that looks at processes, and the only hands that signal them.
//!
//! Nothing here knows an agent, reads an agent's files or keeps what it saw: every answer is a fresh look. A look that
//! fails is [`Observed::Unobservable`], never an empty answer, because absence is proof of death further up.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests write what is read"))]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use agentctl_model::{HeldLock, NamespaceView, Observed, Process, ProcessHead, ProcessRef, Witnesses};

pub mod fake;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod open_files;
pub mod portable;
mod proven;
pub mod signal;
pub mod spawn;
pub mod tmux;

pub use proven::{Proven, is_agentctl};
pub use signal::{Sent, Signal, SignalError, wait_gone};
pub use spawn::{Ending, Order, Started, identity, spawn};

/// Which expensive looks are wanted of one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InspectRequest {
    pub open_files: bool,
    pub listening: bool,
}

/// Which openings of a file count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow {
    ForWriting,
    AtAll,
}

/// A process table that can be asked. One implementation per platform, and a scripted one for tests.
pub trait Kernel: Send + Sync {
    /// Which witnesses this backend has at all.
    fn witnesses(&self) -> Witnesses;

    /// The cheap pass over every live process. Zombies are dead and not in it.
    fn heads(&self) -> Observed<Vec<ProcessHead>>;

    /// The expensive look at one of them; `None` when that process is gone by now (its pid may be another's).
    fn inspect(&self, head: &ProcessHead, want: InspectRequest) -> Option<Process>;

    /// Who holds which file lock.
    fn locks(&self) -> Observed<Vec<HeldLock>>;

    /// Whether this process, which was just met, holds a lock on the file with this device and inode. Cheap: its own open
    /// files are looked at first.
    fn holds(&self, pid: u32, _device: u64, _inode: u64) -> Observed<bool> {
        Observed::Unobservable(format!("this platform does not show what process {pid} holds"))
    }

    /// Whether exactly this process still lives.
    fn is_alive(&self, process: ProcessRef) -> Observed<bool>;

    /// How many bytes of memory it holds; `None` when that cannot be seen.
    fn memory(&self, process: ProcessRef) -> Option<u64>;

    /// The user that this program acts as; `None` where the backend cannot say.
    fn own_uid(&self) -> Option<u32> {
        None
    }

    /// Which user accepted a TCP connection of ours, by the addresses of our end and of the other one. `Seen(None)` when
    /// that end is not among the sockets of our network namespace, or nobody has accepted it.
    fn accepted_by(&self, _near: SocketAddr, _far: SocketAddr) -> Observed<Option<u32>> {
        Observed::Unobservable("this platform does not show whose sockets there are".to_owned())
    }

    /// From where this backend looks.
    fn namespace_view(&self) -> NamespaceView {
        NamespaceView::ALL
    }

    /// The expensive look at exactly this process, without the list of all; `Seen(None)` when it is gone.
    fn again(&self, process: ProcessRef, want: InspectRequest) -> Observed<Option<Process>> {
        match self.heads() {
            Observed::Unobservable(why) => Observed::Unobservable(why),
            Observed::Seen(heads) => {
                let head = heads.iter().find(|head| head.process == process);
                Observed::Seen(head.and_then(|head| self.inspect(head, want)))
            }
        }
    }

    /// Whether the process means by `theirs` the folder that we mean by `ours`: a container has another root.
    fn is_same_folder(&self, _process: ProcessRef, theirs: &Path, ours: &Path) -> bool {
        theirs == ours
    }

    /// Whether anybody on this machine has the file open (for writing, or at all), seen from here or not. Only for files
    /// that an agent keeps open for as long as it has the session.
    fn is_open(&self, path: &Path, _how: OpenHow) -> Observed<bool> {
        Observed::Unobservable(format!("this platform does not show who has {} open", path.display()))
    }

    /// Whether the folder came in from outside: a part of a file system that was mounted here, as for a container.
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
