//! Slate is a relative of OpenCode that stores sessions and messages as JSON files, and a trace of each
//! session's steps.
//!
//! Only what was observed with 1.0.45 is read: no model could be reached, so a successful turn was never
//! observed.

mod records;
mod session;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::{Capability, Coverage, Entry, Harvest, Joined, KernelView, ProcessHead};

use crate::agents::opencode::join;
use crate::agents::opencode::processes::Program;
use crate::agents::opencode::storage::selection::Selection;
use crate::agents::opencode::storage::tree::SessionPath;
use crate::{Adapter, Card, Conversation, Follow, ReadError, Root, Scope};

pub struct Slate;

static CARD: Card = Card::new("slate", "Slate")
    .programs(&["slate"])
    .home_inside("XDG_DATA_HOME", ".local/share", "slate")
    .capabilities(&[Capability::Peek])
    .known_good("1.0.45")
    // Its model traffic goes only to the vendor: storage and errors were observed, a finished turn was not.
    .unverified();

const SLATE: Program = Program { natives: &["slate"], scripts: &["slate", "slate.js"] };

impl Adapter for Slate {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn survey(&self, root: &Root, scope: &Scope<'_>) -> Harvest {
        let failed = |error: io::Error| {
            Harvest::nothing(match error.kind() {
                io::ErrorKind::NotFound => Coverage::NotInstalled,
                _ => Coverage::Failed { error: format!("{}: {error}", root.path.display()) },
            })
        };
        if let Err(error) = agentctl_files::entries(&root.path) {
            return failed(error);
        }
        let selection = Selection::new(&SLATE, scope, |process| self.leads_to(root, process));
        if selection.reaches_nothing() {
            return Harvest::complete(Vec::new());
        }
        match selection.files(&root.path.join("storage")) {
            Ok(files) => read_all(&root.path, &selection, files),
            Err(error) => failed(error),
        }
    }

    fn recognises(&self, head: &ProcessHead) -> bool {
        SLATE.is(head)
    }

    fn join(&self, root: &Root, harvest: &Harvest, kernel: &KernelView) -> Joined {
        join::join(&SLATE, harvest, kernel, |process| self.is_ours(root, kernel, process))
    }

    fn read(&self, place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
        let mut entries = session::entries(place, id)?;
        entries.drain(..entries.len().saturating_sub(limit));
        Ok(entries.into_iter().map(|(_, entry)| entry).collect())
    }

    fn conversation(&self, place: &Path, id: &str) -> Conversation<'_> {
        let (place, id) = (place.to_owned(), id.to_owned());
        Conversation::records(move |_| session::entries(&place, &id))
    }

    fn follow(&self, place: &Path, id: &str, backlog: usize) -> Result<Box<dyn Follow>, ReadError> {
        let follower = Follower {
            place: place.to_owned(),
            id: id.to_owned(),
            given: HashSet::new(),
            backlog: Some(backlog),
        };
        Ok(Box::new(follower))
    }
}

fn read_all(data: &Path, selection: &Selection<'_, '_>, files: Vec<SessionPath>) -> Harvest {
    let mut harvest = Harvest::complete(Vec::new());
    let wanted = selection.read_heads(files, session::head, |error| harvest.left_out(error));
    for (head, path) in wanted {
        selection.scope.progress.tick();
        match session::read(data, path.clone(), head, selection.scope) {
            Ok((found, is_damaged)) => {
                harvest.found.push(found);
                if is_damaged {
                    harvest.warnings.push(format!("{}: has a damaged record", path.display()));
                }
            }
            Err(error) => harvest.left_out(format!("{}: {error}", path.display())),
        }
    }
    harvest
}

/// Messages are rewritten in place, so entries that were already returned are remembered by name.
struct Follower {
    place: PathBuf,
    id: String,
    given: HashSet<String>,
    backlog: Option<usize>,
}

impl Follow for Follower {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        let entries = session::entries(&self.place, &self.id)?;
        let skipped = self.backlog.take().map_or(0, |backlog| entries.len().saturating_sub(backlog));
        let mut fresh = Vec::new();
        for (index, (key, entry)) in entries.into_iter().enumerate() {
            if self.given.insert(key) && index >= skipped {
                fresh.push(entry);
            }
        }
        Ok(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_processes_are_told_by_name_and_script() {
        use crate::agents::opencode::processes::Kind;
        let head = |argv: &[&str]| crate::join::scene::head("", argv);
        assert_eq!(SLATE.kind(&head(&["/x/bin/slate", "run", "hi", "--yolo"])), Kind::Run);
        assert_eq!(SLATE.kind(&head(&["node", "/x/bin/slate", "run"])), Kind::Wrapper);
        assert_eq!(SLATE.kind(&head(&["slate", "serve", "--host", "127.0.0.1"])), Kind::Server);
        assert!(!SLATE.is(&head(&["vim", "/x/slate"])) && !SLATE.is(&head(&["opencode"])));
    }
}
