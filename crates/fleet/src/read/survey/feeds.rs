//! Lists the servers that announce changes by themselves.

use std::cell::OnceCell;

use agentctl_adapters::{Line, Root};

use crate::Fleet;
use crate::hold::HoldFeed;
use crate::read::survey::kernel::KernelSnapshot;

/// One server of one source. Two values mean the same server if everything but the feed is equal.
pub struct SourceLine {
    pub adapter: &'static str,
    /// This includes its keys, because a changed key needs a new connection.
    pub root: Root,
    /// Its sessions live in that server.
    pub hosted: bool,
    pub line: Line,
}

impl Fleet {
    /// Returns every server that can be subscribed to now. The kernel is read only for adapters that need it.
    pub fn lines(&self) -> Vec<SourceLine> {
        let snapshot: OnceCell<KernelSnapshot> = OnceCell::new();
        let ledger = self.ledger();
        let mut lines = Vec::new();
        for source in &self.sources {
            let view = || {
                let snapshot =
                    snapshot.get_or_init(|| KernelSnapshot::take_of(self.kernel.as_ref(), self.past()));
                snapshot.view(self.kernel.as_ref(), source, None, &ledger)
            };
            let of_source = source.adapter.lines(&source.root, &view);
            let named = |line| SourceLine {
                adapter: source.name(),
                root: source.root.clone(),
                hosted: source.adapter.gateway().is_some(),
                line,
            };
            let root = source.root.path.to_string_lossy();
            let held = ledger.held(source.name(), &root);
            let held = held.map(|folder| {
                let path = folder.path().to_owned();
                Line::new(path.to_string_lossy(), HoldFeed::of(path.clone()))
            });
            lines.extend(of_source.into_iter().chain(held).map(named));
        }
        lines
    }
}
