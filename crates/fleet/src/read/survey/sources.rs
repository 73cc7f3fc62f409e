//! Reading every source at once: each on its own thread, under its own patience and panic guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::{Memory, Progress, Reach, Scope};
use agentctl_files::Silent;
use agentctl_model::{Coverage, Harvest, KernelView};
use jiff::Timestamp;

use crate::Source;
use crate::read::query::Query;

/// What one source is asked, owned: a late thread may outlive the query.
#[derive(Debug, Clone)]
pub(crate) struct SourceRequest {
    sessions: Sessions,
    /// Token totals even where they cost a read of the whole transcript.
    usage: bool,
    subagents: bool,
    text_limit: Option<usize>,
}

/// Which sessions a source is asked for.
#[derive(Debug, Clone)]
pub(crate) enum Sessions {
    Live(Box<KernelView>),
    Ids(Vec<String>),
    All { since: Option<Timestamp> },
}

impl SourceRequest {
    pub(crate) fn new(query: &Query, sessions: Sessions) -> Self {
        Self { sessions, usage: query.usage, subagents: query.subagents, text_limit: query.text_limit() }
    }

    /// The same; whether token totals are wanted is said apart.
    pub(crate) fn counting(self, usage: bool) -> Self {
        Self { usage, ..self }
    }

    fn scope(&self, progress: Progress, memory: Option<Arc<Memory>>) -> Scope<'_> {
        let reach = match &self.sessions {
            Sessions::Live(kernel) => Reach::Live(kernel),
            Sessions::Ids(ids) => Reach::Ids(ids),
            Sessions::All { since } => Reach::All { since: *since },
        };
        let Self { usage, subagents, text_limit, .. } = *self;
        Scope { reach, usage, subagents, text_limit, progress, memory }
    }
}

/// What one source said, and how long it took.
pub(crate) struct SourceReading {
    pub(crate) harvest: Harvest,
    pub(crate) took: Duration,
}

impl SourceReading {
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

/// Asks every source; the answers come in the order of the requests. A source that shows no progress for its
/// timeout is abandoned with its thread and reported as timed out: it cannot hold up the others.
pub(crate) fn read_sources(
    requests: Vec<(Source, SourceRequest)>,
    memory: Option<&Arc<Memory>>,
) -> Vec<SourceReading> {
    let began = Instant::now();
    let timeouts: Vec<Duration> = requests.iter().map(|(source, _)| source.timeout).collect();
    let mut readings: Vec<Option<SourceReading>> = requests.iter().map(|_| None).collect();
    let mut waiting: Vec<Option<Waiting>> = Vec::new();
    let (answers, inbox) = channel();
    for (index, (source, request)) in requests.into_iter().enumerate() {
        let progress = Progress::awaited_for(source.timeout);
        waiting.push(Some(Waiting { progress: progress.clone(), seen: 0, moved: began }));
        let (answers, memory) = (answers.clone(), memory.cloned());
        std::thread::spawn(move || {
            let harvest = ask(&source, &request, progress, memory);
            // Nobody listens any more if this source was late.
            let _ = answers.send((index, harvest));
        });
    }
    while let Some(deadline) = next_deadline(&waiting, &timeouts) {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((index, harvest)) => {
                // Whoever was given up on has stopped in the middle: what it brings late is not the whole of it.
                if waiting[index].take().is_some() {
                    readings[index] = Some(SourceReading { harvest, took: began.elapsed() });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                give_up_on_the_silent(&mut waiting, &timeouts, &mut readings, began);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    readings.into_iter().map(|one| one.unwrap_or_else(|| lost(began))).collect()
}

fn ask(source: &Source, request: &SourceRequest, progress: Progress, memory: Option<Arc<Memory>>) -> Harvest {
    let scope = request.scope(progress, memory);
    // The address of a gateway is no place.
    let root = &source.root.path;
    if root.is_absolute()
        && let Err(silent @ Silent::Stuck) = agentctl_files::is_folder_within(root)
    {
        return Harvest::nothing(Coverage::Failed { error: format!("{} {silent}", root.display()) });
    }
    let survey = || with_cancellation(Some(&scope.progress), || source.adapter.survey(&source.root, &scope));
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
    readings: &mut [Option<SourceReading>],
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
            readings[index] = Some(SourceReading { harvest, took: began.elapsed() });
            one.progress.give_up();
            *slot = None;
        }
    }
}

fn lost(began: Instant) -> SourceReading {
    let error = "the source's thread ended without an answer".to_owned();
    SourceReading { harvest: Harvest::nothing(Coverage::Failed { error }), took: began.elapsed() }
}
