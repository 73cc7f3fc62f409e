//! Follows a conversation as it grows: the gateway is asked repeatedly, over one connection for as long as it lasts.

use std::collections::{HashSet, VecDeque};

use agentctl_model::Entry;
use agentctl_model::text::counted;
use serde_json::json;

use super::history::{Named, entries};
use crate::agents::openclaw::client::connection::{Connection, READ};
use crate::agents::openclaw::client::error::GatewayError;
use crate::agents::openclaw::client::gateway_client::GatewayClient;
use crate::agents::openclaw::client::rows::History;
use crate::search::Records;
use crate::transcript::show::shortened;
use crate::{Follow, ReadError, Root};

/// How many messages are requested at once; fewer than this arrive between two requests.
const WINDOW: usize = 200;
const LARGEST_WINDOW: usize = 1000;
/// A conversation is searched this far back.
const MOST_PAGES: usize = 50;
/// The size of many windows: one message can have several entries.
const MOST_NAMES: usize = 100 * LARGEST_WINDOW;

/// The last `limit` entries, including the reply in progress.
pub(crate) fn read_last(root: &Root, key: &str, limit: usize) -> Result<Vec<Entry>, ReadError> {
    let mut shown = open(root)
        .and_then(|mut connection| history(&mut connection, key, limit))
        .map(|history| entries(&history, true))
        .map_err(|error| ReadError::new(&root.path, error.into_io()))?;
    shown.drain(..shown.len().saturating_sub(limit));
    Ok(shortened(shown.into_iter().map(|named| named.entry).collect()))
}

/// Every entry that the gateway gives, with its name, oldest first, with whole texts. Older pages come before newer ones.
/// A conversation that goes further back says so.
pub(crate) fn read_all(root: &Root, key: &str) -> Result<Records, ReadError> {
    let read = || -> Result<Records, GatewayError> {
        let mut connection = open(root)?;
        let (mut pages, mut offset, mut has_more) = (Vec::new(), 0, true);
        while has_more && pages.len() < MOST_PAGES {
            let params = json!({"sessionKey": key, "limit": LARGEST_WINDOW, "offset": offset});
            let page: History = connection.ask("chat.history", &params)?;
            pages.push(entries(&page, offset == 0));
            has_more = page.has_more;
            match page.next_offset.filter(|next| *next > offset) {
                Some(next) => offset = next,
                None => break,
            }
        }
        let unread = has_more.then(|| {
            let read = counted(pages.len(), "page", "pages");
            format!("{key}: what is older than its newest {read} was not read")
        });
        let named = pages.into_iter().rev().flatten().map(|named| (named.key, named.entry));
        Ok(Records { entries: named.collect(), unread })
    };
    read().map_err(|error| ReadError::new(&root.path, error.into_io()))
}

fn open(root: &Root) -> Result<Connection, GatewayError> {
    let gateway = GatewayClient::of(root)
        .ok_or_else(|| GatewayError::Unsafe("this is no address of a gateway".into()))?;
    gateway.connect(&[READ])
}

fn history(connection: &mut Connection, key: &str, limit: usize) -> Result<History, GatewayError> {
    let limit = limit.clamp(1, LARGEST_WINDOW);
    connection.ask("chat.history", &json!({"sessionKey": key, "limit": limit}))
}

/// The names of entries that were already returned, for the last windows only, since older entries do not come again.
#[derive(Default)]
struct ShownEntries {
    names: HashSet<String>,
    in_order: VecDeque<String>,
}

impl ShownEntries {
    /// Whether this entry is new.
    fn insert(&mut self, name: String) -> bool {
        if !self.names.insert(name.clone()) {
            return false;
        }
        self.in_order.push_back(name);
        if self.in_order.len() > MOST_NAMES
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.names.remove(&oldest);
        }
        true
    }
}

pub(crate) struct Follower {
    root: Root,
    key: String,
    connection: Option<Connection>,
    given: ShownEntries,
    backlog: Option<usize>,
}

impl Follower {
    pub(crate) fn start(root: &Root, key: &str, backlog: usize) -> Self {
        let (root, key) = (root.clone(), key.to_owned());
        Self { root, key, connection: None, given: ShownEntries::default(), backlog: Some(backlog) }
    }

    fn read_window(&mut self) -> Result<Vec<Named>, GatewayError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => open(&self.root)?,
        };
        let read = history(&mut connection, &self.key, self.backlog.unwrap_or(0).max(WINDOW))?;
        self.connection = Some(connection);
        // A reply in progress is returned when it is complete.
        Ok(entries(&read, false))
    }
}

impl Follow for Follower {
    fn next(&mut self) -> Result<Vec<Entry>, ReadError> {
        let shown = self.read_window().map_err(|error| ReadError::new(&self.root.path, error.into_io()))?;
        let skipped = self.backlog.take().map_or(0, |backlog| shown.len().saturating_sub(backlog));
        let mut fresh = Vec::new();
        for (index, named) in shown.into_iter().enumerate() {
            if self.given.insert(named.key) && index >= skipped {
                fresh.push(named.entry);
            }
        }
        Ok(shortened(fresh))
    }
}
