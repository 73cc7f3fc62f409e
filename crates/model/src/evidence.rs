//! Evidence: which witness stated which fact, and when.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::TurnState;

/// Who testified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Witness {
    /// The process table, its locks and open files.
    Kernel,
    /// A file in which the agent itself names its process.
    Registry,
    /// The conversation the agent stored.
    Transcript,
    /// The agent's own database.
    Database,
    /// A server of the agent that was asked.
    Gateway,
    /// What agentctl wrote down when it launched the session.
    Launch,
}

impl Witness {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Registry => "registry",
            Self::Transcript => "transcript",
            Self::Database => "database",
            Self::Gateway => "gateway",
            Self::Launch => "launch",
        }
    }
}

/// What a witness stated. Common facts are variants and become text only when they are printed, so that ten thousand rows
/// do not store ten thousand sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// No process in the process table owns the session.
    NoProcess,
    /// The newest records leave the turn in this state.
    TurnIs(TurnState),
    /// The records do not show whether a turn is open.
    TurnNotSaid,
    /// The text of an adapter.
    Said(Cow<'static, str>),
}

impl fmt::Display for Fact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess => out.write_str("no live process carries this session"),
            Self::TurnIs(state) => write!(out, "last records: {}", state.describe()),
            Self::TurnNotSaid => out.write_str("the records do not say whether a turn is open"),
            Self::Said(words) => out.write_str(words),
        }
    }
}

/// One piece of evidence: a witness, its words, and when they were true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    pub source: Witness,
    #[serde(with = "fact_words")]
    #[schemars(with = "String")]
    pub fact: Fact,
    pub at: Option<Timestamp>,
}

impl Evidence {
    pub fn new(source: Witness, fact: Fact, at: Option<Timestamp>) -> Self {
        Self { source, fact, at }
    }

    pub fn said(source: Witness, words: impl Into<Cow<'static, str>>, at: Option<Timestamp>) -> Self {
        Self { source, fact: Fact::Said(words.into()), at }
    }
}

/// A fact is serialised as its text, and every text is read back as [`Fact::Said`].
mod fact_words {
    use super::Fact;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(fact: &Fact, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(fact)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fact, D::Error> {
        String::deserialize(from).map(|words| Fact::Said(words.into()))
    }
}
