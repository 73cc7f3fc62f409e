//! The place of one file's reading in the memory of a process that lives long.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Format, ReadEnds, Reading};
use crate::Scope;
use crate::transcript::jsonl::open::Opened;
use crate::transcript::memory::Memory;
use crate::transcript::readings::{Asked, FileState};

pub(super) struct Place<'m> {
    memory: &'m Memory,
    path: &'m Path,
    asked: Asked,
    /// Before anything was read.
    began: Timestamp,
}

impl<'m> Place<'m> {
    /// `None` where nothing is remembered: without a memory, for whole texts, and where the whole file is counted, which
    /// has a memory of its own.
    pub(super) fn of<F: Format>(format: &F, path: &'m Path, scope: &'m Scope<'_>) -> Option<Self> {
        let memory = scope.memory.as_deref().filter(|_| !scope.usage && !scope.calls)?;
        let asked = Asked::of::<ReadEnds<F::Head, F::Tail>>(format.form(), scope.text_limit?);
        Some(Self { memory, path, asked, began: memory.now() })
    }

    /// What was read of the file, if the file has not changed since.
    pub(super) fn recall<F: Format>(&self) -> Option<Arc<Reading<F>>> {
        let state = FileState::of(&self.path.metadata().ok()?);
        let reading = self.memory.readings.recall(self.path, self.asked, state, self.began)?;
        agentctl_files::trace::touched(self.path, agentctl_files::trace::Touched::File);
        Some(reading)
    }

    pub(super) fn keep<H, T>(&self, opened: &Opened, reading: &ReadEnds<H, T>)
    where
        ReadEnds<H, T>: std::fmt::Debug + Clone + Send + Sync + 'static,
    {
        let found = (opened.state, &opened.file);
        self.memory.readings.keep(self.path, self.asked, found, self.began, reading.clone());
    }
}
