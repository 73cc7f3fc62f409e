//! Reads one session from its stored messages, in the database or in the tree.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use agentctl_model::text::clean_cut;
use agentctl_model::{
    Call, Evidence, Fact, Facts, Found, Parent, Relation, Stamp, Tokens, Turn, TurnState, Witness,
};
use jiff::Timestamp;

use super::records::{self, Message, Part, add};
use crate::Scope;
use crate::transcript::read::{Calls, Recorded};

/// How many of the last messages are searched for what the very last one does not contain.
const LOOK_BACK: usize = 48;
/// A step that was left open may lie this far back, when another process continued the session.
const OPEN_STEPS: usize = 4;
/// The first prompt stands at the beginning.
const LOOK_AHEAD: usize = 8;
/// For a list only the beginning of a larger part is read; only `status` asks for whole texts.
const LARGEST_PART: u64 = 64 << 10;

/// `Found.facts.meta`: when the session's own record was last touched, which every prompt does.
pub(crate) const TOUCHED: &str = "touchedAt";
/// The newest step that was left open before a later message.
pub(crate) const LEFT_OPEN: &str = "leftOpenAt";

/// The content of the session's own row or file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) parent: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) updated: Option<Timestamp>,
    pub(crate) archived: Option<Timestamp>,
    /// The agent's running totals, including copies of a forked conversation. `None` if it keeps none.
    pub(crate) total: Option<Total>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Total {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) cost: Option<f64>,
}

/// How much is returned of a part that is larger than the limit.
pub(crate) const BEGINNING: usize = 16 << 10;

/// One part as it is stored.
pub(crate) struct RawPart {
    pub(crate) id: String,
    pub(crate) json: Vec<u8>,
    /// Only the beginning of the part: the whole is larger than the limit.
    pub(crate) is_cut: bool,
}

impl RawPart {
    pub(crate) fn parse(&self) -> Option<Part<'_>> {
        if self.is_cut { Part::parse_beginning(&self.json) } else { Part::parse(&self.json) }
    }
}

/// Where messages are stored: the database, or the old tree of files.
pub(crate) trait Conversation {
    type Error: Display;

    /// Ids of the newest messages, newest first.
    fn newest(&self, session: &str, limit: usize) -> Result<Vec<String>, Self::Error>;
    /// Ids of the oldest messages, oldest first.
    fn oldest(&self, session: &str, limit: usize) -> Result<Vec<String>, Self::Error>;
    fn message(&self, session: &str, id: &str) -> Result<Vec<u8>, Self::Error>;
    /// The newest messages with their ids, newest first.
    fn last(&self, session: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, Self::Error> {
        let ids = self.newest(session, limit)?.into_iter();
        ids.map(|id| self.message(session, &id).map(|json| (id, json))).collect()
    }
    /// The oldest message with its id.
    fn first(&self, session: &str) -> Result<Option<(String, Vec<u8>)>, Self::Error> {
        let id = self.oldest(session, 1)?.pop();
        id.map(|id| self.message(session, &id).map(|json| (id, json))).transpose()
    }
    /// The parts of a message in their order.
    fn parts(&self, message: &str, largest: u64) -> Result<Vec<RawPart>, Self::Error>;
}

/// One session that was read, with the warnings about it.
#[derive(Debug, Clone)]
pub(crate) struct ReadSession {
    pub(crate) found: Found,
    pub(crate) damaged: u64,
    pub(crate) drift: BTreeMap<String, u64>,
}

/// Reads what a list needs: a bounded number of messages from both ends.
pub(crate) fn read<C: Conversation>(
    head: &Head,
    place: PathBuf,
    stamp: Option<Stamp>,
    witness: Witness,
    store: &C,
    scope: &Scope<'_>,
) -> Result<ReadSession, C::Error> {
    let mut reader = Reader { store, scope, damaged: 0, drift: BTreeMap::new() };
    let recent = reader.recent(head)?;
    let opening = reader.opening(head)?;
    let (tokens, cost) = reader.spent(head, opening.is_copied)?;
    let calls = if scope.calls { Some(reader.calls(head, opening.is_copied)?.into()) } else { None };
    let touched = head.updated;
    let mut facts = Facts {
        name: head.title.clone().filter(|title| !title.is_empty() && !records::is_default_title(title)),
        prompt: opening.prompt,
        last_message: recent.words,
        cwd: head.directory.clone().filter(|directory| !directory.is_empty()),
        model: recent.model.or_else(|| head.model.clone()),
        started_at: head.created,
        updated_at: touched.max(recent.turn.last),
        tokens,
        cost,
        calls,
        parent: head.parent.clone().map(|id| Parent { id, relation: Relation::Subagent }),
        ..Facts::default()
    };
    let mut note = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.meta.insert(key.to_owned(), value.into());
        }
    };
    note("version", head.version.clone());
    note("agent", head.agent.clone());
    note("archivedAt", head.archived.map(|at| at.to_string()));
    note(TOUCHED, touched.map(|at| at.to_string()));
    note(LEFT_OPEN, recent.left_open.map(|at| at.to_string()));
    let evidence = vec![Evidence::new(witness, Fact::TurnIs(recent.turn.state), recent.turn.last)];
    facts.turn = Some(recent.turn);
    let found = Found { id: head.id.clone(), variant: None, place, stamp, facts, evidence };
    Ok(ReadSession { found, damaged: reader.damaged, drift: reader.drift })
}

struct Reader<'r, 's, C> {
    store: &'r C,
    scope: &'r Scope<'s>,
    damaged: u64,
    drift: BTreeMap<String, u64>,
}

/// What the newest messages contain.
struct Recent {
    turn: Turn,
    words: Option<String>,
    model: Option<String>,
    left_open: Option<Timestamp>,
}

#[derive(Default)]
struct Opening {
    prompt: Option<String>,
    /// The conversation begins before the session itself: it was copied from another one.
    is_copied: bool,
}

/// Messages from one end of a conversation. More than the first few are rarely needed, and are only looked up then.
struct Messages {
    ids: Vec<String>,
    read: Vec<Vec<u8>>,
    /// How many were read together.
    few: usize,
    index: usize,
}

impl Messages {
    fn new(read: impl IntoIterator<Item = (String, Vec<u8>)>, few: usize) -> Self {
        let (ids, read) = read.into_iter().unzip();
        Self { ids, read, few, index: 0 }
    }

    /// The next message with its id; `more` gives the ids of all, those of the first few included.
    fn next<C: Conversation>(
        &mut self,
        store: &C,
        session: &str,
        more: impl FnOnce(&C) -> Result<Vec<String>, C::Error>,
    ) -> Result<Option<(String, Vec<u8>)>, C::Error> {
        if self.index == self.few && self.ids.len() == self.few {
            self.ids = more(store)?;
        }
        let Some(id) = self.ids.get(self.index) else { return Ok(None) };
        let json = match self.read.get_mut(self.index) {
            Some(json) => std::mem::take(json),
            None => store.message(session, id)?,
        };
        self.index += 1;
        Ok(Some((id.clone(), json)))
    }
}

impl<C: Conversation> Reader<'_, '_, C> {
    fn recent(&mut self, head: &Head) -> Result<Recent, C::Error> {
        let mut recent =
            Recent { turn: Turn::new(TurnState::NotBegun, None), words: None, model: None, left_open: None };
        let mut seen = 0;
        let mut messages = Messages::new(self.store.last(&head.id, OPEN_STEPS)?, OPEN_STEPS);
        while let Some((id, json)) =
            messages.next(self.store, &head.id, |store| store.newest(&head.id, LOOK_BACK))?
        {
            let Some(message) = Message::parse(&json) else {
                self.damaged += 1;
                continue;
            };
            if !message.is_user() && !message.is_assistant() {
                *self.drift.entry(format!("role {}", clean_cut(&message.role, Some(60)))).or_default() += 1;
                continue;
            }
            seen += 1;
            let wants_words = recent.words.is_none() && message.is_assistant();
            if seen == 1 || wants_words {
                let raw = self.store.parts(&id, self.largest_part())?;
                let parts = self.parse(&raw);
                if seen == 1 {
                    recent.turn = super::turn::turn(&message, &parts);
                }
                if wants_words {
                    let words = parts.iter().rev().find_map(Part::words);
                    recent.words = words.map(|text| clean_cut(text, self.scope.text_limit));
                }
            }
            if seen > 1 && message.is_open() {
                recent.left_open = recent.left_open.max(message.time.created());
            }
            if message.is_user() && recent.turn.began.is_none() {
                recent.turn.began = message.time.created();
            }
            if recent.model.is_none() {
                recent.model = message.model();
            }
            if seen >= OPEN_STEPS && recent.words.is_some() && recent.model.is_some() {
                break;
            }
        }
        Ok(recent)
    }

    fn opening(&mut self, head: &Head) -> Result<Opening, C::Error> {
        let mut opening = Opening::default();
        let mut seen = 0;
        let mut messages = Messages::new(self.store.first(&head.id)?, 1);
        while let Some((id, json)) =
            messages.next(self.store, &head.id, |store| store.oldest(&head.id, LOOK_AHEAD))?
        {
            // A damaged message was counted when the newest ones were read, or lies in the middle, which is not
            // searched.
            let Some(message) = Message::parse(&json) else { continue };
            seen += 1;
            if seen == 1 {
                opening.is_copied = message.time.created().is_some_and(|at| Some(at) < head.created);
            }
            if message.is_user() {
                let raw = self.store.parts(&id, self.largest_part())?;
                let parts = self.parse(&raw);
                let prompt = parts.iter().find_map(Part::words);
                opening.prompt = prompt.map(|text| clean_cut(text, self.scope.text_limit));
                if opening.prompt.is_some() {
                    break;
                }
            }
        }
        Ok(opening)
    }

    /// The session's own tokens and cost: the running totals if they are its own, otherwise the sum of its messages.
    fn spent(&self, head: &Head, is_copied: bool) -> Result<(Option<Tokens>, Option<f64>), C::Error> {
        // Totals without any tokens were not maintained: the messages may contain more.
        if let Some(total) = head.total.filter(|total| !is_copied && total.tokens.is_some()) {
            return Ok((total.tokens, total.cost));
        }
        if !self.scope.usage {
            return Ok((None, None));
        }
        let (mut tokens, mut cost) = (None, 0.0);
        for id in self.store.oldest(&head.id, usize::MAX)? {
            self.scope.progress.tick();
            let json = self.store.message(&head.id, &id)?;
            let Some(message) = Message::parse(&json) else { continue };
            // Copies keep their old times.
            if message.time.created().is_some_and(|at| Some(at) < head.created) {
                continue;
            }
            if let Some(one) = message.tokens() {
                tokens = Some(add(tokens, one));
            }
            cost += message.cost.unwrap_or(0.0);
        }
        Ok((tokens, (cost > 0.0).then_some(cost)))
    }

    /// Every step of the model, and what the running totals contain beyond the steps that are still stored.
    fn calls(&self, head: &Head, is_copied: bool) -> Result<Vec<Call>, C::Error> {
        let mut calls = Calls::default();
        let mut sum = Total::default();
        for (id, json) in self.store.last(&head.id, usize::MAX)?.into_iter().rev() {
            self.scope.progress.tick();
            let Some(message) = Message::parse(&json) else { continue };
            let at = message.time.created();
            let is_own = at.is_none_or(|at| Some(at) >= head.created);
            if let Some(tokens) = message.tokens().filter(|_| is_own) {
                let model = message.model();
                let cost = message.cost.filter(|cost| *cost > 0.0);
                let call = Recorded { at, model: model.as_deref(), tokens, cost, agent: None };
                calls.add(Some(&id), call);
                sum.tokens = Some(add(sum.tokens, tokens));
                sum.cost = Some(sum.cost.unwrap_or(0.0) + cost.unwrap_or(0.0));
            }
        }
        if let Some(total) = head.total.filter(|_| !is_copied)
            && let Some(rest) = total.tokens.map(|total| total.less(sum.tokens.unwrap_or_default()))
            && rest.sum() > 0
        {
            let cost = total.cost.map(|cost| cost - sum.cost.unwrap_or(0.0)).filter(|cost| *cost > 1e-9);
            let (at, model) = (head.updated, head.model.as_deref());
            calls.add(None, Recorded { at, model, tokens: rest, cost, agent: None });
        }
        Ok(calls.counted().calls.to_vec())
    }

    fn largest_part(&self) -> u64 {
        if self.scope.text_limit.is_some() { LARGEST_PART } else { u64::MAX }
    }

    fn parse<'p>(&mut self, raw: &'p [RawPart]) -> Vec<Part<'p>> {
        let mut parts = Vec::with_capacity(raw.len());
        for raw in raw {
            match raw.parse() {
                Some(part) => {
                    if !part.is_known() {
                        *self
                            .drift
                            .entry(format!("part {}", clean_cut(&part.kind, Some(60))))
                            .or_default() += 1;
                    }
                    parts.push(part);
                }
                None if raw.is_cut => {}
                None => self.damaged += 1,
            }
        }
        parts
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
