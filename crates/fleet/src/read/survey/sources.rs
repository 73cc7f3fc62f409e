//! Hearing every source at once: each on its own thread, under its own patience and panic guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_adapters::cancel::on_behalf_of;
use agentctl_adapters::{Memory, Progress, Reach, Scope};
use agentctl_files::Silent;
use agentctl_model::{Coverage, Harvest, KernelView};
use jiff::Timestamp;

use crate::{Question, Source};

/// Which sessions a source is asked for, owned: a late thread may outlive the question.
#[derive(Debug, Clone)]
pub(crate) enum Errand {
    Live(Box<KernelView>),
    Ids(Vec<String>),
    All { since: Option<Timestamp> },
}

/// What one source said, and how long it took.
pub(crate) struct Heard {
    pub(crate) harvest: Harvest,
    pub(crate) took: Duration,
}

impl Heard {
    /// Whether anything can be said of its sessions.
    pub(crate) fn has_answered(&self) -> bool {
        matches!(self.harvest.coverage, Coverage::Complete | Coverage::Partial)
    }
}

struct Waiting {
    progress: Progress,
    seen: u64,
    moved: Instant,
}

/// Asks every source; the answers come in the order of the errands. A source that shows no progress for its
/// timeout is abandoned with its thread and reported as timed out: it cannot hold up the others.
pub(crate) fn hear(
    errands: Vec<(Source, Errand)>,
    question: &Question,
    memory: Option<&Arc<Memory>>,
) -> Vec<Heard> {
    let began = Instant::now();
    let timeouts: Vec<Duration> = errands.iter().map(|(source, _)| source.timeout).collect();
    let mut heard: Vec<Option<Heard>> = errands.iter().map(|_| None).collect();
    let mut waiting: Vec<Option<Waiting>> = Vec::new();
    let (answers, inbox) = channel();
    for (index, (source, errand)) in errands.into_iter().enumerate() {
        let progress = Progress::awaited_for(source.timeout);
        waiting.push(Some(Waiting { progress: progress.clone(), seen: 0, moved: began }));
        let (answers, question, memory) = (answers.clone(), question.clone(), memory.cloned());
        std::thread::spawn(move || {
            let harvest = ask(&source, &errand, &question, progress, memory);
            // Nobody listens any more if this source was late.
            let _ = answers.send((index, harvest));
        });
    }
    while let Some(deadline) = next_deadline(&waiting, &timeouts) {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((index, harvest)) => {
                // Whoever was given up on has stopped in the middle: what it brings late is not the whole of it.
                if waiting[index].take().is_some() {
                    heard[index] = Some(Heard { harvest, took: began.elapsed() });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                give_up_on_the_silent(&mut waiting, &timeouts, &mut heard, began);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    heard.into_iter().map(|one| one.unwrap_or_else(|| lost(began))).collect()
}

fn ask(
    source: &Source,
    errand: &Errand,
    question: &Question,
    progress: Progress,
    memory: Option<Arc<Memory>>,
) -> Harvest {
    let reach = match errand {
        Errand::Live(kernel) => Reach::Live(kernel),
        Errand::Ids(ids) => Reach::Ids(ids),
        Errand::All { since } => Reach::All { since: *since },
    };
    let scope = Scope {
        reach,
        usage: question.usage,
        subagents: question.subagents,
        text_limit: question.text_limit(),
        progress,
        memory,
    };
    // The address of a gateway is no place.
    let root = &source.root.path;
    if root.is_absolute()
        && let Err(silent @ Silent::Stuck) = agentctl_files::is_folder_within(root)
    {
        return Harvest::nothing(Coverage::Failed { error: format!("{} {silent}", root.display()) });
    }
    let survey = || on_behalf_of(Some(&scope.progress), || source.adapter.survey(&source.root, &scope));
    catch_unwind(AssertUnwindSafe(survey)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Harvest::nothing(Coverage::Failed { error: format!("the adapter panicked: {words}") })
    })
}

fn next_deadline(waiting: &[Option<Waiting>], timeouts: &[Duration]) -> Option<Instant> {
    let deadlines =
        waiting.iter().zip(timeouts).filter_map(|(one, timeout)| one.as_ref().map(|w| w.moved + *timeout));
    deadlines.min()
}

fn give_up_on_the_silent(
    waiting: &mut [Option<Waiting>],
    timeouts: &[Duration],
    heard: &mut [Option<Heard>],
    began: Instant,
) {
    let now = Instant::now();
    for (index, slot) in waiting.iter_mut().enumerate() {
        let Some(one) = slot else { continue };
        let count = one.progress.count();
        if count != one.seen {
            one.seen = count;
            one.moved = now;
        } else if now >= one.moved + timeouts[index] {
            let after_ms = u64::try_from(timeouts[index].as_millis()).unwrap_or(u64::MAX);
            let harvest = Harvest::nothing(Coverage::TimedOut { after_ms });
            heard[index] = Some(Heard { harvest, took: began.elapsed() });
            one.progress.give_up();
            *slot = None;
        }
    }
}

fn lost(began: Instant) -> Heard {
    let error = "the source's thread ended without an answer".to_owned();
    Heard { harvest: Harvest::nothing(Coverage::Failed { error }), took: began.elapsed() }
}
