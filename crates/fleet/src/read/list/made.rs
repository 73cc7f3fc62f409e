//! Makes sessions for the tests of this directory.

use agentctl_model::{Evidence, Outcome, Rule, Session, SessionKey, Status, Surveyed, Witness};

pub(crate) fn session(id: &str, status: Status, outcome: Option<Outcome>) -> Session {
    let value = serde_json::json!({
        "id": id, "adapter": "claude-code", "configRoot": "/home/dev/.claude", "status": status, "outcome": outcome,
        "pending": [], "prompt": "Fix the auth bug", "cwd": "/home/dev/work/mono/services/auth",
        "updatedAt": "2026-11-15T11:59:30Z", "processes": [], "capabilities": [],
        "evidence": [Evidence::said(Witness::Kernel, "looked", None)], "meta": {}
    });
    serde_json::from_value(value).unwrap()
}

pub(crate) fn surveyed(session: Session) -> Surveyed {
    let key = SessionKey {
        adapter: session.adapter.clone(),
        root: session.config_root.clone(),
        id: session.id.clone(),
        variant: None,
    };
    Surveyed { key, session: Box::new(session), place: "/x".into(), rule: Rule::TurnOpen, owners: Vec::new() }
}
