//! What agentctl itself was told to keep: locks and timers. What was acknowledged is there until it is taken back; what a
//! fault cut off may be there or not, and then stays as it was first seen.

use std::collections::BTreeMap;

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Yes,
    No,
    Maybe,
}

#[derive(Default)]
pub(crate) struct Book {
    known: BTreeMap<String, Kept>,
    pub(crate) acknowledged: usize,
}

impl Book {
    /// Something was put in, or taken out; `code` is the exit code of the command that did it.
    pub(crate) fn note(&mut self, folder: &str, put: bool, code: Option<i32>) {
        let before = self.known.get(folder).copied().unwrap_or(Kept::No);
        let wanted = if put { Kept::Yes } else { Kept::No };
        let now = match code {
            Some(0) => {
                self.acknowledged += 1;
                wanted
            }
            // It may have been done before the fault, unless it was so already.
            _ if before == wanted => before,
            _ => Kept::Maybe,
        };
        self.known.insert(folder.to_owned(), now);
    }

    pub(crate) fn kept(&self) -> Vec<String> {
        self.known.iter().filter(|(_, kept)| **kept == Kept::Yes).map(|(folder, _)| folder.clone()).collect()
    }

    /// Compares with what is shown; what was open is settled by it.
    pub(crate) fn check(&mut self, what: &str, shown: &Value) -> Result<(), String> {
        let shown: Vec<&str> =
            shown.as_array().unwrap().iter().filter_map(|one| one["directory"].as_str()).collect();
        for (folder, kept) in &mut self.known {
            let is_there = shown.contains(&folder.as_str());
            match (*kept, is_there) {
                (Kept::Yes, false) => return Err(format!("{what} of {folder} was acknowledged and is lost")),
                (Kept::No, true) => return Err(format!("{what} of {folder} was taken back and is there")),
                (_, true) => *kept = Kept::Yes,
                (_, false) => *kept = Kept::No,
            }
        }
        match shown.iter().find(|folder| !self.known.contains_key(**folder)) {
            Some(folder) => Err(format!("{what} of {folder} was never asked for")),
            None => Ok(()),
        }
    }
}
