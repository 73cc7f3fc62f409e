//! Asks live owners themselves where an agent has a server that answers. All are asked at once, each with its own
//! deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Instant;

use agentctl_model::{Joined, KernelView};

use crate::Source;

/// Lets the adapters that can do so add their owners' answers to the claims. An owner that is late, fails or panics
/// changes nothing: its claims stay as they were joined.
pub(crate) fn ask_owners(joined: Vec<(&Source, KernelView, Joined)>) -> Vec<Joined> {
    let mut answers: Vec<Joined> = Vec::with_capacity(joined.len());
    let mut waiting = Vec::new();
    for (index, (source, view, joined)) in joined.into_iter().enumerate() {
        if source.adapter.card().can_be_asked && !joined.claims.is_empty() {
            let (answer, inbox) = channel();
            let (source, mut asked) = (source.clone(), joined.clone());
            waiting.push((index, Instant::now() + source.timeout, inbox));
            std::thread::spawn(move || {
                let ask = AssertUnwindSafe(|| source.adapter.ask(&source.root, &view, &mut asked));
                if catch_unwind(ask).is_ok() {
                    // The receiver is gone if the owner was late.
                    let _ = answer.send(asked);
                }
            });
        }
        answers.push(joined);
    }
    for (index, deadline, inbox) in waiting {
        if let Ok(asked) = inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            answers[index] = asked;
        }
    }
    answers
}
