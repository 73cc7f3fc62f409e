//! Which agents are known and what can be done with each, as data.

use agentctl_model::{Capability, Way};
use schemars::JsonSchema;
use serde::Serialize;

/// One adapter, as `adapters --json` prints it and `GET /v1/adapters` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterEntry {
    pub name: &'static str,
    pub title: &'static str,
    pub programs: &'static [&'static str],
    /// Versions whose storage was observed.
    pub known_good: &'static str,
    /// What can be done with its sessions at all.
    pub capabilities: Vec<Capability>,
    /// Where its sessions can be spoken with, and what works there.
    pub ways: &'static [Way],
    /// Observed on the real agent; false: read in its source only.
    pub verified: bool,
    /// False when the settings turn it off.
    pub enabled: bool,
}

/// Returns all adapters; the settings decide which of them are enabled.
pub fn known_agents(enabled: impl Fn(&str) -> bool) -> Vec<AdapterEntry> {
    let entry = |adapter: &'static dyn agentctl_adapters::Adapter| {
        let card = adapter.card();
        AdapterEntry {
            name: card.name,
            title: card.title,
            programs: card.programs,
            known_good: card.known_good,
            capabilities: card.all_capabilities(),
            ways: card.ways,
            verified: card.verified,
            enabled: enabled(card.name),
        }
    };
    agentctl_adapters::registry().into_iter().map(entry).collect()
}
