//! Finds a tool call near the end of a rollout: what the model wanted, in whole, while it waits for a person.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use super::records::{Record, Said};
use crate::transcript::jsonl::open::open_regular;
use crate::transcript::jsonl::{Scan, scan_back};

/// A call that waits is among the last records, whatever the calls beside it print.
const FARTHEST: u64 = 1 << 20;

struct Search<'a> {
    id: &'a str,
    found: Option<String>,
}

impl Scan for Search<'_> {
    fn line(&mut self, line: &[u8], _: u64) -> ControlFlow<()> {
        let Some(record) = Record::parse(line) else { return ControlFlow::Continue(()) };
        match record.said(&record.payload()) {
            Said::Call { id: Some(id), words } if id == self.id => {
                self.found = Some(words);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn wants_more(&mut self, distance: u64) -> bool {
        distance < FARTHEST
    }
}

/// The call with this id in words; `None` if it is not near the end.
pub(crate) fn call_in_words(rollout: &Path, id: &str) -> io::Result<Option<String>> {
    let opened = open_regular(rollout)?;
    let mut search = Search { id, found: None };
    scan_back(&opened.file, opened.size, &mut search)?;
    Ok(search.found)
}
