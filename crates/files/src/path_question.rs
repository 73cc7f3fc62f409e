//! Questions about paths whose file system may never answer, because its network is down or the program that serves it
//! hangs. The kernel does not let us interrupt such a read, not even by killing the process. So if any mounted file system
//! is served by another program or machine, a helper process reads the path, and is abandoned when it does not answer.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::helper_process::{Helper, name_at, waiting};
use super::mounts::Served;

/// The timeout for the first path that does not answer. Each further one gets half of the previous timeout, down to
/// [`MIN_TIMEOUT`], so all of them together cost hardly more than a second.
const FIRST_TIMEOUT: Duration = Duration::from_millis(400);
const MIN_TIMEOUT: Duration = Duration::from_millis(25);

/// At most this many helpers of this process may be stuck. While there are that many, no further question is asked.
const MAX_STUCK: usize = 16;

/// At most this many helpers of this user may wait for one mount, whichever command started them. While there are that many,
/// the mount counts as stuck without a question, so a command that is run again and again leaves no more of them behind.
const MAX_PER_MOUNT: usize = 4;

/// At most this many idle helpers are kept for the next questions.
const MAX_IDLE: usize = 4;

/// A question about a path. It is answered in this process or in a helper, so it may use nothing but the path.
#[derive(Debug)]
pub struct Question {
    pub name: &'static str,
    pub answer: fn(&Path) -> Option<Vec<u8>>,
}

/// Why a question about a path has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// The file system does not answer.
    Stuck,
    /// The question was not asked: too many other paths do not answer, or no helper could be started.
    NotAsked,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Stuck => "is on a file system that does not answer",
            Self::NotAsked => "was not looked at: too many other places do not answer",
        })
    }
}

/// The path without links and dots, as bytes.
pub static REAL_PATH: Question = Question {
    name: "real-path",
    answer: |path| Some(std::fs::canonicalize(path).ok()?.as_os_str().as_bytes().to_vec()),
};

/// Whether the path is a directory: the answer is then empty, not `None`.
pub static IS_FOLDER: Question = Question { name: "is-folder", answer: |path| path.is_dir().then(Vec::new) };

struct Stuck {
    helper: Helper,
    /// No path below this one is asked about.
    place: PathBuf,
}

struct State {
    idle: Vec<Helper>,
    stuck: Vec<Stuck>,
    /// How many helpers of this user waited at the last count, by name.
    waiting: Option<HashMap<String, usize>>,
}

static STATE: Mutex<State> = Mutex::new(State { idle: Vec::new(), stuck: Vec::new(), waiting: None });

static USE_HELPER: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets [`within`] use a helper process. A program calls this if it runs [`run_helper`](crate::run_helper) when it is started as a
/// helper; without it, the questions are answered in this process.
pub fn use_helper_process() {
    USE_HELPER.store(true, Ordering::Relaxed);
}

/// Asks a question about a path, and gives up when no answer comes before the timeout.
///
/// While a helper is stuck in a mount, no further question is asked about that mount (or about the path itself, if only a
/// link leads to the mount): the result is [`NoAnswer`] at once.
pub fn within(place: &Path, question: &Question) -> Result<Option<Vec<u8>>, NoAnswer> {
    let served = Served::now();
    let is_safe = served.as_ref().is_some_and(Served::is_empty);
    if is_safe || !USE_HELPER.load(Ordering::Relaxed) {
        return Ok((question.answer)(place));
    }
    let around = served.as_ref().and_then(|served| served.around(place)).unwrap_or(place);
    let (idle, timeout) = {
        let mut state = state();
        state.end_those_that_answered();
        let is_stuck = state.stuck.iter().any(|stuck| place.starts_with(&stuck.place));
        if is_stuck || state.is_crowded(around) {
            return Err(NoAnswer::Stuck);
        }
        if state.stuck.len() >= MAX_STUCK {
            return Err(NoAnswer::NotAsked);
        }
        let halvings = u32::try_from(state.stuck.len()).unwrap_or(u32::MAX);
        (state.idle.pop(), (FIRST_TIMEOUT / (1 << halvings.min(16))).max(MIN_TIMEOUT))
    };
    let mut helper = match idle {
        Some(helper) => helper,
        None => Helper::start().map_err(|_| NoAnswer::NotAsked)?,
    };
    let answer = helper.ask(question.name, (place, around), timeout);
    let mut state = state();
    let Ok(answer) = answer else {
        state.stuck.push(Stuck { helper, place: around.to_owned() });
        return Err(NoAnswer::Stuck);
    };
    if state.idle.len() < MAX_IDLE {
        state.idle.push(helper);
    } else {
        drop(state);
        helper.end();
    }
    Ok(answer)
}

/// The path without links and dots; `None` when it does not exist or its file system does not answer.
pub fn real_path_within(path: &Path) -> Option<PathBuf> {
    within(path, &REAL_PATH).ok().flatten().map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

/// Whether the path is a directory.
pub fn is_folder_within(path: &Path) -> Result<bool, NoAnswer> {
    within(path, &IS_FOLDER).map(|answer| answer.is_some())
}

/// Kills the helpers, as far as that is possible, so that a caller that waits for this process waits for no other.
pub fn end_helpers() {
    let mut state = state();
    state.idle.clear();
    state.stuck.drain(..).for_each(|stuck| stuck.helper.end());
}

impl State {
    /// Whether the maximum number of helpers already wait for this mount. An earlier count is repeated before it leads to
    /// that answer.
    fn is_crowded(&mut self, around: &Path) -> bool {
        let name = name_at(around);
        let is_crowded =
            |waiting: &HashMap<String, usize>| waiting.get(&name).is_some_and(|n| *n >= MAX_PER_MOUNT);
        if self.waiting.as_ref().is_none_or(is_crowded) {
            self.waiting = Some(waiting());
        }
        self.waiting.as_ref().is_some_and(is_crowded)
    }

    fn end_those_that_answered(&mut self) {
        for stuck in std::mem::take(&mut self.stuck) {
            let Stuck { mut helper, place } = stuck;
            if helper.is_stuck() {
                self.stuck.push(Stuck { helper, place });
            } else {
                helper.end();
            }
        }
    }
}
