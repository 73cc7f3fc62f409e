//! Which servers tell by themselves when something changes.

use std::cell::OnceCell;

use agentctl_adapters::{Line, Root};

use crate::Fleet;
use crate::read::survey::kernel::KernelSnapshot;

/// One server of one source. It is the same one as long as all but the feed are equal.
pub struct SourceLine {
    pub adapter: &'static str,
    /// With its keys: a changed key needs a new connection.
    pub root: Root,
    /// Its sessions live in that server.
    pub hosted: bool,
    pub line: Line,
}

impl Fleet {
    /// Every server that can be listened to now. The kernel is looked at only for adapters that need it.
    pub fn lines(&self) -> Vec<SourceLine> {
        let look: OnceCell<KernelSnapshot> = OnceCell::new();
        let mut lines = Vec::new();
        for source in &self.sources {
            let view = || {
                let look = look.get_or_init(|| KernelSnapshot::take(self.kernel.as_ref()));
                look.view(self.kernel.as_ref(), source, None, &self.ledger())
            };
            let of_source = source.adapter.lines(&source.root, &view);
            let named = |line| SourceLine {
                adapter: source.name(),
                root: source.root.clone(),
                hosted: source.adapter.gateway().is_some(),
                line,
            };
            lines.extend(of_source.into_iter().map(named));
        }
        lines
    }
}
