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

/// Dropped with its feed; the thread sees it and ends.
struct Wanted(Arc<AtomicBool>);

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Feeds {
    /// Listens to exactly these.
    pub(crate) fn listen_to(&mut self, lines: Vec<SourceLine>, shared: &Arc<Shared>) {
        let mut before = std::mem::take(&mut self.open);
        for SourceLine { adapter, root, line } in lines {
            let name = (adapter, root, line.name);
            let wanted = before.remove(&name).or_else(|| {
                let wanted = Arc::new(AtomicBool::new(true));
                let (shared, still) = (shared.clone(), wanted.clone());
                let title = format!("{adapter} at {}", name.1.path.display());
                let thread = std::thread::Builder::new().name("feed".into());
                thread.spawn(move || keep(line.feed, &title, &shared, &still)).ok()?;
                Some(Wanted(wanted))
            });
            if let Some(wanted) = wanted {
                self.open.insert(name, wanted);
            }
        }
    }
}

fn keep(mut feed: Box<dyn Feed>, title: &str, shared: &Shared, wanted: &AtomicBool) {
    let ring = || {
        shared.live.pulse();
        shared.live.bell.ring();
    };
    let mut pause = FIRST_PAUSE;
    let mut complaint = None;
    while wanted.load(Ordering::Relaxed) {
        match feed.next(PATIENCE) {
            Ok(news) => {
                if complaint.take().is_some() {
                    shared.log.say(&format!("{title} is heard again"));
                }
                pause = FIRST_PAUSE;
                if news == News::Changed {
                    ring();
                }
            }
            Err(lost) => {
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
