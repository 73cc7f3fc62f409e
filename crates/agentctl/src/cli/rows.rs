//! Arranges the rows of a list. Pure.

use std::collections::{HashMap, HashSet};

use agentctl_model::Session;

use crate::render::sessions::Row;

/// The sessions in order, each at depth 0.
pub(crate) fn flat<S: AsRef<Session>>(sessions: &[S]) -> Vec<Row<'_>> {
    sessions.iter().map(|one| Row { session: one.as_ref(), depth: 0 }).collect()
}

/// Children directly under their parents. A child whose parent is not listed is a row at the top level.
pub(crate) fn tree<S: AsRef<Session>>(sessions: &[S]) -> Vec<Row<'_>> {
    let place = |session: &Session, id: &str| {
        (session.host.clone(), session.adapter.clone(), session.config_root.clone(), id.to_owned())
    };
    let listed: HashSet<_> =
        sessions.iter().map(AsRef::as_ref).map(|session| place(session, &session.id)).collect();
    let mut children: HashMap<_, Vec<&Session>> = HashMap::new();
    let mut roots = Vec::new();
    for session in sessions.iter().map(AsRef::as_ref) {
        let parent = session.parent_id.as_deref().filter(|id| *id != session.id).map(|id| place(session, id));
        match parent.filter(|parent| listed.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(session),
            None => roots.push(session),
        }
    }
    let mut rows = Vec::with_capacity(sessions.len());
    let mut open: Vec<(&Session, usize)> = roots.into_iter().rev().map(|session| (session, 0)).collect();
    while let Some((session, depth)) = open.pop() {
        rows.push(Row { session, depth });
        // Children are removed as they are shown, so that records which name each other as parents cannot
        // cause an endless loop.
        let below = children.remove(&place(session, &session.id)).unwrap_or_default();
        open.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
    }
    // The rest are such circles. They are shown all the same, because nothing that was found may be hidden.
    let circles = children.into_values().flatten();
    rows.extend(circles.map(|session| Row { session, depth: 0 }));
    rows
}

#[cfg(test)]
#[path = "rows_tests.rs"]
pub(crate) mod tests;
