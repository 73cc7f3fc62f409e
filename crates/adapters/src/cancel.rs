//! On whose behalf a thread reads. Whoever asked may have stopped waiting: then what is still read is read for nobody.
//!
//! The reading itself is far below whoever knows the question, and on several threads; so the errand goes with the thread.

use std::cell::RefCell;
use std::io;

use crate::Progress;

thread_local! {
    static ERRAND: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

/// Gives the thread back what it did before, however the work ends.
struct Before(Option<Progress>);

impl Drop for Before {
    fn drop(&mut self) {
        ERRAND.set(self.0.take());
    }
}

/// Does `work` for whoever waits for this progress.
pub fn with_cancellation<R>(progress: Option<&Progress>, work: impl FnOnce() -> R) -> R {
    let _before = Before(ERRAND.replace(progress.cloned()));
    work()
}

/// Whoever this thread works for; another thread that helps works for the same.
pub(crate) fn current() -> Option<Progress> {
    ERRAND.with_borrow(Clone::clone)
}

/// One more step of a long read: it shows that the source is not silent, and ends the read if nobody waits any more.
pub(crate) fn step() -> io::Result<()> {
    ERRAND.with_borrow(|errand| {
        let Some(progress) = errand else { return Ok(()) };
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
    fn an_errand_ends_with_its_work_and_once_nobody_waits() {
        let (outer, inner) = (Progress::default(), Progress::default());
        with_cancellation(Some(&outer), || {
            with_cancellation(Some(&inner), || step().unwrap());
            assert_eq!((outer.count(), inner.count()), (0, 1));
            step().unwrap();
            outer.give_up();
            assert!(step().is_err());
        });
        assert!(step().is_ok() && current().is_none());
    }
}
