//! The place of one file's reading in the memory of a process that lives long.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Format, ReadEnds, Reading};
use crate::Scope;
use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::{Counted, Memory};
use crate::transcript::readings::{Asked, FileState};

pub(super) struct Place<'m> {
    memory: &'m Memory,
    path: &'m Path,
    asked: Asked,
    /// Totals are wanted. Those of a whole file have a memory of their own.
    usage: bool,
    /// Before anything was read.
    began: Timestamp,
}

impl<'m> Place<'m> {
    /// `None` where nothing is remembered: without a memory, and for whole texts.
    pub(super) fn of<F: Format>(format: &F, path: &'m Path, scope: &'m Scope<'_>) -> Option<Self> {
        let memory = scope.memory.as_deref()?;
        let asked = Asked::of::<Remembered<Reading<F>>>(format.form(), scope.text_limit?);
        let asked = asked.with_totals(scope.usage, scope.calls);
        Some(Self { memory, path, asked, usage: scope.usage, began: memory.now() })
    }

    /// What was read of the file when it was in this state.
    pub(super) fn recall<F: Format>(&self, state: FileState) -> Option<Reading<F>> {
        let known: Arc<Remembered<Reading<F>>> =
            self.memory.readings.recall(self.path, self.asked, state, self.began)?;
        let counted = if known.without_totals { Some(self.memory.recall(self.path, state)?) } else { None };
        agentctl_files::trace::touched(self.path, agentctl_files::trace::Touched::File);
        let reading = Arc::unwrap_or_clone(known).reading;
        Some(match counted {
            Some(counted) => ReadEnds { counted, ..reading },
            None => reading,
        })
    }

    pub(super) fn keep<H, T>(&self, opened: &Opened, reading: &ReadEnds<H, T>)
    where
        ReadEnds<H, T>: std::fmt::Debug + Clone + Send + Sync + 'static,
    {
        let found = (opened.state, &opened.file);
        let mut reading = reading.clone();
        // A file that was not counted has nothing in the other memory.
        let without_totals = self.usage && reading.counted != Counted::default();
        if without_totals {
            reading.counted = Counted::default();
        }
        let remembered = Remembered { reading, without_totals };
        self.memory.readings.keep(self.path, self.asked, found, self.began, remembered);
    }
}

/// A reading as it is kept.
#[derive(Debug, Clone)]
struct Remembered<R> {
    reading: R,
    /// The totals are to be added from the memory of counted files, where they share their calls with others.
    without_totals: bool,
}
