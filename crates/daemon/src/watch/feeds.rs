//! Listening to servers that tell by themselves when something changes: one thread and one connection each.
//!
//! News only rings the bell of the live view, which then looks as it always does. A server that is lost rings it too, so
//! that the failed source is seen at once; it is tried again after a pause that grows.

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

/// How long a thread waits for news before it asks whether anybody still wants them.
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server does not decide that it is never heard again.
const LONGEST_WISH: Duration = Duration::from_mins(10);
/// How often a thread at rest asks whether anybody still wants it.
const SLICE: Duration = Duration::from_secs(1);
/// Even a server that wants us back at once gets so much time: it may say so every time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

type Name = (&'static str, Root, String);

/// What is listened to, each until it is not wanted any more or this is dropped.
#[derive(Default)]
pub(crate) struct Feeds {
    open: BTreeMap<Name, Wanted>,
}

/// What a feed and the thread that keeps it know of each other.
struct Standing {
    wanted: AtomicBool,
    /// Something came, or could have come, since it was lost last.
    heard: AtomicBool,
    /// How often it was met started anew.
    restarts: AtomicU64,
}

/// Dropped with its feed; the thread sees it and ends.
struct Wanted(Arc<Standing>);

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

    /// Whether this agent has servers and every one of them is heard: then nothing of it changes in silence.
    pub(crate) fn hears_all_of(&self, adapter: &str) -> bool {
        let mut of_adapter = self.open.iter().filter(|((name, ..), _)| *name == adapter).peekable();
        of_adapter.peek().is_some() && of_adapter.all(|(_, feed)| feed.0.heard.load(Ordering::Relaxed))
    }

    /// Listens to exactly these.
    pub(crate) fn listen_to(&mut self, lines: Vec<SourceLine>, shared: &Arc<Shared>) {
        let mut before = std::mem::take(&mut self.open);
        for SourceLine { adapter, root, hosted, line } in lines {
            let name = (adapter, root, line.name);
            let wanted = before.remove(&name).or_else(|| {
                let standing = Arc::new(Standing {
                    wanted: AtomicBool::new(true),
                    heard: AtomicBool::new(false),
                    restarts: AtomicU64::new(0),
                });
                let (shared, kept) = (shared.clone(), standing.clone());
                let title = format!("{adapter} at {}", name.1.path.display());
                let thread = std::thread::Builder::new().name("feed".into());
                thread.spawn(move || keep(line.feed, &title, hosted, &shared, &kept)).ok()?;
                Some(Wanted(standing))
            });
            if let Some(wanted) = wanted {
                self.open.insert(name, wanted);
            }
        }
    }
}

fn keep(mut feed: Box<dyn Feed>, title: &str, hosted: bool, shared: &Shared, standing: &Standing) {
    let ring = || {
        shared.live.pulse();
        let bell = if hosted { &shared.live.far_bell } else { &shared.live.bell };
        bell.ring();
    };
    let mut pause = FIRST_PAUSE;
    let mut complaint = None;
    let mut since = Instant::now();
    while standing.wanted.load(Ordering::Relaxed) {
        match feed.next(PATIENCE) {
            Ok(news) => {
                standing.heard.store(true, Ordering::Relaxed);
                if complaint.take().is_some() {
                    shared.log.say(&format!("{title} is heard again"));
                }
                // One that greets and closes at once is not there for longer each time it is tried.
                if since.elapsed() > pause {
                    pause = FIRST_PAUSE;
                }
                if news == FeedMessage::Restarted {
                    standing.restarts.fetch_add(1, Ordering::Relaxed);
                    shared.log.say(&format!("{title} was started anew, everything is read again"));
                }
                if news != FeedMessage::Nothing {
                    ring();
                }
            }
            Err(lost) => {
                standing.heard.store(false, Ordering::Relaxed);
                // Said once for each reason, however often it is tried; the look that follows says it of the source.
                if complaint.as_ref() != Some(&lost.why) {
                    shared.log.say(&format!("{title} tells nothing now: {lost}"));
                    ring();
                    complaint = Some(lost.why);
                }
                let rest = lost.retry_in.map_or(pause, |wish| wish.clamp(SHORTEST_PAUSE, LONGEST_WISH));
                let until = Instant::now() + rest;
                while standing.wanted.load(Ordering::Relaxed) && Instant::now() < until {
                    std::thread::sleep(SLICE.min(until.saturating_duration_since(Instant::now())));
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
                since = Instant::now();
            }
        }
    }
}
