//! The end of a conversation, read once or followed as it grows.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use agentctl_model::Entry;

use super::entries::{Named, entries};
use super::records::{Message, Part};
use super::session::Conversation;
use crate::agents::opencode::storage::database::{Stored, is_tree_file, sessions_with};
use crate::agents::opencode::storage::tree::Tree;
use crate::search::{MayFit, NamedEntries};
use crate::transcript::jsonl::follow::Follow;
use crate::transcript::show::shortened;
use crate::{ReadError, sqlite};

/// Larger parts are not shown: a tool's answer is cut to far less anyway.
const LARGEST_PART: u64 = 16 << 20;
/// How many messages back a follower searches for steps that were rewritten.
const REWRITTEN: usize = 12;

/// The last `limit` entries, oldest first.
pub(crate) fn read_last(place: &Path, id: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
    let enough = |shown: &[Named], _: usize| shown.len() >= limit;
    let mut last = newest(place, id, true, &enough, &|_| true)?;
    last.drain(..last.len().saturating_sub(limit));
    Ok(shortened(last.into_iter().map(|named| named.entry).collect()))
}

/// Every entry with its name, oldest first, with whole texts.
pub(crate) fn read_all(place: &Path, id: &str, may_fit: MayFit<'_>) -> Result<NamedEntries, ReadError> {
    let all = newest(place, id, true, &|_, _| false, may_fit)?;
    Ok(all.into_iter().map(|named| (named.key, named.entry)).collect())
}

/// The sessions of a database of which some record may fit, in one pass over all of them.
pub(crate) fn candidates(place: &Path, may_fit: MayFit<'_>) -> Result<HashSet<String>, ReadError> {
    sqlite::read(place, |database| sessions_with(database.connection, may_fit))
        .map_err(|error| ReadError::new(place, io::Error::other(error)))
}

/// The entries of the newest messages, oldest first: whole messages, until `enough` returns true.
fn newest(
    place: &Path,
    id: &str,
    settled: bool,
    enough: &dyn Fn(&[Named], usize) -> bool,
    may_fit: MayFit<'_>,
) -> Result<Vec<Named>, ReadError> {
    let failed = |error: io::Error| ReadError::new(place, error);
    if is_tree_file(place) {
        // storage/session/<project>/<id>.json
        let storage = place.ancestors().nth(3).unwrap_or(place);
        return collect(&Tree::new(storage.to_owned()), id, settled, enough, may_fit).map_err(failed);
    }
    sqlite::read(place, |database| collect(&Stored(database.connection), id, settled, enough, may_fit))
        .map_err(|error| failed(io::Error::other(error)))
}

fn collect<C: Conversation>(
    store: &C,
    id: &str,
    settled: bool,
    enough: &dyn Fn(&[Named], usize) -> bool,
    may_fit: MayFit<'_>,
) -> Result<Vec<Named>, C::Error> {
    // The entries are collected newest first.
    let mut shown: Vec<Named> = Vec::new();
    for (index, message_id) in store.newest(id, usize::MAX)?.into_iter().enumerate() {
        if enough(&shown, index) {
            break;
        }
        let json = store.message(id, &message_id)?;
        let Some(message) = Message::parse(&json) else { continue };
        let raw = store.parts(&message_id, LARGEST_PART)?;
        let parts: Vec<(String, Part<'_>)> = raw
            .iter()
            .filter(|raw| may_fit(&raw.json))
            .filter_map(|raw| Some((raw.id.clone(), raw.parse()?)))
            .collect();
        shown.extend(entries(&message_id, &message, &parts, settled).into_iter().rev());
    }
    shown.reverse();
    Ok(shown)
}

/// Follows one session. Records are rewritten as they grow, so entries that were returned are remembered by name.
pub(crate) struct Follower {
    place: PathBuf,
    id: String,
    given: HashSet<String>,
    backlog: Option<usize>,
}

impl Follower {
    pub(crate) fn start(place: &Path, id: &str, backlog: usize) -> Self {
        Self { place: place.to_owned(), id: id.to_owned(), given: HashSet::new(), backlog: Some(backlog) }
    }
}

impl Follow for Follower {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        let backlog = self.backlog.take();
        let given = &self.given;
        let enough = |shown: &[Named], messages: usize| match backlog {
            Some(backlog) => shown.len() >= backlog && messages >= REWRITTEN,
            // Everything new is newer than the first message that has nothing new.
            None => messages >= REWRITTEN && shown.last().is_some_and(|named| given.contains(&named.key)),
        };
        let shown = newest(&self.place, &self.id, false, &enough, &|_| true)?;
        let skipped = backlog.map_or(0, |backlog| shown.len().saturating_sub(backlog));
        let mut fresh = Vec::new();
        for (index, named) in shown.into_iter().enumerate() {
            if self.given.insert(named.key) && index >= skipped {
                fresh.push(named.entry);
            }
        }
        Ok(shortened(fresh))
    }
}
