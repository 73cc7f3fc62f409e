//! The conversation of the row under the cursor. Only the newest wish counts: who moves fast is not waited for.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_fleet::Purpose;
use agentctl_model::Entry;
use jiff::Timestamp;

use super::{News, guarded, locate};
use crate::failure::Failure;
use crate::link::Link;
use crate::top::Scene;
use crate::top::rows::Key;
use crate::top::state::{State, View};

/// How many entries are read for the detail, and for the whole conversation.
const SOME: usize = 30;
const MANY: usize = 1000;
/// How often an open conversation is read again.
const LIVE: Duration = Duration::from_secs(1);

/// What is to be read.
#[derive(Debug, Clone, PartialEq)]
struct Wish {
    key: Key,
    count: usize,
    /// What changes when something was said.
    updated: (Option<Timestamp>, agentctl_model::Status, Option<String>),
}

pub(super) struct Reader {
    to: Sender<Wish>,
    last: Mutex<Option<Wish>>,
}

impl Reader {
    pub(super) fn start(scene: &Arc<Scene>, to: Sender<News>) -> Self {
        let (wishes, wanted) = channel();
        let scene = scene.clone();
        std::thread::spawn(move || read(&wanted, &scene, &to));
        Self { to: wishes, last: Mutex::default() }
    }

    pub(super) fn wants(&self, state: &State) {
        let Some(row) = state.selected() else { return };
        let session = &row.session;
        let wish = Wish {
            key: row.key.clone(),
            count: if state.view == View::Conversation { MANY } else { SOME },
            updated: (session.updated_at, session.status, session.last_message.clone()),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&wish) {
            *last = Some(wish.clone());
            let _ = self.to.send(wish);
        }
    }
}

fn read(wanted: &Receiver<Wish>, scene: &Scene, to: &Sender<News>) {
    let mut wish: Option<Wish> = None;
    let mut told: Option<(Key, Result<Vec<Entry>, String>)> = None;
    loop {
        // An open conversation is live; a detail waits until its session has changed.
        let next = if wish.as_ref().is_some_and(|wish| wish.count == MANY) {
            wanted.recv_timeout(LIVE)
        } else {
            wanted.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match next {
            Ok(next) => wish = Some(wanted.try_iter().last().unwrap_or(next)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(wish) = &wish else { continue };
        let entries = guarded(|| entries(wish, scene));
        let now = (wish.key.clone(), entries);
        if told.as_ref() == Some(&now) {
            continue;
        }
        let (of, entries) = now.clone();
        told = Some(now);
        if to.send(News::Words { of, told: entries }).is_err() {
            return;
        }
    }
}

fn entries(wish: &Wish, scene: &Scene) -> Result<Vec<Entry>, Failure> {
    let link = Link::open(&scene.surroundings.anew())?;
    let located = locate(&wish.key, Purpose::Read, &link, scene)?;
    located.entries(&link.fleet, wish.count)
}
