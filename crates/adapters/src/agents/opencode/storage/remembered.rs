//! What was read of the sessions of a database, remembered for as long as it is proven that nobody wrote to it.
//!
//! The database is opened and the rows of its sessions are selected for each question. Only the messages of a session are not
//! read again. Dropping any of it at any moment costs a read and changes no answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::Scope;
use crate::agents::opencode::conversation::session::{Head, ReadSession};
use crate::sqlite::Database;
use crate::sqlite::proof::{Proof, held};
use crate::transcript::memory::Memory;
use crate::transcript::readings::Asked;

type Sessions = HashMap<String, Arc<(Head, ReadSession)>>;

/// The sessions of a database in one state.
#[derive(Debug)]
struct Kept {
    proof: Proof,
    sessions: Sessions,
}

pub(super) struct Remembered<'m> {
    memory: &'m Memory,
    path: &'m Path,
    asked: Asked,
    /// Before any message was read.
    began: Timestamp,
    proof: Proof,
    known: Option<Arc<Kept>>,
}

impl<'m> Remembered<'m> {
    /// To be called after the first read of the connection, which decides what content it has. `None` where nothing is
    /// remembered: without a memory, for whole texts, and while somebody writes.
    pub(super) fn of(path: &'m Path, database: &Database<'_>, scope: &'m Scope<'_>) -> Option<Self> {
        let memory = scope.memory.as_deref()?;
        let asked = Asked::of::<Kept>(0, scope.text_limit?).with_totals(scope.usage, scope.calls);
        let began = memory.now();
        let proof = database.proof.filter(|proof| proof.is_settled_at(began) && proof.holds(path))?;
        let known: Option<Arc<Kept>> = memory.readings.recall(path, asked, proof.main, began);
        let known = known.filter(|known| known.proof == proof);
        Some(Self { memory, path, asked, began, proof, known })
    }

    /// What was read of this session.
    pub(super) fn recall(&self, head: &Head) -> Option<ReadSession> {
        let known = self.known.as_ref()?.sessions.get(&head.id)?;
        (known.0 == *head).then(|| known.1.clone())
    }

    /// Keeps what was read beside what was known, if nobody wrote meanwhile.
    pub(super) fn keep<'r>(self, read: impl Iterator<Item = (&'r Head, &'r ReadSession)>) {
        let mut read = read.peekable();
        if read.peek().is_none() || !self.proof.holds(self.path) {
            return;
        }
        let Some(file) = held(self.path) else { return };
        let mut sessions = self.known.map(|known| known.sessions.clone()).unwrap_or_default();
        sessions.extend(read.map(|(head, read)| (head.id.clone(), Arc::new((head.clone(), read.clone())))));
        let kept = Kept { proof: self.proof, sessions };
        self.memory.readings.keep(self.path, self.asked, (self.proof.main, &file), self.began, kept);
    }
}

#[cfg(test)]
#[path = "remembered_tests.rs"]
mod tests;
