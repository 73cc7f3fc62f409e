//! The server as a command sees it: connected once, when it is needed first, and used by every thread of the command.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State as ServerState;
use async_nats::{Client, Request, RequestErrorKind};
use tokio::runtime::Runtime;

use super::dial::{Manner, ServerWords, dial};
use super::settings::NatsSettings;
use crate::failure::{RoadFailure, Step};

/// The server, if it is needed.
#[derive(Debug)]
pub struct BusDoor {
    pub settings: NatsSettings,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Shut,
    Open(Arc<Bus>),
    /// Why there is no connection, and when that was tried.
    Failed(RoadFailure, Instant),
}

/// How long a server that could not be reached is not tried again: one command does not wait for it twice.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

impl BusDoor {
    pub fn new(settings: NatsSettings) -> Arc<Self> {
        Arc::new(Self { settings, state: Mutex::new(State::Shut) })
    }

    /// The connection, or why there is none. Whoever asks meanwhile waits for the same try.
    pub fn open(&self) -> Result<Arc<Bus>, RoadFailure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open(bus) => return Ok(bus.clone()),
            State::Failed(failure, at) if at.elapsed() < BETWEEN_TRIES => return Err(failure.clone()),
            State::Shut | State::Failed(..) => {}
        }
        match Bus::connect(&self.settings) {
            Ok(bus) => {
                let bus = Arc::new(bus);
                *state = State::Open(bus.clone());
                Ok(bus)
            }
            Err(failure) => {
                *state = State::Failed(failure.clone(), Instant::now());
                Err(failure)
            }
        }
    }
}

/// A connection to the server, for threads.
#[derive(Debug)]
pub struct Bus {
    pub(super) runtime: Runtime,
    pub(super) line: Arc<Line>,
}

/// The connection itself. Tasks of the runtime hold this and never the runtime.
pub(super) struct Line {
    pub(super) client: Client,
    words: ServerWords,
    pub(super) settings: NatsSettings,
}

impl fmt::Debug for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Line").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// The server knows that nobody listens.
    NobodyListens,
    /// Somebody may listen, and said nothing in time.
    Silent,
    /// The server forbids it, in its own words.
    Forbidden(String),
    Failed(String),
}

impl Bus {
    fn connect(settings: &NatsSettings) -> Result<Self, RoadFailure> {
        let unstarted = |error: std::io::Error| {
            RoadFailure::new(Step::Connect, format!("no thread for the bus: {error}"))
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .enable_all()
            .build()
            .map_err(unstarted)?;
        let manner = Manner { user: &settings.asker, stays: false, tell: None };
        let dialled = runtime.block_on(async {
            // The client bounds each of its steps; all of them together are bounded here.
            tokio::time::timeout(2 * settings.timeout, dial(settings, manner)).await
        });
        let late = || {
            RoadFailure::new(Step::Connect, format!("{} does not answer in time", settings.url))
                .hint("is the server up, and the way to it open?")
        };
        let (client, words) = dialled.map_err(|_| late())??;
        Ok(Self { runtime, line: Arc::new(Line { client, words, settings: settings.clone() }) })
    }

    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Line {
    /// Sends a request and waits for its one answer, or for the server to say that it is not let through.
    pub(super) async fn request(
        &self,
        subject: String,
        payload: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, Unanswered> {
        let request = Request::new().payload(payload.into()).timeout(Some(timeout));
        // What was said before is not about this request: rights change.
        let mut words = self.words.clone();
        words.mark_unchanged();
        let refused = async {
            while words.changed().await.is_ok() {
                if let Some(why) = about(&subject, words.borrow().as_deref()) {
                    return why;
                }
            }
            std::future::pending().await
        };
        let answered = tokio::select! {
            answered = self.client.send_request(subject.clone(), request) => answered,
            why = refused => return Err(why),
        };
        match answered {
            Ok(message) => Ok(message.payload.into()),
            Err(error) => Err(match error.kind() {
                RequestErrorKind::NoResponders => Unanswered::NobodyListens,
                RequestErrorKind::TimedOut if self.client.connection_state() != ServerState::Connected => {
                    Unanswered::Failed("no server answers".to_owned())
                }
                RequestErrorKind::TimedOut => Unanswered::Silent,
                _ => Unanswered::Failed(error.to_string()),
            }),
        }
    }

    /// What the server said against this subject, if that is why there is no answer.
    pub(super) fn forbidden(&self, subject: &str) -> Option<Unanswered> {
        about(subject, self.words.borrow().as_deref())
    }
}

/// What the server said, if it is against this subject.
fn about(subject: &str, words: Option<&str>) -> Option<Unanswered> {
    let words = words.filter(|words| words.contains(subject))?;
    Some(Unanswered::Forbidden(agentctl_model::text::one_line(words)))
}
