//! The order of a list, and a maker of sessions for tests beside this one.

use agentctl_model::{Evidence, Relation, Rule, SessionKey, Tokens, Witness};

use super::*;

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
        slot: None,
    };
    Surveyed {
        key,
        session: Box::new(session),
        place: "/x".into(),
        rule: Rule::TurnOpen,
        carriers: Vec::new(),
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn ids(sessions: Vec<Session>, by: Sort) -> Vec<String> {
    let mut sessions: Vec<Surveyed> = sessions.into_iter().map(surveyed).collect();
    sort(&mut sessions, by);
    sessions.into_iter().map(|surveyed| surveyed.session.id).collect()
}

#[test]
fn who_needs_a_person_comes_first_and_the_longest_wait_before_all() {
    let waiting = |id: &str, since| Session { since, ..session(id, Status::Waiting, None) };
    let order = ids(
        vec![
            session("stopped-failed", Status::Stopped, Some(Outcome::Failed)),
            session("idle", Status::Idle, None),
            session("running", Status::Running, None),
            session("unknown", Status::Unknown, None),
            session("idle-failed", Status::Idle, Some(Outcome::Failed)),
            waiting("waits-unknown", None),
            waiting("waits-short", Some(at("2026-11-15T11:59:00Z"))),
            waiting("waits-long", Some(at("2026-11-15T09:00:00Z"))),
        ],
        Sort::Attention,
    );
    assert_eq!(
        order,
        [
            "waits-long",
            "waits-short",
            "waits-unknown",
            "idle-failed",
            "unknown",
            "running",
            "idle",
            "stopped-failed"
        ]
    );
}

#[test]
fn the_newest_activity_is_first_among_equals_and_unknown_is_last() {
    let stopped = |id: &str, updated_at| Session { updated_at, ..session(id, Status::Stopped, None) };
    let sessions = || {
        vec![
            stopped("none", None),
            stopped("old", Some(at("2026-01-01T00:00:00Z"))),
            stopped("new", Some(at("2026-11-01T00:00:00Z"))),
        ]
    };
    assert_eq!(ids(sessions(), Sort::Attention), ["new", "old", "none"]);
    assert_eq!(ids(sessions(), Sort::Updated), ["new", "old", "none"]);
}

#[test]
fn other_orders() {
    let tokens = |input| Some(Tokens { input: Some(input), ..Tokens::default() });
    let a = Session {
        name: Some("zebra".into()),
        cwd: None,
        tokens: tokens(5),
        ..session("a", Status::Running, None)
    };
    let b = Session { name: Some("Apple".into()), tokens: tokens(50), ..session("b", Status::Running, None) };
    let c = Session { prompt: None, ..session("c", Status::Running, None) };
    let order = |by| ids(vec![a.clone(), b.clone(), c.clone()], by).concat();
    assert_eq!(order(Sort::Name), "bac");
    assert_eq!(order(Sort::Cwd), "bca");
    assert_eq!(order(Sort::Tokens), "bac");
    assert_eq!(order(Sort::Started), "abc");
}

#[test]
fn children_stand_under_their_parents_and_circles_end() {
    let child = |id: &str, parent: &str| Session {
        parent_id: Some(parent.into()),
        relation: Some(Relation::Subagent),
        ..session(id, Status::Running, None)
    };
    let sessions: Vec<Surveyed> = [
        child("a1", "a"),
        session("a", Status::Running, None),
        child("a11", "a1"),
        session("b", Status::Running, None),
        child("orphan", "elsewhere"),
        child("x", "y"),
        child("y", "x"),
        child("self", "self"),
    ]
    .into_iter()
    .map(surveyed)
    .collect();
    let mut rows: Vec<(String, usize)> =
        tree(&sessions).iter().map(|row| (row.session.id.clone(), row.depth)).collect();
    let mut circle = rows.split_off(6);
    circle.sort();
    let expected = [("a", 0), ("a1", 1), ("a11", 2), ("b", 0), ("orphan", 0), ("self", 0)];
    assert_eq!(rows, expected.map(|(id, depth)| (id.to_owned(), depth)));
    assert_eq!(circle, [("x".to_owned(), 0), ("y".to_owned(), 0)]);
}
