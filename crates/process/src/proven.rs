//! The proof that a process may be signalled. No signal is sent without a [`Proven`], and only this module makes one, from
//! a fresh inspection of the very process that is then signalled.

use std::path::PathBuf;

use agentctl_model::{Observed, Process, ProcessHead, ProcessRef};

use crate::signal::{Sent, Signal, SignalError, platform};
use crate::{InspectRequest, Kernel};

/// A process that was pinned, then inspected, and may be signalled.
#[derive(Debug)]
pub struct Proven(platform::Pinned);

impl Proven {
    /// Pins the process and inspects it again. It must belong to this user (even where this user may signal every process),
    /// it must not be agentctl, and `judge` must accept what the inspection shows. `None` when the process has exited.
    pub fn of(
        kernel: &dyn Kernel,
        process: ProcessRef,
        request: InspectRequest,
        judge: impl FnOnce(&Process) -> Result<(), String>,
    ) -> Result<Option<Self>, SignalError> {
        Self::pinned(kernel, process, request, |seen| {
            if is_agentctl(seen) { Err("it is agentctl itself".to_owned()) } else { judge(seen) }
        })
    }

    /// The same for agentctl's own daemon: here the process must be agentctl.
    pub fn of_agentctl(kernel: &dyn Kernel, process: ProcessRef) -> Result<Option<Self>, SignalError> {
        Self::pinned(kernel, process, InspectRequest::default(), |seen| {
            if is_agentctl(seen) { Ok(()) } else { Err("it is not agentctl".to_owned()) }
        })
    }

    fn pinned(
        kernel: &dyn Kernel,
        process: ProcessRef,
        request: InspectRequest,
        judge: impl FnOnce(&Process) -> Result<(), String>,
    ) -> Result<Option<Self>, SignalError> {
        // The order matters: after pinning, the pid cannot be reused, so what is inspected is what is signalled.
        let Some(pinned) = platform::pin(process)? else { return Ok(None) };
        let pid = process.pid;
        match kernel.again(process, request) {
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
        (Some(uid), Some(own_uid)) if uid != own_uid => Err(format!("it belongs to user {uid}")),
        _ => Ok(()),
    }
}

/// Whether this process is agentctl (a command, a runner or the daemon), under any name.
pub fn is_agentctl(process: &Process) -> bool {
    let head = &process.head;
    let named = head.program() == "agentctl" || head.comm == "agentctl";
    let same_program = || {
        let own: Option<PathBuf> = std::env::current_exe().ok();
        own.is_some() && process.exe.seen() == own.as_ref()
    };
    named || head.process.pid == std::process::id() || same_program()
}
