//! Cancellation of long reads. A caller that has stopped waiting no longer needs what is still being read.
//!
//! The reads happen far below the code that knows the question, and on several threads, so the `Progress` to report
//! to is stored per thread.

use std::cell::RefCell;
use std::io;

use crate::Progress;

thread_local! {
    static CURRENT: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

/// Restores the thread's previous `Progress`, however the work ends.
struct Restore(Option<Progress>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Runs `work` so that it reports its steps to this progress and ends once the caller gives up.
pub fn with_cancellation<R>(progress: Option<&Progress>, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(CURRENT.replace(progress.cloned()));
    work()
}

/// The progress this thread reports to, to be handed to further threads that work on the same question.
pub(crate) fn current() -> Option<Progress> {
    CURRENT.with_borrow(Clone::clone)
}

/// Whether this thread works for a caller who may give up, and whether he has.
pub fn given_up() -> Option<bool> {
    CURRENT.with_borrow(|current| current.as_ref().map(Progress::is_given_up))
}

/// Records one more step of a long read: it proves that the source is still active, and fails if nobody waits any
/// more.
pub(crate) fn step() -> io::Result<()> {
    CURRENT.with_borrow(|current| {
        let Some(progress) = current else { return Ok(()) };
        progress.tick();
        if progress.is_given_up() {
            return Err(io::Error::other("nobody waits for it any more"));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_ends_with_its_work_and_once_nobody_waits() {
        let (outer, inner) = (Progress::default(), Progress::default());
        with_cancellation(Some(&outer), || {
            with_cancellation(Some(&inner), || step().unwrap());
            assert_eq!((outer.count(), inner.count()), (0, 1));
            step().unwrap();
            assert_eq!(given_up(), Some(false));
            outer.give_up();
            assert!(step().is_err());
            assert_eq!(given_up(), Some(true));
        });
        assert!(step().is_ok() && current().is_none() && given_up().is_none());
    }
}
