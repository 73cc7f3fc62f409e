//! Tests of the tree of a list.

use agentctl_model::{Relation, Status};
use agentctl_testkit::sessions::{session, surveyed};

use super::*;

#[test]
fn children_stand_under_their_parents_and_circles_end() {
    let child = |id: &str, parent: &str| Session {
        parent_id: Some(parent.into()),
        relation: Some(Relation::Subagent),
        ..session(id, Status::Running, None)
    };
    let sessions: Vec<agentctl_model::Surveyed> = [
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
