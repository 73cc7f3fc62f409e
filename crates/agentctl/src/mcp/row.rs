//! A session in few words, for lists.

use agentctl_model::{Capability, Outcome, PendingKind, Session, Status, text};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// How much of a text a list shows.
const CUT: usize = 120;

/// One session in few words; `session_status` tells the rest.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionRow {
    /// The id by which every tool takes it: the agent's own, with HOST/ before it on another machine.
    pub(super) id: String,
    adapter: String,
    /// The machine it is on.
    host: String,
    pub(super) status: Status,
    /// How its last turn ended; `null` while one is open.
    pub(super) outcome: Option<Outcome>,
    /// In this status since.
    since: Option<Timestamp>,
    /// What it waits for a person to do; `inbox` and `session_status` show it whole.
    waits_for: Vec<PendingKind>,
    /// What it was called or first told, cut.
    title: Option<String>,
    /// The last text of the agent, cut.
    last_message: Option<String>,
    cwd: Option<String>,
    branch: Option<String>,
    model: Option<String>,
    updated_at: Option<Timestamp>,
    group: Option<String>,
    parent_id: Option<String>,
    /// What can be done with it now.
    capabilities: Vec<Capability>,
}

impl SessionRow {
    pub(super) fn of(id: String, session: &Session) -> Self {
        let short = |words: &Option<String>| words.as_deref().map(short);
        Self {
            id,
            adapter: session.adapter.clone(),
            host: session.host.clone(),
            status: session.status,
            outcome: session.outcome,
            since: session.since,
            waits_for: session.pending.iter().map(|pending| pending.kind).collect(),
            title: short(&session.name).or_else(|| short(&session.prompt)),
            last_message: short(&session.last_message),
            cwd: session.cwd.clone(),
            branch: session.branch.clone(),
            model: session.model.clone(),
            updated_at: session.updated_at,
            group: session.group.clone(),
            parent_id: session.parent_id.clone(),
            capabilities: session.capabilities.clone(),
        }
    }
}

/// The same on one line of text.
pub(super) fn line(id: &str, session: &Session) -> String {
    let title = session.name.as_deref().or(session.prompt.as_deref()).map(short).unwrap_or_default();
    let outcome = session.outcome.map(|outcome| format!("/{}", outcome.as_str())).unwrap_or_default();
    let words = [
        id,
        &format!("{}{outcome}", session.status.as_str()),
        &session.adapter,
        session.cwd.as_deref().unwrap_or("-"),
        &title,
    ];
    text::one_line(&words.join("  "))
}

fn short(words: &str) -> String {
    let line = text::one_line(words);
    match line.char_indices().nth(CUT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
