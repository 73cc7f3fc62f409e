//! Made-up sessions, for tests that look at a survey and need no storage.

use agentctl_model::{Evidence, Outcome, Rule, Session, SessionKey, Status, Surveyed, Witness};

/// A session of Claude Code without processes. A test sets the fields it is about.
///
/// # Panics
///
/// If the model demands a field that is missing here.
pub fn session(id: &str, status: Status, outcome: Option<Outcome>) -> Session {
    let value = serde_json::json!({
        "id": id, "adapter": "claude-code", "configRoot": "/home/dev/.claude", "status": status, "outcome": outcome,
        "pending": [], "prompt": "Fix the auth bug", "cwd": "/home/dev/work/mono/services/auth",
        "updatedAt": "2026-11-15T11:59:30Z", "processes": [], "capabilities": [],
        "evidence": [Evidence::said(Witness::Kernel, "looked", None)], "meta": {}
    });
    serde_json::from_value(value).expect("a whole session")
}

/// The session as a survey returns it, under the key that its fields name.
pub fn surveyed(session: Session) -> Surveyed {
    let key = SessionKey {
        adapter: session.adapter.clone(),
        root: session.config_root.clone(),
        id: session.id.clone(),
        variant: None,
    };
    Surveyed {
        key,
        session: Box::new(session),
        place: "/x".into(),
        rule: Rule::TurnOpen,
        owners: Vec::new(),
        calls: None,
    }
}
