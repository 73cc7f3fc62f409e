//! The two pipes of a child process as one stream with a deadline.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};

#[derive(Debug)]
pub(crate) struct PipeStream {
    to: ChildStdin,
    from: ChildStdout,
    /// `None` waits for ever.
    deadline: Option<Instant>,
    heard: Instant,
}

impl PipeStream {
    pub(crate) fn new(to: ChildStdin, from: ChildStdout) -> io::Result<Self> {
        ioctl_fionbio(&to, true)?;
        ioctl_fionbio(&from, true)?;
        Ok(Self { to, from, deadline: None, heard: Instant::now() })
    }

    /// When bytes came last.
    pub(crate) fn last_heard(&self) -> Instant {
        self.heard
    }

    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }
}

/// Waits until the descriptor is ready, or until the deadline.
fn wait(descriptor: impl AsFd, flags: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    loop {
        let left = match deadline {
            None => None,
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Some(timespec(left))
            }
        };
        let mut polled = [PollFd::new(&descriptor, flags)];
        match poll(&mut polled, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn timespec(left: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

impl Read for PipeStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.from.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.from, PollFlags::IN, self.deadline)?;
                }
                other => {
                    self.heard = Instant::now();
                    return other;
                }
            }
        }
    }
}

impl Write for PipeStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.to.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.to, PollFlags::OUT, self.deadline)?;
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
