//! What sessions have spent: the model calls that their agents recorded, each counted once.

pub mod count;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::session::Tokens;

pub use count::{
    Basis, By, CallPrice, Counting, Part, Priced, Spender, Total, UsageReport, UsageRow, Window, count,
};

/// One call of a model, as the agent's own records tell it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Call {
    /// When its first record was written.
    pub at: Option<Timestamp>,
    /// The model, spelled as in the session object.
    pub model: Option<Arc<str>>,
    pub tokens: Tokens,
    /// In dollars, if the agent records the cost of each call.
    pub cost: Option<f64>,
    /// What every copy of this call has in common, and no other call; `None` where nothing tells copies.
    pub name: Option<u64>,
    /// The sub-agent that made it, where the agent keeps the records of its sub-agents in those of the session.
    pub agent: Option<Box<str>>,
}

/// The hasher of maps whose keys are hashes already.
pub type ByHash = std::hash::BuildHasherDefault<Hashed>;

/// Takes a hash as it is.
#[derive(Debug, Default)]
pub struct Hashed(u64);

impl std::hash::Hasher for Hashed {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Tokens {
    /// The sum of two counts; what neither of them contains stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            input: add(self.input, other.input),
            output: add(self.output, other.output),
            cache_read: add(self.cache_read, other.cache_read),
            cache_write: add(self.cache_write, other.cache_write),
        }
    }

    /// What this count has more than another one.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        let less =
            |own: Option<u64>, other: Option<u64>| own.map(|own| own.saturating_sub(other.unwrap_or(0)));
        Self {
            input: less(self.input, other.input),
            output: less(self.output, other.output),
            cache_read: less(self.cache_read, other.cache_read),
            cache_write: less(self.cache_write, other.cache_write),
        }
    }

    /// All tokens that are reported.
    pub fn sum(self) -> u64 {
        let parts = [self.input, self.output, self.cache_read, self.cache_write];
        parts.into_iter().flatten().fold(0, u64::saturating_add)
    }
}
