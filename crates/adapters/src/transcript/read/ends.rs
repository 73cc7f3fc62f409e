//! What is wanted from both ends of every transcript, and how a session's facts are made of it. Pure.

use std::collections::BTreeMap;

use agentctl_model::text::clean_cut;
use agentctl_model::{Evidence, Fact, Facts, Turn, TurnState, Witness};
use jiff::Timestamp;

use crate::transcript::memory::Counted;

/// How far back the agent's last text is searched for once everything else is known.
pub(crate) const WORDS_REACH: u64 = 8 << 20;

/// What is wanted from the beginning of every transcript.
#[derive(Debug, Clone, Default)]
pub(crate) struct First {
    /// How much of a text is kept. The reader sets it.
    pub(crate) text_limit: Option<usize>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) prompt: Option<String>,
    /// When the first of the records was written that this session copied from the session it was forked from.
    copied_at: Option<Timestamp>,
}

impl First {
    /// Keeps the first text that is given.
    pub(crate) fn asked(&mut self, text: Option<impl AsRef<str>>) {
        if self.prompt.is_none() {
            self.prompt = text.map(|text| clean_cut(text.as_ref(), self.text_limit));
        }
    }

    /// Keeps the first time that is given.
    pub(crate) fn started(&mut self, at: Option<Timestamp>) {
        self.started_at = self.started_at.or(at);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.prompt.is_some() && self.started_at.is_some()
    }

    /// A fork starts at the first record after its copies.
    pub(crate) fn started_after_copies(&mut self, is_copy: bool, at: Option<Timestamp>) {
        let first = if is_copy { &mut self.copied_at } else { &mut self.started_at };
        *first = first.or(at);
    }

    /// When the session started; a fork without records of its own started with its copies.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        self.started_at.or(self.copied_at)
    }
}

/// What is wanted from the end of every transcript.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latest {
    /// How much of a text is kept. The reader sets it.
    pub(crate) text_limit: Option<usize>,
    pub(crate) turn: Option<Turn>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) last_message: Option<String>,
    pub(crate) model: Option<String>,
    /// The unknown kinds of records, and how many of each.
    pub(crate) drift: BTreeMap<String, u64>,
    /// The beginning of the turn was already searched for.
    pub(crate) began_known: bool,
}

impl Latest {
    /// A record of this kind was written then; unknown kinds are counted.
    pub(crate) fn recorded(&mut self, at: Option<Timestamp>, kind: &str, is_known: bool) {
        self.updated_at = self.updated_at.max(at);
        if !is_known {
            self.drifted(kind);
        }
    }

    /// Keeps the newest text of the agent; blank texts are ignored.
    pub(crate) fn said(&mut self, text: Option<impl AsRef<str>>) {
        if self.last_message.is_none() {
            let text = text.filter(|text| !text.as_ref().trim().is_empty());
            self.last_message = text.map(|text| clean_cut(text.as_ref(), self.text_limit));
        }
    }

    /// Keeps the newest model.
    pub(crate) fn used(&mut self, model: Option<&str>) {
        keep(&mut self.model, model);
    }

    /// Counts a record of an unknown kind.
    pub(crate) fn drifted(&mut self, kind: &str) {
        *self.drift.entry(clean_cut(kind, Some(60))).or_default() += 1;
    }

    /// The turn that is being read began here, unless a newer prompt began it.
    pub(crate) fn began(&mut self, at: Option<Timestamp>) {
        if !self.began_known
            && let Some(turn) = &mut self.turn
        {
            self.began_known = true;
            if turn.state != TurnState::NotBegun {
                turn.began = at;
            }
        }
    }

    pub(crate) fn is_spoken(&self) -> bool {
        self.last_message.is_some() && self.model.is_some()
    }

    /// The turn is known, and what the agent said last too, unless that is too far back.
    pub(crate) fn is_known(&self, distance: u64) -> bool {
        self.turn.is_some() && (self.is_spoken() || distance > WORDS_REACH)
    }

    /// The facts of both ends; each agent adds what else it records.
    pub(crate) fn into_facts(self, first: First, counted: &Counted) -> Facts {
        Facts {
            turn: Some(self.turn.unwrap_or_else(|| Turn::new(TurnState::NotBegun, self.updated_at))),
            started_at: first.start(),
            prompt: first.prompt,
            last_message: self.last_message,
            model: self.model,
            updated_at: self.updated_at,
            tokens: counted.tokens,
            cost: counted.cost,
            calls: (!counted.calls.is_empty()).then(|| counted.calls.clone()),
            ..Facts::default()
        }
    }
}

/// Reading backward, the first value counts; an empty one is ignored.
pub(crate) fn keep(slot: &mut Option<String>, value: Option<&str>) {
    if slot.is_none() {
        *slot = value.filter(|text| !text.is_empty()).map(|text| clean_cut(text, None));
    }
}

/// The evidence that the transcript gives.
pub(crate) fn evidence(facts: &Facts) -> Evidence {
    match &facts.turn {
        Some(turn) => Evidence::new(Witness::Transcript, Fact::TurnIs(turn.state), turn.last),
        None => Evidence::new(Witness::Transcript, Fact::TurnNotSaid, facts.updated_at),
    }
}
