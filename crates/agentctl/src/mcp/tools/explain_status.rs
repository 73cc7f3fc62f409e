//! `explain_status`: what `agentctl explain` says.

use agentctl_fleet::Purpose;
use agentctl_model::{Error, Evidence, Outcome, Rule, Status};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Card, Request, Told, TypedTool, Which};
use crate::mcp::desk::{Desk, Target};

pub(super) struct ExplainStatus;

/// Why the session has its status.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    id: String,
    adapter: String,
    status: Status,
    outcome: Option<Outcome>,
    status_detail: Option<String>,
    /// Which line of the law decided.
    rule: Rule,
    /// The same in words.
    rule_text: &'static str,
    /// What each witness said, strongest first.
    evidence: Vec<Evidence>,
}

impl TypedTool for ExplainStatus {
    const CARD: Card = Card {
        name: "explain_status",
        title: "Explain a status",
        about: "Says why a session has its status: each witness, what it said, when, and which rule decided.",
        needs: None,
        ends_work: false,
    };
    type Takes = Which;
    type Gives = Gives;

    fn run(
        desk: &Desk,
        Which { id, adapter, cwd }: Which,
        _request: &Request<'_>,
    ) -> Result<Told<Gives>, Error> {
        let _look = desk.look();
        let found = desk.find(&Target { id, adapter, cwd }, Purpose::Read, &desk.link()?)?;
        let (id, rule) = (found.id(), found.found.rule);
        let session = *found.found.session;
        let headline = format!("{}: {}", session.status.as_str(), rule.describe());
        let lines = session.evidence.iter().map(|one| format!("{}: {}", one.source.as_str(), one.fact));
        let body = lines.collect::<Vec<_>>().join("\n");
        let data = Gives {
            id,
            adapter: session.adapter,
            status: session.status,
            outcome: session.outcome,
            status_detail: session.status_detail,
            rule,
            rule_text: rule.describe(),
            evidence: session.evidence,
        };
        Ok(Told { data, headline, body })
    }
}
