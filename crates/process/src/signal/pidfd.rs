//! Linux: a pidfd pins the process, so the pid cannot be reused between the check and the signal.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use agentctl_model::{Observed, ProcessRef};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::{Sent, Signal, SignalError};
use crate::Kernel;
use crate::linux::Linux;

/// How long to wait for a process whose end the kernel does not announce.
const UNWATCHED: Duration = Duration::from_millis(20);

/// A process that is held by a pidfd.
#[derive(Debug)]
pub struct Pinned {
    process: ProcessRef,
    handle: OwnedFd,
}

/// For the tests of this crate, which signal their own children without a proof.
pub fn signal_unproven(process: ProcessRef, signal: Signal) -> Result<Sent, SignalError> {
    pin(process)?.map_or(Ok(Sent::AlreadyGone), |pinned| send(&pinned, signal))
}

pub(crate) fn send(pinned: &Pinned, signal: Signal) -> Result<Sent, SignalError> {
    match pidfd_send_signal(&pinned.handle, native(signal)) {
        Ok(()) => Ok(Sent::Delivered),
        Err(Errno::SRCH) => Ok(Sent::AlreadyGone),
        Err(error) => Err(failure(pinned.process, error)),
    }
}

pub fn wait_gone(process: ProcessRef, deadline: Duration) -> bool {
    match pin(process) {
        Ok(None) => true,
        Ok(Some(pinned)) => ends_within(&pinned.handle, deadline),
        Err(_) => false,
    }
}

pub fn wait_any_gone(processes: &[ProcessRef], wake: Option<BorrowedFd<'_>>, deadline: Duration) -> bool {
    let (mut handles, mut deadline) = (Vec::with_capacity(processes.len()), deadline);
    for process in processes {
        match pin(*process) {
            Ok(None) => return true,
            Ok(Some(pinned)) => handles.push(pinned.handle),
            Err(_) => deadline = deadline.min(UNWATCHED),
        }
    }
    let mut watched: Vec<PollFd<'_>> =
        handles.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
    watched.extend(wake.as_ref().map(|wake| PollFd::new(wake, PollFlags::IN)));
    poll_until(&mut watched, deadline);
    watched[..handles.len()].iter().any(|handle| !handle.revents().is_empty())
}

/// Pins the process; `None` when it has exited. The pidfd is opened before the identity is checked, so the check and the
/// signal concern the same process.
pub(crate) fn pin(process: ProcessRef) -> Result<Option<Pinned>, SignalError> {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(failure(process, error)),
    };
    if !is_the_pid_of(&handle, process.pid) {
        let why = "/proc shows another pid namespace than the one that this program is in".to_owned();
        return Err(SignalError::Unobservable { pid: process.pid, why });
    }
    match Linux::new().is_alive(process) {
        Observed::Seen(true) => Ok(Some(Pinned { process, handle })),
        Observed::Seen(false) => Ok(None),
        Observed::Unobservable(why) => Err(SignalError::Unobservable { pid: process.pid, why }),
    }
}

/// Whether `/proc` shows the pinned process under the same pid. If `/proc` was mounted for another pid namespace, one number
/// means two processes. A process that has ended has no pid (0 or -1); the caller checks for that next.
fn is_the_pid_of(handle: &OwnedFd, pid: u32) -> bool {
    let fdinfo = agentctl_files::kernel::own_descriptor(handle.as_raw_fd()).ok();
    let shown = fdinfo.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("Pid:")));
    shown
        .and_then(|shown| shown.trim().parse::<i64>().ok())
        .is_none_or(|shown| shown == i64::from(pid) || shown <= 0)
}

/// A pidfd becomes readable when the last thread of the process has ended, reaped or not.
fn ends_within(pinned: &OwnedFd, deadline: Duration) -> bool {
    poll_until(&mut [PollFd::new(pinned, PollFlags::IN)], deadline)
}

/// Says whether one of them became ready.
fn poll_until(watched: &mut [PollFd<'_>], deadline: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let left = deadline.saturating_sub(begin.elapsed());
        // A time that the kernel cannot represent is a wait without end.
        let timeout = Timespec::try_from(left).ok();
        match poll(watched, timeout.as_ref()) {
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
