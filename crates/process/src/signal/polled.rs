//! Other Unixes: check the process, then signal it. Between the two the pid could be reused, because there is no pidfd.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use agentctl_model::{Observed, ProcessRef};

use super::{Sent, Signal, SignalError};
use crate::Kernel;
use crate::portable::{Portable, identity_only, with_process};

/// How often the process table is read while waiting for the end of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A process that cannot be pinned on this platform: its identity is checked again when it is signalled.
#[derive(Debug)]
pub struct Pinned(ProcessRef);

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux holds processes by pidfd"))]
pub(crate) fn pin(process: ProcessRef) -> Result<Option<Pinned>, SignalError> {
    match Portable::new().is_alive(process) {
        Observed::Seen(true) => Ok(Some(Pinned(process))),
        Observed::Seen(false) => Ok(None),
        Observed::Unobservable(why) => Err(SignalError::Unobservable { pid: process.pid, why }),
    }
}

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux holds processes by pidfd"))]
pub(crate) fn send(pinned: &Pinned, kind: Signal) -> Result<Sent, SignalError> {
    signal_unproven(pinned.0, kind)
}

pub fn signal_unproven(process: ProcessRef, signal: Signal) -> Result<Sent, SignalError> {
    // kill(2) takes zero and negative numbers for process groups.
    if i32::try_from(process.pid).is_ok_and(|pid| pid > 0) {
        deliver(process, signal)
    } else {
        Ok(Sent::AlreadyGone)
    }
}

fn deliver(process: ProcessRef, signal: Signal) -> Result<Sent, SignalError> {
    let pid = process.pid;
    let unobservable = |why| SignalError::Unobservable { pid, why };
    let sent = with_process(process, identity_only(), |found| found.kill_with(native(signal)));
    match sent.map_err(unobservable)? {
        None => Ok(Sent::AlreadyGone),
        Some(Some(true)) => Ok(Sent::Delivered),
        // The library returns only success or failure; if the process has exited, the failure was not a permission error.
        Some(Some(false)) if Portable::new().is_alive(process) == Observed::Seen(false) => {
            Ok(Sent::AlreadyGone)
        }
        Some(Some(false)) => Err(SignalError::Denied { pid }),
        Some(None) => Err(SignalError::Failed { pid, source: std::io::ErrorKind::Unsupported.into() }),
    }
}

pub fn wait_gone(process: ProcessRef, deadline: Duration) -> bool {
    wait_any_gone(&[process], None, deadline)
}

/// What could wake is not listened to here: whoever has such a thing looks again when the time is over.
pub fn wait_any_gone(processes: &[ProcessRef], _wake: Option<BorrowedFd<'_>>, deadline: Duration) -> bool {
    let begin = Instant::now();
    loop {
        if processes.iter().any(|process| Portable::new().is_alive(*process) == Observed::Seen(false)) {
            return true;
        }
        let left = deadline.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(POLL_INTERVAL));
    }
}

fn native(signal: Signal) -> sysinfo::Signal {
    match signal {
        Signal::Hangup => sysinfo::Signal::Hangup,
        Signal::Interrupt => sysinfo::Signal::Interrupt,
        Signal::Terminate => sysinfo::Signal::Term,
        Signal::Kill => sysinfo::Signal::Kill,
        Signal::Continue => sysinfo::Signal::Continue,
    }
}
