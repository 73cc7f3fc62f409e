//! What comes to the screen, each from a thread of its own: lists, conversations, and what deeds answered.

mod deeds;
mod looks;
mod questions;
mod quiet;
mod words;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use agentctl_fleet::{Purpose, UsageAnswer};
use agentctl_model::{Entry, Error};
use jiff::Timestamp;
use ratatui::crossterm::event::KeyEvent;

use super::Scene;
use super::keys::{Deed, Question};
use super::rows::Key;
use super::state::{Part, State};
use super::terminal::Signal;
use crate::cli::host_args::HostArgs;
use crate::cli::target::{Machines, NarrowingArgs};
use crate::failure::Failure;
use crate::link::SessionFinder;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::style::Colour;
use crate::surroundings::clock;

/// One thing that the drawing thread is told.
pub(crate) enum News {
    Key(KeyEvent),
    Paste(String),
    Signal(Signal),
    /// What one machine, or the bus, says.
    Part {
        name: String,
        part: Part,
    },
    Daemon {
        is_lost: bool,
    },
    Words {
        of: Key,
        told: Result<Vec<Entry>, String>,
    },
    Done {
        number: u64,
        told: Result<String, String>,
    },
    Usage {
        by: usize,
        answer: Result<Box<UsageAnswer>, String>,
    },
    Sheet {
        of: Question,
        told: Result<Vec<String>, String>,
    },
    /// A thread is gone that should have gone on looking: what it looked at, and why.
    Broken(String),
}

pub(crate) struct Feed {
    scene: Arc<Scene>,
    to: Sender<News>,
    words: words::Reader,
    number: AtomicU64,
}

impl Feed {
    pub(crate) fn start(scene: &Arc<Scene>, to: Sender<News>) -> Result<Self, Failure> {
        looks::start(scene, &to)?;
        let words = words::Reader::start(scene, to.clone());
        Ok(Self { scene: scene.clone(), to, words, number: AtomicU64::new(0) })
    }

    #[expect(clippy::unused_self, reason = "the clock is one of the things that come to the screen")]
    pub(crate) fn now(&self) -> Timestamp {
        clock()
    }

    /// The conversation that the screen has room for is read, again when its session has changed.
    pub(crate) fn wants(&self, state: &State) {
        self.words.wants(state);
    }

    /// Begins a deed. Returns its number and what is said until it is answered.
    pub(crate) fn carry_out(&self, deed: Deed) -> (u64, String) {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let words = deeds::doing(&deed);
        let (scene, to) = (self.scene.clone(), self.to.clone());
        std::thread::spawn(move || {
            let told = guarded(|| deeds::carry_out(deed, &scene));
            let _ = to.send(News::Done { number, told });
        });
        (number, words)
    }

    pub(crate) fn ask(&self, question: Question) {
        let (scene, to) = (self.scene.clone(), self.to.clone());
        std::thread::spawn(move || {
            let _ = to.send(questions::answer(question, &scene));
        });
    }

    /// The command that leads to the terminal of a session.
    pub(crate) fn way_to(&self, key: &Key) -> Option<Vec<String>> {
        let program = self.scene.surroundings.own_program().ok()?.to_string_lossy().into_owned();
        Some(way_to(&program, key))
    }
}

/// The folder is named where the id stands twice, as every deed does.
fn way_to(program: &str, key: &Key) -> Vec<String> {
    let id = if is_here(key) { key.id.clone() } else { format!("{}/{}", key.host, key.id) };
    let words = [program, "attach", &id, "--adapter", &key.adapter, "--root", &key.root];
    let folder = key.variant.iter().flat_map(|folder| ["--cwd", folder]);
    words.into_iter().chain(folder).map(str::to_owned).collect()
}

/// Starts what looks again and again. When it is gone its rows stay on the screen as they were, so its end is told.
fn watched(what: &str, to: &Sender<News>, look: impl FnOnce() + Send + 'static) {
    let (what, to) = (what.to_owned(), to.clone());
    std::thread::spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(look)) {
            let _ = to.send(News::Broken(format!("{what} any more; start it anew ({})", words_of(&*panic))));
        }
    });
}

/// What was answered, or why not: also when this program is wrong, because somebody waits for the answer.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(told) => told.map_err(said),
        Err(panic) => {
            Err(format!("agentctl failed at it ({}); what came of it is not known", words_of(&*panic)))
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

/// Whether a session is on this machine.
fn is_here(key: &Key) -> bool {
    key.host.is_empty() || key.host == agentctl_fleet::own_name()
}

/// Finds a session of the list again.
fn locate(
    key: &Key,
    purpose: Purpose,
    finder: &impl SessionFinder,
    scene: &Scene,
) -> Result<Located, Failure> {
    let surroundings = scene.surroundings.anew();
    let out = Output::new(&surroundings, Colour::Never);
    let hosts = HostArgs::named((!is_here(key)).then(|| key.host.clone()));
    let machines = Machines::of(&hosts, purpose, &surroundings)?;
    let cwd = key.variant.as_ref().map(Into::into);
    let narrowed = NarrowingArgs::by(Some(key.adapter.clone()), Some(key.root.clone().into()), cwd);
    narrowed.locate(&key.id, purpose, &machines, finder, &surroundings, &out)
}

/// An error in one line, with what to do next.
fn said(failure: Failure) -> String {
    let Error { message, hint, .. } = failure.into_error();
    match hint {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_session_names_its_folder_where_its_id_stands_twice() {
        let key = Key {
            host: String::new(),
            adapter: "pi".into(),
            root: "/r".into(),
            id: "a".into(),
            variant: None,
        };
        let words = "agentctl attach a --adapter pi --root /r";
        assert_eq!(way_to("agentctl", &key).join(" "), words);
        let twin = Key { variant: Some("/w".into()), ..key };
        assert_eq!(way_to("agentctl", &twin).join(" "), format!("{words} --cwd /w"));
    }

    #[test]
    fn a_deed_at_which_this_program_fails_is_answered_too() {
        assert_eq!(guarded(|| Ok(7)), Ok(7));
        let failed = guarded(|| -> Result<(), Failure> { panic!("broken {}", 1) }).unwrap_err();
        assert!(failed.contains("(broken 1)"), "{failed}");
        let (to, news) = std::sync::mpsc::channel();
        watched("agentctl does not look", &to, || panic!("broken"));
        let Ok(News::Broken(words)) = news.recv() else { panic!("its end is told") };
        assert_eq!(words, "agentctl does not look any more; start it anew (broken)");
    }
}
