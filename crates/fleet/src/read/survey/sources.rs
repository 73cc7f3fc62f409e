//! Reads all sources at once, each on its own thread, with its own timeout and panic guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_adapters::cancel::with_cancellation;
use agentctl_adapters::{Memory, Progress, Reach, Scope};
use agentctl_files::NoAnswer;
use agentctl_model::{Coverage, Harvest, KernelView};
use jiff::Timestamp;

use crate::Source;
use crate::read::query::Query;

/// What one source is asked. It owns its data, because a late thread may outlive the query.
#[derive(Debug, Clone)]
pub(crate) struct SourceRequest {
    sessions: Sessions,
    /// Report token totals even where that costs a read of the whole transcript.
    usage: bool,
    /// Report every single model call too.
    calls: bool,
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
        Self {
            sessions,
            usage: query.usage,
            calls: query.calls,
            subagents: query.subagents,
            text_limit: query.text_limit(),
        }
    }

    /// Returns the same request with this choice about token totals.
    pub(crate) fn counting(self, usage: bool) -> Self {
        Self { usage, calls: self.calls && usage, ..self }
    }

    fn scope(&self, progress: Progress, memory: Option<Arc<Memory>>) -> Scope<'_> {
        let reach = match &self.sessions {
            Sessions::Live(kernel) => Reach::Live(kernel),
            Sessions::Ids(ids) => Reach::Ids(ids),
            Sessions::All { since } => Reach::All { since: *since },
        };
        let Self { usage, calls, subagents, text_limit, .. } = *self;
        Scope { reach, usage, calls, subagents, text_limit, progress, memory }
    }
}

/// What one source returned, and how long it took.
pub(crate) struct SourceReading {
    pub(crate) harvest: Harvest,
    pub(crate) took: Duration,
}

impl SourceReading {
    /// Whether the source said anything about its sessions.
    pub(crate) fn has_answered(&self) -> bool {
        matches!(self.harvest.coverage, Coverage::Complete | Coverage::Partial)
    }
}

struct Waiting {
    progress: Progress,
    seen: u64,
    moved: Instant,
}

/// Reads every source and returns the readings in the order of the requests. A source that makes no progress for its
/// timeout is abandoned with its thread and reported as timed out, so that it cannot delay the others.
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
            // The receiver is gone if this source was late.
            let _ = answers.send((index, harvest));
        });
    }
    while let Some(deadline) = next_deadline(&waiting, &timeouts) {
        match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok((index, harvest)) => {
                // A source that was given up on stops in the middle, so what it sends late is not complete.
                if waiting[index].take().is_some() {
                    readings[index] = Some(SourceReading { harvest, took: began.elapsed() });
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                give_up_on_stalled(&mut waiting, &timeouts, &mut readings, began);
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    readings.into_iter().map(|one| one.unwrap_or_else(|| lost(began))).collect()
}

fn ask(source: &Source, request: &SourceRequest, progress: Progress, memory: Option<Arc<Memory>>) -> Harvest {
    let scope = request.scope(progress, memory);
    // The address of a gateway is no directory.
    let root = &source.root.path;
    if root.is_absolute()
        && let Err(silent @ NoAnswer::Stuck) = agentctl_files::is_folder_within(root)
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

fn give_up_on_stalled(
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
