//! Reads the end of a session file: the turn, the last message, the model, the title. Pure.

use std::collections::HashMap;
use std::sync::LazyLock;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::branch::Branch;
use super::records::{KNOWN_TYPES, Message, Record};
use super::turn;
use crate::transcript::read::{self, Latest, Line, WORDS_REACH};

/// How far back a title is searched once everything else is known: no further than the first window of the
/// scan, since most sessions have none at all. The head finds a title at the very beginning.
const NAME_REACH: u64 = 14 << 10;
/// How far back the beginning of an open turn is searched.
const BEGAN_REACH: u64 = 256 << 10;
/// The text that every title record contains, however it is spelled.
pub(crate) const TITLE_MARK: &str = "session_info";
static TITLE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(TITLE_MARK));
/// Titles are short, so a longer line cannot contain one.
const LONGEST_TITLE_LINE: usize = 4096;

/// Reads records newest first until nothing more is needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    branch: Branch,
    /// Whether it follows a leaf that the header names.
    pub(crate) has_leaf: bool,
    pub(crate) latest: Latest,
    /// The newest title of any branch; empty if it was removed.
    pub(crate) name: Option<String>,
    /// The records that later records took back, and when.
    taken_back: HashMap<Box<str>, Option<Timestamp>>,
    /// The number of records on the active branch.
    pub(crate) on_branch: u64,
}

impl Tail {
    pub(crate) fn new(leaf: Option<&str>) -> Self {
        Self { branch: Branch::from_leaf(leaf), has_leaf: leaf.is_some(), ..Self::default() }
    }

    /// Whether the branch has nothing more to add, or is too far back.
    fn branch_is_known(&self, distance: u64) -> bool {
        let far = distance > WORDS_REACH;
        let words = self.latest.last_message.is_some() || far;
        // Only for an open turn is its beginning reported.
        let open = self.latest.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Open);
        let began = self.latest.began_known || !open || distance > BEGAN_REACH;
        self.branch.is_at_its_root()
            || (self.latest.turn.is_some() && self.latest.model.is_some() && words && began)
    }

    fn take(&mut self, record: &Record<'_>) {
        if record.is_header() {
            return;
        }
        if self.latest.updated_at.is_none() {
            self.latest.updated_at = record.at();
        }
        self.take_title(record);
        if !KNOWN_TYPES.contains(&record.kind.as_ref()) {
            self.latest.drifted(&record.kind);
        }
        if !self.branch.takes(record) {
            return;
        }
        self.on_branch += 1;
        if record.kind == "context_edit"
            && let Some(target) = record.target_id.as_deref()
        {
            self.taken_back.entry(target.into()).or_insert_with(|| record.at());
        }
        if self.latest.model.is_none() {
            self.latest.model = record.model().map(|model| clean_cut(&model, Some(200)));
        }
        if self.latest.last_message.is_none() && record.role() == "assistant" {
            self.latest.said(record.message.as_ref().and_then(Message::text));
        }
        self.take_turn(record);
    }

    fn take_title(&mut self, record: &Record<'_>) {
        if self.name.is_none() {
            self.name = record.title();
        }
    }

    fn take_turn(&mut self, record: &Record<'_>) {
        let is_prompt = record.role() == "user";
        if self.latest.turn.is_some() {
            if is_prompt {
                self.latest.began(record.at());
            }
            return;
        }
        let edit = record.id.as_deref().and_then(|id| self.taken_back.get(id));
        let Some(state) = turn::state(record, edit.is_some()) else { return };
        // The next attempt follows one that was taken back, so the edit is the turn's newest record.
        let last = edit.copied().flatten().or_else(|| record.at());
        let mut turn = Turn::new(state, last);
        turn.detail = turn::detail(record, state);
        turn.limit = turn::limit(record, state);
        self.latest.turn = Some(turn);
        if is_prompt {
            self.latest.began(record.at());
        }
    }
}

impl read::Tail for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> Line {
        if self.branch_is_known(distance) {
            if line.len() < LONGEST_TITLE_LINE
                && TITLE.find(line).is_some()
                && let Some(record) = Record::parse(line)
            {
                self.take_title(&record);
            }
            return Line::Record;
        }
        Line::is_record(Record::parse(line).inspect(|record| self.take(record)).is_some())
    }

    fn enough(&mut self, distance: u64) -> bool {
        let title = self.name.is_some() || distance > NAME_REACH;
        title && self.branch_is_known(distance)
    }

    fn lost(&mut self) {
        self.branch.lost();
    }

    fn latest(&mut self) -> &mut Latest {
        &mut self.latest
    }
}
