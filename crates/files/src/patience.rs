//! Work on paths whose file system may never answer: a network that is gone, a program that serves files and hangs. The
//! kernel lets nobody interrupt that, so it is done on a thread that can be left behind.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long the first silent place is waited for. Each further one gets half of it, down to the least: all of them together
/// cost hardly more than a second, however many there are.
const PATIENCE: Duration = Duration::from_millis(400);
const LEAST: Duration = Duration::from_millis(25);

/// So many threads may be stuck. From then on nothing is tried before one of them comes back.
const MOST_STUCK: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// What a thread is stuck in.
struct Stuck {
    number: u64,
    place: PathBuf,
}

struct State {
    /// Threads with nothing to do, by the way to give them work. One that was left behind is not among them any more.
    idle: Vec<Sender<Job>>,
    stuck: Vec<Stuck>,
    next: u64,
}

static STATE: Mutex<State> = Mutex::new(State { idle: Vec::new(), stuck: Vec::new(), next: 0 });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does the work, and gives it up when it does not come back. `None`: nothing is known of this place now.
///
/// A place in which a thread is still stuck, and everything below it, is not tried again before that thread came back: then
/// `None` is the answer at once.
pub fn within<T: Send + 'static>(place: &Path, work: impl FnOnce(&Path) -> T + Send + 'static) -> Option<T> {
    let (worker, number, patience) = {
        let mut state = state();
        let is_stuck = state.stuck.iter().any(|stuck| place.starts_with(&stuck.place));
        if is_stuck || state.stuck.len() >= MOST_STUCK {
            return None;
        }
        let halvings = u32::try_from(state.stuck.len()).unwrap_or(u32::MAX);
        let patience = PATIENCE.checked_div(1 << halvings.min(16)).unwrap_or(LEAST).max(LEAST);
        state.next += 1;
        (state.idle.pop(), state.next, patience)
    };
    let worker = worker.map_or_else(hire, Some)?;
    let (tell, told) = channel();
    let at = place.to_owned();
    let job: Job = Box::new(move || {
        let back = Back(number);
        let answer = work(&at);
        let mut state = state();
        let _ = tell.send(answer);
        back.forget_in(&mut state);
    });
    worker.send(job).ok()?;
    let answer = match told.recv_timeout(patience) {
        Ok(answer) => answer,
        // It panicked, and the thread is gone.
        Err(RecvTimeoutError::Disconnected) => return None,
        Err(RecvTimeoutError::Timeout) => {
            // Whoever answers does so under this lock: it has answered, or it will find its name here.
            let mut state = state();
            let Ok(answer) = told.try_recv() else {
                state.stuck.push(Stuck { number, place: place.to_owned() });
                return None;
            };
            answer
        }
    };
    state().idle.push(worker);
    Some(answer)
}

/// A thread is back, however its work ended.
struct Back(u64);

impl Back {
    fn forget_in(&self, state: &mut State) {
        state.stuck.retain(|stuck| stuck.number != self.0);
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        if thread::panicking() {
            self.forget_in(&mut state());
        }
    }
}

/// A thread that works until nobody can give it work any more. `None`: there is none to be had.
fn hire() -> Option<Sender<Job>> {
    let (give, jobs): (Sender<Job>, Receiver<Job>) = channel();
    let work = move || jobs.into_iter().for_each(|job| job());
    thread::Builder::new().name("paths".to_owned()).spawn(work).ok()?;
    Some(give)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    /// The machine may be too busy for a place that answers; then it is asked again.
    fn heard_at_last(place: &Path) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while within(place, |_| 7) != Some(7) {
            assert!(Instant::now() < deadline, "{} is not heard", place.display());
        }
    }

    fn wait_for_stuck(count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while state().stuck.len() != count {
            assert!(Instant::now() < deadline, "{} are stuck, not {count}", state().stuck.len());
            thread::yield_now();
        }
    }

    /// One test, since all of them would share the threads that are stuck.
    #[test]
    fn what_hangs_is_given_up_once_and_tried_again_when_it_came_back() {
        let place = Path::new("/hung/one");
        heard_at_last(place);
        let began = Instant::now();
        let (release, released) = mpsc::channel::<()>();
        assert_eq!(within(place, move |_| released.recv().is_ok()), None);
        // Another place is not held up.
        heard_at_last(Path::new("/other"));
        wait_for_stuck(1);
        for below in ["/hung/one", "/hung/one/below"] {
            assert_eq!(within(Path::new(below), |_| 7), None, "a thread is stuck there");
        }
        assert_eq!(state().stuck.len(), 1, "and no second one was sent after it");
        // Many of them cost hardly more than one, and no more than so many threads.
        let mut held = Vec::new();
        for number in 0..2 * MOST_STUCK {
            let (release, released) = mpsc::channel::<()>();
            let place = PathBuf::from(format!("/hung/many/{number}"));
            assert_eq!(within(&place, move |_| released.recv().is_ok()), None);
            held.push(release);
        }
        assert_eq!(state().stuck.len(), MOST_STUCK);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        drop((release, held));
        wait_for_stuck(0);
        heard_at_last(place);
        assert_eq!(within(place, |_| -> u8 { panic!("on purpose") }), None);
        // A panic is nobody else's trouble.
        heard_at_last(place);
    }
}
