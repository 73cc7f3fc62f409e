//! Linux: a pidfd pins the process, so that between the check and the signal the pid cannot change hands.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use agentctl_model::{Observed, ProcessRef};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::{Sent, Signal, SignalError};
use crate::Kernel;
use crate::linux::Linux;

pub fn signal(process: ProcessRef, signal: Signal) -> Result<Sent, SignalError> {
    let Some(pinned) = pin(process)? else { return Ok(Sent::AlreadyGone) };
    match pidfd_send_signal(pinned, native(signal)) {
        Ok(()) => Ok(Sent::Delivered),
        Err(Errno::SRCH) => Ok(Sent::AlreadyGone),
        Err(error) => Err(failure(process, error)),
    }
}

pub fn wait_gone(process: ProcessRef, deadline: Duration) -> bool {
    match pin(process) {
        Ok(None) => true,
        Ok(Some(pinned)) => ends_within(&pinned, deadline),
        Err(_) => false,
    }
}

/// Holds the process; `None` when it is gone. The order matters: what is pinned first and recognised then is the same.
fn pin(process: ProcessRef) -> Result<Option<OwnedFd>, SignalError> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let pinned = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pinned) => pinned,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(failure(process, error)),
    };
    match Linux::new().is_alive(process) {
        Observed::Seen(true) => Ok(Some(pinned)),
        Observed::Seen(false) => Ok(None),
        Observed::Unobservable(why) => Err(SignalError::Unobservable { pid: process.pid, why }),
    }
}

/// A pidfd becomes readable when the last thread of the process has ended, reaped or not.
fn ends_within(pinned: &OwnedFd, deadline: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let left = deadline.saturating_sub(begin.elapsed());
        // A wait too long for the kernel to count is a wait without end.
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(pinned, PollFlags::IN)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            answer => return answer.is_ok_and(|ready| ready > 0),
        }
    }
}

fn failure(process: ProcessRef, error: Errno) -> SignalError {
    let pid = process.pid;
    match error {
        Errno::PERM | Errno::ACCESS => SignalError::Denied { pid },
        _ => SignalError::Failed { pid, source: error.into() },
    }
}

fn native(signal: Signal) -> rustix::process::Signal {
    match signal {
        Signal::Hangup => rustix::process::Signal::HUP,
        Signal::Interrupt => rustix::process::Signal::INT,
        Signal::Terminate => rustix::process::Signal::TERM,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Continue => rustix::process::Signal::CONT,
    }
}
