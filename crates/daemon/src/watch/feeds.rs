//! Listens to servers that announce changes by themselves, with one thread and one connection for each.
//!
//! A message only wakes the live view, which then surveys as usual. A lost connection wakes it too, so that
//! the failed source shows at once; the connection is retried after a growing pause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agentctl_adapters::feed::FeedMessage;
use agentctl_adapters::{Feed, Root};
use agentctl_fleet::SourceLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Shared;

/// How long a thread waits for a message before it checks whether its feed is still wanted.
const TIMEOUT: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server cannot postpone the next connection for longer than this.
const LONGEST_WISH: Duration = Duration::from_mins(10);
/// How often a pausing thread checks whether its feed is still wanted.
const SLICE: Duration = Duration::from_secs(1);
/// The shortest pause, even for a server that asks for an immediate reconnect: it may do so every time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

type Name = (&'static str, Root, String);

/// The open feeds. Each stays open until it is no longer wanted or this is dropped.
#[derive(Default)]
pub(crate) struct Feeds {
    open: BTreeMap<Name, Wanted>,
}

/// The state that a feed shares with its thread.
struct FeedState {
    wanted: AtomicBool,
    /// Whether a message came, or could have come, since the connection was last lost.
    heard: AtomicBool,
    /// How often the server was found restarted.
    restarts: AtomicU64,
}

/// Ends the thread of a feed when it is dropped.
struct Wanted(Arc<FeedState>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Relaxed);
    }
}

/// One server that is listened to, for `daemon status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedStatus {
    pub adapter: String,
    /// Its address, or whatever tells it from the others of its agent.
    pub name: String,
    /// False while it cannot be reached; it is tried again.
    pub heard: bool,
    /// How often it was met started anew, by the name that it gives to each of its lives.
    #[serde(default)]
    pub restarts: u64,
}

impl Feeds {
    pub(crate) fn status(&self) -> Vec<FeedStatus> {
        let status = |((adapter, _, name), feed): (&Name, &Wanted)| FeedStatus {
            adapter: (*adapter).to_owned(),
            name: name.clone(),
            heard: feed.0.heard.load(Ordering::Relaxed),
            restarts: feed.0.restarts.load(Ordering::Relaxed),
        };
        self.open.iter().map(status).collect()
    }

    /// Whether this agent has servers and all of them are connected. Then none of its changes goes
    /// unannounced.
    pub(crate) fn all_connected(&self, adapter: &str) -> bool {
        let mut of_adapter = self.open.iter().filter(|((name, ..), _)| *name == adapter).peekable();
        of_adapter.peek().is_some() && of_adapter.all(|(_, feed)| feed.0.heard.load(Ordering::Relaxed))
    }

    /// Listens to exactly these servers.
    pub(crate) fn listen_to(&mut self, lines: Vec<SourceLine>, shared: &Arc<Shared>) {
        let mut before = std::mem::take(&mut self.open);
        for SourceLine { adapter, root, hosted, line } in lines {
            let name = (adapter, root, line.name);
            let wanted = before.remove(&name).or_else(|| {
                let state = Arc::new(FeedState {
                    wanted: AtomicBool::new(true),
                    heard: AtomicBool::new(false),
                    restarts: AtomicU64::new(0),
                });
                let (shared, kept) = (shared.clone(), state.clone());
                let title = format!("{adapter} at {}", name.1.path.display());
                let thread = std::thread::Builder::new().name("feed".into());
                thread.spawn(move || follow(line.feed, &title, hosted, &shared, &kept)).ok()?;
                Some(Wanted(state))
            });
            if let Some(wanted) = wanted {
                self.open.insert(name, wanted);
            }
        }
    }
}

fn follow(mut feed: Box<dyn Feed>, title: &str, hosted: bool, shared: &Shared, state: &FeedState) {
    let wake = || {
        shared.live.count_change();
        let waker = if hosted { &shared.live.remote_waker } else { &shared.live.waker };
        waker.wake();
    };
    let mut pause = FIRST_PAUSE;
    let mut complaint = None;
    let mut since = Instant::now();
    while state.wanted.load(Ordering::Relaxed) {
        match feed.next(TIMEOUT) {
            Ok(news) => {
                state.heard.store(true, Ordering::Relaxed);
                if complaint.take().is_some() {
                    shared.log.say(&format!("{title} is heard again"));
                }
                // The pause is only reset after a connection that lasted: a server that accepts and closes at
                // once keeps its growing pauses.
                if since.elapsed() > pause {
                    pause = FIRST_PAUSE;
                }
                if news == FeedMessage::Restarted {
                    state.restarts.fetch_add(1, Ordering::Relaxed);
                    shared.log.say(&format!("{title} was started anew, everything is read again"));
                }
                if news != FeedMessage::Nothing {
                    wake();
                }
            }
            Err(lost) => {
                state.heard.store(false, Ordering::Relaxed);
                // Each reason is logged once, however often the connection is retried; the survey that
                // follows reports it for the source.
                if complaint.as_ref() != Some(&lost.why) {
                    shared.log.say(&format!("{title} tells nothing now: {lost}"));
                    wake();
                    complaint = Some(lost.why);
                }
                let rest = lost.retry_in.map_or(pause, |wish| wish.clamp(SHORTEST_PAUSE, LONGEST_WISH));
                let until = Instant::now() + rest;
                while state.wanted.load(Ordering::Relaxed) && Instant::now() < until {
                    std::thread::sleep(SLICE.min(until.saturating_duration_since(Instant::now())));
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                since = Instant::now();
            }
        }
    }
}
