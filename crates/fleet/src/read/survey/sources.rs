//! Reads all sources at once, each on its own thread, with its own timeout and panic guard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use agentctl_adapters::cancel::{given_up, with_cancellation};
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

/// Reads every source and returns the readings in the order of the requests.
pub(crate) fn read_sources(
    requests: Vec<(Source, SourceRequest)>,
    memory: Option<&Arc<Memory>>,
) -> Vec<SourceReading> {
    let (sources, requests): (Vec<Source>, Vec<SourceRequest>) = requests.into_iter().unzip();
    let memory = memory.cloned();
    let survey = move |index: usize, source: &Source, progress: Progress| {
        let scope = requests[index].scope(progress, memory.clone());
        source.adapter.survey(&source.root, &scope)
    };
    let heard = hear(sources, survey, Harvest::nothing);
    heard.into_iter().map(|(harvest, took)| SourceReading { harvest, took }).collect()
}

/// How often it is looked whether the caller still waits, if he is one who may give up.
const GLANCE: Duration = Duration::from_millis(5);

/// Asks every source on a thread of its own and returns the answers in the order of the sources, each with how long it
/// took. A source that makes no progress for its timeout is abandoned with its thread, so that it cannot delay the
/// others; what stands for its answer is `silent`.
pub(crate) fn hear<T: Send + 'static>(
    sources: Vec<Source>,
    ask: impl Fn(usize, &Source, Progress) -> T + Send + Sync + 'static,
    silent: fn(Coverage) -> T,
) -> Vec<(T, Duration)> {
    let began = Instant::now();
    let timeouts: Vec<Duration> = sources.iter().map(|source| source.timeout).collect();
    let mut heard: Vec<Option<(T, Duration)>> = sources.iter().map(|_| None).collect();
    let mut waiting: Vec<Option<Waiting>> = Vec::new();
    let (answers, inbox) = channel();
    let ask = Arc::new(ask);
    for (index, source) in sources.into_iter().enumerate() {
        let progress = Progress::awaited_for(source.timeout);
        waiting.push(Some(Waiting { progress: progress.clone(), seen: 0, moved: began }));
        let (answers, ask) = (answers.clone(), Arc::clone(&ask));
        std::thread::spawn(move || {
            let answer = guarded(&source, || {
                with_cancellation(Some(&progress.clone()), || ask(index, &source, progress))
            });
            // The receiver is gone if this source was late.
            let _ = answers.send((index, answer.unwrap_or_else(silent)));
        });
    }
    drop(answers);
    while let Some(deadline) = next_deadline(&waiting, &timeouts) {
        let patience = deadline.saturating_duration_since(Instant::now());
        let patience = given_up().map_or(patience, |_| patience.min(GLANCE));
        match inbox.recv_timeout(patience) {
            Ok((index, answer)) => {
                // A source that was given up on stops in the middle, so what it sends late is not complete.
                if waiting[index].take().is_some() {
                    heard[index] = Some((answer, began.elapsed()));
                }
            }
            Err(RecvTimeoutError::Timeout) if given_up() == Some(true) => {
                waiting.iter().flatten().for_each(|one| one.progress.give_up());
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                for (index, after_ms) in stalled(&mut waiting, &timeouts) {
                    heard[index] = Some((silent(Coverage::TimedOut { after_ms }), began.elapsed()));
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let lost = || {
        let error = "the source's thread ended without an answer".to_owned();
        (silent(Coverage::Failed { error }), began.elapsed())
    };
    heard.into_iter().map(|one| one.unwrap_or_else(lost)).collect()
}

/// What a source answers; an error says why it cannot be heard.
fn guarded<T>(source: &Source, ask: impl FnOnce() -> T) -> Result<T, Coverage> {
    // The address of a gateway is no directory.
    let root = &source.root.path;
    if root.is_absolute()
        && let Err(silent @ NoAnswer::Stuck) = agentctl_files::is_folder_within(root)
    {
        return Err(Coverage::Failed { error: format!("{} {silent}", root.display()) });
    }
    catch_unwind(AssertUnwindSafe(ask)).map_err(|panic| {
        let words = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Coverage::Failed { error: format!("the adapter panicked: {words}") }
    })
}

fn next_deadline(waiting: &[Option<Waiting>], timeouts: &[Duration]) -> Option<Instant> {
    let deadlines =
        waiting.iter().zip(timeouts).filter_map(|(one, timeout)| one.as_ref().map(|w| w.moved + *timeout));
    deadlines.min()
}

/// Gives up on the sources that have stood still for too long; returns each with how long that was.
fn stalled(waiting: &mut [Option<Waiting>], timeouts: &[Duration]) -> Vec<(usize, u64)> {
    let now = Instant::now();
    let mut stalled = Vec::new();
    for (index, slot) in waiting.iter_mut().enumerate() {
        let Some(one) = slot else { continue };
        let count = one.progress.count();
        if count != one.seen {
            one.seen = count;
            one.moved = now;
        } else if now >= one.moved + timeouts[index] {
            one.progress.give_up();
            stalled.push((index, u64::try_from(timeouts[index].as_millis()).unwrap_or(u64::MAX)));
            *slot = None;
        }
    }
    stalled
}
