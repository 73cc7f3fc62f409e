//! Listening to servers that tell by themselves when something changes: one thread and one connection each.
//!
//! News only rings the bell of the live view, which then looks as it always does. A server that is lost rings it too, so
//! that the failed source is seen at once; it is tried again after a pause that grows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agentctl_adapters::feed::News;
use agentctl_adapters::{Feed, Root};
use agentctl_fleet::SourceLine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shared::Shared;

/// How long a thread waits for news before it asks whether anybody still wants them.
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
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
}

impl Feeds {
    pub(crate) fn status(&self) -> Vec<FeedStatus> {
        let status = |((adapter, _, name), feed): (&Name, &Wanted)| FeedStatus {
            adapter: (*adapter).to_owned(),
            name: name.clone(),
            heard: feed.0.heard.load(Ordering::Relaxed),
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
        for SourceLine { adapter, root, line } in lines {
            let name = (adapter, root, line.name);
            let wanted = before.remove(&name).or_else(|| {
                let standing =
                    Arc::new(Standing { wanted: AtomicBool::new(true), heard: AtomicBool::new(false) });
                let (shared, kept) = (shared.clone(), standing.clone());
                let title = format!("{adapter} at {}", name.1.path.display());
                let thread = std::thread::Builder::new().name("feed".into());
                thread.spawn(move || keep(line.feed, &title, &shared, &kept)).ok()?;
                Some(Wanted(standing))
            });
            if let Some(wanted) = wanted {
                self.open.insert(name, wanted);
            }
        }
    }
}

fn keep(mut feed: Box<dyn Feed>, title: &str, shared: &Shared, standing: &Standing) {
    let ring = || {
        shared.live.pulse();
        shared.live.bell.ring();
    };
    let mut pause = FIRST_PAUSE;
    let mut complaint = None;
    while standing.wanted.load(Ordering::Relaxed) {
        match feed.next(PATIENCE) {
            Ok(news) => {
                standing.heard.store(true, Ordering::Relaxed);
                if complaint.take().is_some() {
                    shared.log.say(&format!("{title} is heard again"));
                }
                pause = FIRST_PAUSE;
                if news == News::Changed {
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
                std::thread::sleep(lost.retry_in.unwrap_or(pause).max(SHORTEST_PAUSE));
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}
