//! Questions about paths whose file system may never answer: a network that is gone, a program that serves files and hangs.
//! The kernel lets nobody interrupt that, not even to end the process. So where any file system is mounted that somebody
//! else serves, such a question is asked by a process of its own, which can be left behind.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::looker::{Looker, name_at, waiting};
use super::mounts::Served;

/// How long the first silent place is waited for. Each further one gets half of it, down to the least: all of them together
/// cost hardly more than a second, however many there are.
const PATIENCE: Duration = Duration::from_millis(400);
const LEAST: Duration = Duration::from_millis(25);

/// So many processes of this one may be stuck. From then on nothing is asked before one of them comes back.
const MOST_STUCK: usize = 16;

/// So many processes of this user may wait for one place, whichever command they were started by. From then on it is silent
/// without being asked, so that a command which is run again and again leaves no more of them.
const MOST_AT_ONE: usize = 4;

/// So many are kept for the next questions.
const MOST_IDLE: usize = 4;

/// What can be asked of a place. It is answered here or in another process, so that it has nothing but the path.
#[derive(Debug)]
pub struct Question {
    pub name: &'static str,
    pub answer: fn(&Path) -> Option<Vec<u8>>,
}

/// Nothing is known of this place now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silent {
    /// Its file system does not answer.
    Stuck,
    /// It was not asked: so many others do not answer, or no process could be started.
    NotAsked,
}

impl fmt::Display for Silent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Stuck => "is on a file system that does not answer",
            Self::NotAsked => "was not looked at: too many other places do not answer",
        })
    }
}

/// Where it really is, as bytes of a path.
pub static REAL_PATH: Question = Question {
    name: "real-path",
    answer: |path| Some(std::fs::canonicalize(path).ok()?.as_os_str().as_bytes().to_vec()),
};

/// Whether a folder is there: an empty answer when there is.
pub static IS_FOLDER: Question = Question { name: "is-folder", answer: |path| path.is_dir().then(Vec::new) };

struct Stuck {
    looker: Looker,
    /// Everything below it is not asked about.
    place: PathBuf,
}

struct State {
    idle: Vec<Looker>,
    stuck: Vec<Stuck>,
    /// Who waited when it was last looked, by name.
    waiting: Option<HashMap<String, usize>>,
}

static STATE: Mutex<State> = Mutex::new(State { idle: Vec::new(), stuck: Vec::new(), waiting: None });

static HAS_LOOKER: AtomicBool = AtomicBool::new(false);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This program [answers](crate::answer) when it is started as one that looks. Unless it says so, it looks by itself.
pub fn look_by_another_process() {
    HAS_LOOKER.store(true, Ordering::Relaxed);
}

/// Asks, and gives it up when no answer comes.
///
/// The mount in which a process is still stuck (or the place itself, where only a link leads to such a mount) is not asked
/// about again before that process came back: the answer is then [`Silent`] at once.
pub fn within(place: &Path, question: &Question) -> Result<Option<Vec<u8>>, Silent> {
    let served = Served::now();
    let is_safe = served.as_ref().is_some_and(Served::is_empty);
    if is_safe || !HAS_LOOKER.load(Ordering::Relaxed) {
        return Ok((question.answer)(place));
    }
    let around = served.as_ref().and_then(|served| served.around(place)).unwrap_or(place);
    let (idle, patience) = {
        let mut state = state();
        state.forget_those_that_came_back();
        let is_stuck = state.stuck.iter().any(|stuck| place.starts_with(&stuck.place));
        if is_stuck || state.is_crowded(around) {
            return Err(Silent::Stuck);
        }
        if state.stuck.len() >= MOST_STUCK {
            return Err(Silent::NotAsked);
        }
        let halvings = u32::try_from(state.stuck.len()).unwrap_or(u32::MAX);
        (state.idle.pop(), (PATIENCE / (1 << halvings.min(16))).max(LEAST))
    };
    let mut looker = match idle {
        Some(looker) => looker,
        None => Looker::start().map_err(|_| Silent::NotAsked)?,
    };
    let answer = looker.ask(question.name, (place, around), patience);
    let mut state = state();
    let Ok(answer) = answer else {
        state.stuck.push(Stuck { looker, place: around.to_owned() });
        return Err(Silent::Stuck);
    };
    if state.idle.len() < MOST_IDLE {
        state.idle.push(looker);
    } else {
        drop(state);
        looker.end();
    }
    Ok(answer)
}

/// The path without links and dots; `None` when nothing is there, or nothing is known of it.
pub fn real_path_within(path: &Path) -> Option<PathBuf> {
    within(path, &REAL_PATH).ok().flatten().map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
}

/// Whether a folder is there.
pub fn is_folder_within(path: &Path) -> Result<bool, Silent> {
    within(path, &IS_FOLDER).map(|answer| answer.is_some())
}

/// Ends the processes that look, where they can be ended: whoever waits for this one waits for nobody else.
pub fn leave() {
    let mut state = state();
    state.idle.clear();
    state.stuck.drain(..).for_each(|stuck| stuck.looker.end());
}

impl State {
    /// Whether enough processes wait for this place already. What was seen long ago is looked at anew before it counts.
    fn is_crowded(&mut self, around: &Path) -> bool {
        let name = name_at(around);
        let is_crowded =
            |waiting: &HashMap<String, usize>| waiting.get(&name).is_some_and(|n| *n >= MOST_AT_ONE);
        if self.waiting.as_ref().is_none_or(is_crowded) {
            self.waiting = Some(waiting());
        }
        self.waiting.as_ref().is_some_and(is_crowded)
    }

    fn forget_those_that_came_back(&mut self) {
        for stuck in std::mem::take(&mut self.stuck) {
            let Stuck { mut looker, place } = stuck;
            if looker.is_stuck() {
                self.stuck.push(Stuck { looker, place });
            } else {
                looker.end();
            }
        }
    }
}
