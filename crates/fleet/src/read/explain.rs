//! Why a session has its status, as data.

use agentctl_model::{Evidence, Outcome, Rule, SourceReport, Status, Surveyed};
use schemars::JsonSchema;
use serde::Serialize;

/// What `explain --json` prints and `GET /v1/sessions/{id}/explain` answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation<'a> {
    id: &'a str,
    adapter: &'a str,
    config_root: &'a str,
    status: Status,
    outcome: Option<Outcome>,
    status_detail: Option<&'a str>,
    /// Which line of the law decided.
    rule: Rule,
    /// The same in words.
    rule_text: &'static str,
    /// Strongest first; never empty.
    evidence: &'a [Evidence],
    sources: &'a [SourceReport],
}

impl<'a> Explanation<'a> {
    pub fn of(found: &'a Surveyed, sources: &'a [SourceReport]) -> Self {
        let session = &found.session;
        Self {
            id: &session.id,
            adapter: &session.adapter,
            config_root: &session.config_root,
            status: session.status,
            outcome: session.outcome,
            status_detail: session.status_detail.as_deref(),
            rule: found.rule,
            rule_text: found.rule.describe(),
            evidence: &session.evidence,
            sources,
        }
    }
}
