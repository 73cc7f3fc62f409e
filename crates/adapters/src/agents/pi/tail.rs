//! What the end of a session file says: the turn, the last words, the model, the title. Pure.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::LazyLock;

use agentctl_model::text::clean_cut;
use agentctl_model::{Turn, TurnState};
use jiff::Timestamp;
use memchr::memmem::Finder;

use super::branch::Branch;
use super::records::{KNOWN_TYPES, Message, Record};
use super::turn;
use crate::transcript::jsonl::Scan;

/// How far back a title is looked for once everything else is known: no further than the first window of the scan, since
/// most sessions have none at all. One from the very beginning is found there.
const NAME_REACH: u64 = 14 << 10;
/// How far back the last words are looked for once the turn is known.
const WORDS_REACH: u64 = 8 << 20;
/// How far back the beginning of an open turn is looked for.
const BEGAN_REACH: u64 = 256 << 10;
/// What every record of a title holds, however it is spelled.
pub(super) static TITLE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("session_info"));
/// A title is short, so a longer line cannot hold one.
const LONGEST_TITLE_LINE: usize = 4096;

/// Reads records newest first until nothing more is wanted.
#[derive(Default)]
pub(super) struct Tail {
    branch: Branch,
    text_limit: Option<usize>,
    pub(super) turn: Option<Turn>,
    turn_began_known: bool,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) last_message: Option<String>,
    pub(super) model: Option<String>,
    /// The newest title of any branch; empty if it was taken away.
    pub(super) name: Option<String>,
    /// What later records took back, and when.
    taken_back: HashMap<Box<str>, Option<Timestamp>>,
    /// Records of the active branch.
    pub(super) on_branch: u64,
    records: u64,
    /// Lines in the middle that are no records.
    pub(super) broken: u64,
    pub(super) drift: BTreeMap<String, u64>,
}

impl Tail {
    pub(super) fn new(leaf: Option<&str>, text_limit: Option<usize>) -> Self {
        Self { branch: Branch::from_leaf(leaf), text_limit, ..Self::default() }
    }

    /// Nothing more is to be learnt from the branch, or it is too far to look.
    fn branch_is_told(&self, distance: u64) -> bool {
        let far = distance > WORDS_REACH;
        let words = self.last_message.is_some() || far;
        // Only of a turn that is open is it told since when.
        let open = self.turn.as_ref().is_some_and(|turn| turn.state == TurnState::Open);
        let began = self.turn_began_known || !open || distance > BEGAN_REACH;
        self.branch.is_at_its_root() || (self.turn.is_some() && self.model.is_some() && words && began)
    }

    fn take(&mut self, record: &Record<'_>) {
        self.records += 1;
        if record.is_header() {
            return;
        }
        if self.updated_at.is_none() {
            self.updated_at = record.at();
        }
        self.take_title(record);
        if !KNOWN_TYPES.contains(&record.kind.as_ref()) {
            *self.drift.entry(clean_cut(&record.kind, Some(60))).or_default() += 1;
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
        if self.model.is_none() {
            self.model = record.model().map(|model| clean_cut(&model, Some(200)));
        }
        if self.last_message.is_none() && record.role() == "assistant" {
            let text = record.message.as_ref().and_then(Message::text);
            self.last_message = text.map(|text| clean_cut(&text, self.text_limit));
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
        if let Some(turn) = &mut self.turn {
            if is_prompt && !self.turn_began_known {
                self.turn_began_known = true;
                turn.began = record.at();
            }
            return;
        }
        let edit = record.id.as_deref().and_then(|id| self.taken_back.get(id));
        let Some(state) = turn::state(record, edit.is_some()) else { return };
        // An attempt that was taken back is followed by the next one: the edit is the turn's newest record.
        let last = edit.copied().flatten().or_else(|| record.at());
        let mut turn = Turn::new(state, last);
        turn.detail = turn::detail(record, state);
        if is_prompt {
            turn.began = record.at();
            self.turn_began_known = true;
        }
        self.turn = Some(turn);
    }
}

impl Scan for Tail {
    fn line(&mut self, line: &[u8], distance: u64) -> ControlFlow<()> {
        if self.branch_is_told(distance) {
            if line.len() < LONGEST_TITLE_LINE
                && TITLE.find(line).is_some()
                && let Some(record) = Record::parse(line)
            {
                self.take_title(&record);
            }
        } else if let Some(record) = Record::parse(line) {
            self.take(&record);
        } else if self.records > 0 {
            self.broken += 1;
            self.branch.lost();
        }
        if self.wants_more(distance) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn wants_more(&self, distance: u64) -> bool {
        let title = self.name.is_some() || distance > NAME_REACH;
        !(title && self.branch_is_told(distance))
    }
}
