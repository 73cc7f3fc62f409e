//! Everything that is on the screen, and how news change it. Pure: the time is given, and nothing is asked.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use agentctl_fleet::UsageAnswer;
use agentctl_model::{CoverageKind, Entry, HostReport, Pending, SourceReport, Status};
use jiff::Timestamp;

use super::find::{self, Find};
use super::form::Form;
use super::input::Input;
use super::keys::Question;
use super::rows::{self, Counts, Key, Row};

/// How long a request must have stood on the screen, whole, before a yes counts: a key that was meant for the request
/// before it is not one.
const SEEN: Duration = Duration::from_millis(400);
/// How long a second `x` is waited for.
pub(crate) const TWICE: Duration = Duration::from_secs(2);

/// What is shown in the place of list and detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum View {
    #[default]
    List,
    Conversation,
    Request,
    Evidence,
    Groups,
    Hosts,
    Usage,
    Changes,
    Timeline,
    Help,
}

/// What one machine, or the bus, said last.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) rows: Vec<Row>,
    pub(crate) hosts: Vec<HostReport>,
    pub(crate) sources: Vec<SourceReport>,
    pub(crate) strays: usize,
    pub(crate) heard_at: Option<Timestamp>,
}

/// A text of several lines that was asked for, such as the changes of a tree.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sheet {
    Asked,
    Told(Vec<String>),
    Failed(String),
}

/// The conversation that is shown.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) of: Option<Key>,
    pub(crate) entries: Vec<Entry>,
    /// Why it cannot be read.
    pub(crate) error: Option<String>,
    pub(crate) is_told: bool,
}

/// One line about what was done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) words: String,
    pub(crate) is_bad: bool,
}

/// What a frame showed, as far as it matters for what a key means.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Shown {
    /// The request that was there to its last line.
    pub(crate) request: Option<(Key, Pending)>,
    /// How far the view can be scrolled.
    pub(crate) most: usize,
    pub(crate) page: usize,
    /// How many rows the list has room for.
    pub(crate) list: usize,
    pub(crate) width: usize,
}

pub(crate) struct State {
    pub(crate) host: String,
    pub(crate) home: Option<std::path::PathBuf>,
    pub(crate) zone: jiff::tz::TimeZone,
    pub(crate) cwd: Option<String>,
    pub(crate) now: Timestamp,
    pub(crate) parts: BTreeMap<String, Part>,
    /// The rows in the order in which they are shown.
    pub(crate) order: Vec<Key>,
    /// The order would be another one, and waits until the cursor leaves its row.
    pub(crate) order_waits: bool,
    pub(crate) cursor: Option<Key>,
    /// The first row that is shown.
    pub(crate) first: usize,
    pub(crate) find: Find,
    pub(crate) view: View,
    pub(crate) scroll: usize,
    pub(crate) input: Option<Input>,
    pub(crate) form: Option<Form>,
    pub(crate) words: Words,
    pub(crate) message: Option<Message>,
    /// Deeds that are not answered yet, in words.
    pub(crate) deeds: BTreeMap<u64, String>,
    /// `x` was pressed once for this session.
    pub(crate) stopping: Option<(Key, Instant)>,
    /// Since when the daemon, which was heard before, is not heard.
    pub(crate) daemon_lost: Option<Timestamp>,
    /// What will not be looked at again in the life of this process, and why.
    pub(crate) broken: Vec<String>,
    /// What was counted, or why it could not be.
    pub(crate) usage: Option<Result<UsageAnswer, String>>,
    pub(crate) usage_by: usize,
    pub(crate) sheet: Option<Sheet>,
    /// What the sheet is to answer.
    pub(crate) asked: Option<Question>,
    /// The agents that can be launched.
    pub(crate) agents: Vec<String>,
    shown: Shown,
    seen: Option<((Key, Pending), Instant)>,
    matcher: nucleo_matcher::Matcher,
}

impl State {
    pub(crate) fn new(host: String, now: Timestamp) -> Self {
        Self {
            host,
            home: None,
            zone: jiff::tz::TimeZone::UTC,
            cwd: None,
            now,
            parts: BTreeMap::new(),
            order: Vec::new(),
            order_waits: false,
            cursor: None,
            first: 0,
            find: Find::default(),
            view: View::List,
            scroll: 0,
            input: None,
            form: None,
            words: Words::default(),
            message: None,
            deeds: BTreeMap::new(),
            stopping: None,
            daemon_lost: None,
            broken: Vec::new(),
            usage: None,
            usage_by: 0,
            sheet: None,
            asked: None,
            agents: Vec::new(),
            shown: Shown::default(),
            seen: None,
            matcher: find::matcher(),
        }
    }

    /// What one machine says now. What was not heard says nothing about its sessions: they stay, marked as old.
    pub(crate) fn hear(&mut self, name: &str, mut part: Part) {
        let before = self.parts.remove(name).unwrap_or_default();
        let heard_at = part.heard_at;
        let is_same = part.rows.len() == before.rows.len()
            && part
                .rows
                .iter()
                .zip(&before.rows)
                .all(|(now, was)| now.key == was.key && now.session == was.session && now.old == was.old);
        if is_same {
            self.parts.insert(name.to_owned(), part);
            return;
        }
        for mut row in before.rows {
            let key = &row.key;
            let host = part.hosts.iter().find(|host| host.name == key.host);
            let host_is_silent = host.is_some_and(|host| host.coverage == CoverageKind::Failed);
            let source_is_silent = part.sources.iter().any(|source| {
                let is_its =
                    source.host == key.host && source.adapter == key.adapter && source.root == key.root;
                is_its && source.is_incomplete()
            });
            if (host_is_silent || source_is_silent) && !part.rows.iter().any(|new| new.key == *key) {
                row.old = row.old.or(before.heard_at).or(heard_at);
                part.rows.push(row);
            }
        }
        self.parts.insert(name.to_owned(), part);
        self.arrange();
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.parts.values().flat_map(|part| &part.rows)
    }

    pub(crate) fn row(&self, key: &Key) -> Option<&Row> {
        self.rows().find(|row| row.key == *key)
    }

    pub(crate) fn selected(&self) -> Option<&Row> {
        self.row(self.cursor.as_ref()?)
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts::of(self.rows())
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &HostReport> {
        self.parts.values().flat_map(|part| &part.hosts)
    }

    /// Whether sessions of more than one machine are shown.
    pub(crate) fn has_hosts(&self) -> bool {
        self.hosts().nth(1).is_some() || self.hosts().any(|host| host.name != self.host)
    }

    /// What was not heard: a name, the reason, and when it was heard last.
    pub(crate) fn unheard(&self) -> Vec<(String, String, Option<Timestamp>)> {
        let mut all = Vec::new();
        for part in self.parts.values() {
            for host in part.hosts.iter().filter(|host| host.error.is_some()) {
                all.push((host.name.clone(), host.error.clone().unwrap_or_default(), part.heard_at));
            }
            for source in part.sources.iter().filter(|source| source.is_incomplete()) {
                let reason = source.error.clone().or_else(|| source.warnings.first().cloned());
                let reason = reason.unwrap_or_else(|| source.coverage.to_string());
                let name = if source.host.is_empty() || source.host == self.host {
                    source.adapter.clone()
                } else {
                    format!("{}: {}", source.host, source.adapter)
                };
                all.push((name, reason, part.heard_at));
            }
        }
        all
    }

    /// Puts the rows into their order, unless the row under the cursor would move: then those that are known stay where
    /// they are, and new ones come below the cursor.
    pub(crate) fn arrange(&mut self) {
        let wanted = self.wanted();
        let place = |order: &[Key], key: &Key| order.iter().position(|one| one == key);
        let Some(cursor) = self.cursor.clone().filter(|key| wanted.contains(key)) else {
            self.cursor_lost(wanted);
            return;
        };
        let before = place(&self.order, &cursor);
        if before.is_none() || before == place(&wanted, &cursor) {
            self.order = wanted;
            self.order_waits = false;
            return;
        }
        let is_wanted: std::collections::HashSet<&Key> = wanted.iter().collect();
        let mut kept: Vec<Key> = self.order.iter().filter(|key| is_wanted.contains(key)).cloned().collect();
        let known: std::collections::HashSet<Key> = kept.iter().cloned().collect();
        let at = place(&kept, &cursor).map_or(kept.len(), |at| at + 1);
        let new: Vec<Key> = wanted.iter().filter(|key| !known.contains(key)).cloned().collect();
        kept.splice(at..at, new);
        self.order_waits = kept != wanted;
        // Rows above that are gone would pull the cursor up; the list then begins that much higher.
        if let (Some(was), Some(is)) = (before, place(&kept, &cursor)) {
            self.first = self.first.saturating_sub(was.saturating_sub(is));
        }
        self.order = kept;
    }

    fn wanted(&mut self) -> Vec<Key> {
        let mut matcher = std::mem::replace(&mut self.matcher, find::matcher());
        let find = self.find.clone();
        let mut rows: Vec<&Row> = self.rows().collect();
        rows.retain(|row| find.is_empty() || find.fits(&row.session, &mut matcher));
        rows::sort(&mut rows);
        let wanted = rows.into_iter().map(|row| row.key.clone()).collect();
        self.matcher = matcher;
        wanted
    }

    /// The row under the cursor is gone, or there was none.
    fn cursor_lost(&mut self, wanted: Vec<Key>) {
        let index = self.index().unwrap_or(0);
        self.order = wanted;
        self.order_waits = false;
        if self.view == View::List {
            self.cursor = self.order.get(index.min(self.order.len().saturating_sub(1))).cloned();
        } else if self.cursor.is_none() {
            self.cursor = self.order.first().cloned();
        }
    }

    pub(crate) fn index(&self) -> Option<usize> {
        let cursor = self.cursor.as_ref()?;
        self.order.iter().position(|key| key == cursor)
    }

    /// Moves the cursor to another row, which lets an order that waited take effect. The row that was chosen stays at its
    /// place on the screen where the list is long enough for that.
    pub(crate) fn move_to(&mut self, index: usize) {
        let Some(key) = self.order.get(index.min(self.order.len().saturating_sub(1))).cloned() else {
            return;
        };
        let line = self.order.iter().position(|one| *one == key).unwrap_or(0).saturating_sub(self.first);
        let was = self.cursor.replace(key.clone());
        if was.as_ref() != Some(&key) {
            self.stopping = None;
            if self.order_waits {
                self.order = self.wanted();
                self.order_waits = false;
                let now = self.order.iter().position(|one| *one == key).unwrap_or(0);
                self.first = now.saturating_sub(line);
            }
        }
        self.keep_in_sight();
    }

    pub(crate) fn move_by(&mut self, rows: isize) {
        let index = self.index().unwrap_or(0);
        self.move_to(index.saturating_add_signed(rows));
    }

    fn keep_in_sight(&mut self) {
        let Some(index) = self.index() else { return };
        let room = self.shown.list.max(1);
        self.first = self.first.clamp((index + 1).saturating_sub(room), index);
    }

    /// Every change of what is typed into `/`.
    pub(crate) fn look_for(&mut self, typed: String) {
        self.find = Find { typed };
        self.order = self.wanted();
        self.order_waits = false;
        self.first = 0;
        let is_there = self.cursor.as_ref().is_some_and(|key| self.order.contains(key));
        if !is_there {
            self.cursor = self.order.first().cloned();
        }
        self.keep_in_sight();
    }

    pub(crate) fn open(&mut self, view: View) {
        self.view = view;
        self.scroll = 0;
        self.sheet = None;
        self.asked = None;
    }

    /// Opens the sheet that will have the answer to a question.
    pub(crate) fn ask(&mut self, view: View, question: Question) {
        self.open(view);
        self.sheet = Some(Sheet::Asked);
        self.asked = Some(question);
    }

    /// An answer for the sheet. One to a question of before is late: it is about something else than the title says.
    pub(crate) fn hear_sheet(&mut self, of: &Question, told: Result<Vec<String>, String>) {
        if self.asked.as_ref() == Some(of) {
            self.sheet = Some(told.map_or_else(Sheet::Failed, Sheet::Told));
        }
    }

    pub(crate) fn hear_usage(&mut self, by: usize, told: Result<UsageAnswer, String>) {
        if by == self.usage_by {
            self.usage = Some(told);
        }
    }

    pub(crate) fn scroll_by(&mut self, lines: isize) {
        self.scroll = self.scroll.saturating_add_signed(lines).min(self.shown.most);
    }

    pub(crate) fn page(&self) -> isize {
        isize::try_from(self.shown.page.max(2) - 1).unwrap_or(1)
    }

    pub(crate) fn list_page(&self) -> isize {
        isize::try_from(self.shown.list.max(2) - 1).unwrap_or(1)
    }

    /// How many columns the last frame had.
    pub(crate) fn width(&self) -> usize {
        self.shown.width
    }

    /// A frame was drawn. A request that it showed whole is seen from then on, as long as it stays the same one.
    pub(crate) fn saw(&mut self, shown: Shown, at: Instant) {
        let is_same = match (&self.seen, &shown.request) {
            (Some((seen, _)), Some(request)) => is_same(seen, request),
            (seen, request) => seen.is_none() && request.is_none(),
        };
        if !is_same {
            self.seen = shown.request.clone().map(|request| (request, at));
        }
        let list = shown.list;
        self.shown = shown;
        self.scroll = self.scroll.min(self.shown.most);
        if list > 0 {
            self.keep_in_sight();
            self.first = self.first.min(self.order.len().saturating_sub(list));
        }
    }

    /// The request of the row under the cursor.
    pub(crate) fn request(&self) -> Option<&Pending> {
        let row = self.selected().filter(|row| row.session.status == Status::Waiting)?;
        let mut pending = row.session.pending.iter();
        pending.clone().find(|one| one.answerable).or_else(|| pending.next())
    }

    /// Whether the request under the cursor was on the screen to its end, long enough to be read on purpose.
    pub(crate) fn has_seen_request(&self, at: Instant) -> Sight {
        let wanted = self.cursor.clone().zip(self.request().cloned());
        match &self.seen {
            Some((seen, since)) if wanted.is_some_and(|wanted| is_same(seen, &wanted)) => {
                if at.saturating_duration_since(*since) >= SEEN { Sight::Seen } else { Sight::JustNow }
            }
            _ => Sight::NotWhole,
        }
    }

    pub(crate) fn say(&mut self, words: impl Into<String>) {
        self.message = Some(Message { words: words.into(), is_bad: false });
    }

    pub(crate) fn complain(&mut self, words: impl Into<String>) {
        self.message = Some(Message { words: words.into(), is_bad: true });
    }

    /// The title of the terminal.
    pub(crate) fn title(&self) -> String {
        match self.counts().waiting {
            0 => "agentctl".to_owned(),
            waiting => format!("◐ {waiting} · agentctl"),
        }
    }
}

/// Whether this is the same request of the same session.
fn is_same((key, pending): &(Key, Pending), (other, now): &(Key, Pending)) -> bool {
    key == other && pending.is_same_request(now)
}

/// Whether a request was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    Seen,
    /// It came a moment ago; the key may have been meant for the one before it.
    JustNow,
    NotWhole,
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
