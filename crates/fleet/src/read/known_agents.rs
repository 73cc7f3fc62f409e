//! Which agents are known and what can be done with each, as data.

use agentctl_adapters::agents::acp::AcpAgent;
use agentctl_adapters::{Adapter, Card};
use agentctl_model::{Capability, Way};
use schemars::JsonSchema;
use serde::Serialize;

use super::survey::held_capabilities;

/// One adapter, as `adapters --json` prints it and `GET /v1/adapters` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdapterEntry {
    pub name: String,
    pub title: String,
    pub programs: Vec<String>,
    /// Versions whose storage was observed.
    pub known_good: String,
    /// What can be done with its sessions at all. Of an agent over ACP: what every such session has. The agent itself
    /// says what it offers beside that.
    pub capabilities: Vec<Capability>,
    /// Where its sessions can be spoken with, and what works there.
    pub ways: &'static [Way],
    /// Observed on the real agent; false: read in its source only.
    pub verified: bool,
    /// False when the settings turn it off.
    pub enabled: bool,
    /// The adapter under whose name its sessions are listed; `null`: its own.
    pub native: Option<String>,
}

/// Returns all adapters: those of the registry, and the agents that can be started over ACP. The settings decide which of
/// them are enabled.
pub fn known_agents(acp: &[AcpAgent], enabled: impl Fn(&str) -> bool) -> Vec<AdapterEntry> {
    let cards: Vec<&'static Card> = agentctl_adapters::registry().into_iter().map(Adapter::card).collect();
    let native = cards.iter().map(|card| AdapterEntry {
        name: card.name.to_owned(),
        title: card.title.to_owned(),
        programs: card.programs.iter().map(|&program| program.to_owned()).collect(),
        known_good: card.known_good.to_owned(),
        capabilities: card.all_capabilities(),
        ways: card.ways,
        verified: card.verified,
        enabled: enabled(card.name),
        native: None,
    });
    let over_acp = acp.iter().map(|agent| {
        let reader = agent.native.and_then(|native| cards.iter().find(|card| card.name == native));
        let of_reader = reader.map_or(&[Capability::Stop][..], |card| card.capabilities);
        let mut capabilities = held_capabilities(of_reader);
        // A copy of a session is made in the agent's own way.
        capabilities.retain(|capability| *capability != Capability::Fork);
        AdapterEntry {
            name: agent.name.clone(),
            title: agent.title.clone(),
            programs: vec![agent.program().to_owned()],
            known_good: agent.known_good.to_owned(),
            capabilities,
            ways: agentctl_adapters::ways::OVER_ACP,
            verified: !agent.known_good.is_empty(),
            enabled: agent.native.is_none_or(&enabled),
            native: agent.native.map(str::to_owned),
        }
    });
    native.chain(over_acp).collect()
}
