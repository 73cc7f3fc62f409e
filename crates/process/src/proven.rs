//! Who may be signalled. Nothing in this program sends a signal to a process without a [`Proven`], and this is the only
//! place that makes one: from a fresh look at the very process that is then signalled.

use std::path::PathBuf;

use agentctl_model::{Observed, Process, ProcessHead, ProcessRef};

use crate::signal::{Sent, Signal, SignalError, platform};
use crate::{InspectRequest, Kernel};

/// A process that was held, then looked at, and found to be one that may be signalled.
#[derive(Debug)]
pub struct Proven(platform::Pinned);

impl Proven {
    /// Holds the process and looks at it anew. It must be this user's (also where this user may signal everybody), it must
    /// not be agentctl, and `judge` must agree with what is seen now. `None` when it is gone.
    pub fn of(
        kernel: &dyn Kernel,
        process: ProcessRef,
        want: InspectRequest,
        judge: impl FnOnce(&Process) -> Result<(), String>,
    ) -> Result<Option<Self>, SignalError> {
        Self::pinned(kernel, process, want, |seen| {
            if is_agentctl(seen) { Err("it is agentctl itself".to_owned()) } else { judge(seen) }
        })
    }

    /// The same for agentctl's own daemon, which is nothing else.
    pub fn of_agentctl(kernel: &dyn Kernel, process: ProcessRef) -> Result<Option<Self>, SignalError> {
        Self::pinned(kernel, process, InspectRequest::default(), |seen| {
            if is_agentctl(seen) { Ok(()) } else { Err("it is not agentctl".to_owned()) }
        })
    }

    fn pinned(
        kernel: &dyn Kernel,
        process: ProcessRef,
        want: InspectRequest,
        judge: impl FnOnce(&Process) -> Result<(), String>,
    ) -> Result<Option<Self>, SignalError> {
        // The order matters: what is held first and recognised then is the same.
        let Some(pinned) = platform::pin(process)? else { return Ok(None) };
        let pid = process.pid;
        match kernel.again(process, want) {
            Observed::Unobservable(why) => Err(SignalError::Unobservable { pid, why }),
            Observed::Seen(None) => Ok(None),
            Observed::Seen(Some(seen)) => {
                let proof = of_this_user(kernel, &seen.head).and_then(|()| judge(&seen));
                proof.map(|()| Some(Self(pinned))).map_err(|why| SignalError::NotOurs { pid, why })
            }
        }
    }

    pub fn signal(&self, signal: Signal) -> Result<Sent, SignalError> {
        platform::send(&self.0, signal)
    }
}

fn of_this_user(kernel: &dyn Kernel, head: &ProcessHead) -> Result<(), String> {
    match (head.uid, kernel.own_uid()) {
        (Some(uid), Some(us)) if uid != us => Err(format!("it belongs to user {uid}")),
        _ => Ok(()),
    }
}

/// Whether this is agentctl: a command, a runner or the daemon, under whatever name it was started.
pub fn is_agentctl(process: &Process) -> bool {
    let head = &process.head;
    let named = head.program() == "agentctl" || head.comm == "agentctl";
    let same_program = || {
        let own: Option<PathBuf> = std::env::current_exe().ok();
        own.is_some() && process.exe.seen() == own.as_ref()
    };
    named || head.process.pid == std::process::id() || same_program()
}
