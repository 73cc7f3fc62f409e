//! In which order a list shows its sessions. Pure.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use agentctl_model::{Outcome, Session, Status, Surveyed};
use clap::ValueEnum;
use jiff::Timestamp;

use crate::render::sessions::{Row, total_tokens};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Who needs a person first, longest wait first.
    #[default]
    Attention,
    /// Last activity, newest first.
    Updated,
    /// Newest first.
    Started,
    /// Name or prompt, A to Z.
    Name,
    /// Folder, newest activity first within one.
    Cwd,
    /// Most first; give --usage so that all are known.
    Tokens,
}

pub(crate) fn sort(sessions: &mut Vec<Surveyed>, by: Sort) {
    match by {
        Sort::Attention => by_key(sessions, attention),
        Sort::Updated => by_key(sessions, |session| Reverse(session.updated_at)),
        Sort::Started => by_key(sessions, |session| Reverse(session.started_at)),
        Sort::Name => by_key(sessions, |session| {
            let title = session.name.as_ref().or(session.prompt.as_ref());
            (title.is_none(), title.map(|title| title.to_lowercase()))
        }),
        Sort::Cwd => by_key(sessions, |session| {
            (session.cwd.is_none(), session.cwd.clone(), Reverse(session.updated_at))
        }),
        Sort::Tokens => by_key(sessions, |session| Reverse(session.tokens.as_ref().map(total_tokens))),
    }
}

/// The id is the last word, so that a watch does not dance.
fn by_key<K: Ord>(sessions: &mut Vec<Surveyed>, key: impl Fn(&Session) -> K) {
    // The keys stand beside each other: looking into thousands of sessions for each comparison is slow.
    let mut keyed: Vec<(K, Surveyed)> =
        std::mem::take(sessions).into_iter().map(|surveyed| (key(&surveyed.session), surveyed)).collect();
    keyed.sort_unstable_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.key.cmp(&other.key)));
    *sessions = keyed.into_iter().map(|(_, surveyed)| surveyed).collect();
}

/// Waiting, live ones whose last turn went wrong, those of which nothing is known, then working, idle, stopped.
/// What failed and stopped is history: it must not push live rows off the screen.
fn attention(session: &Session) -> (u8, Option<Timestamp>, Reverse<Option<Timestamp>>) {
    let went_wrong = matches!(session.outcome, Some(Outcome::Failed | Outcome::Died));
    let rank = match session.status {
        Status::Waiting => 0,
        Status::Idle if went_wrong => 1,
        Status::Unknown => 2,
        Status::Running => 3,
        Status::Idle => 4,
        Status::Stopped => 5,
    };
    // A wait of unknown length comes after the known ones.
    let key = (session.status == Status::Waiting).then(|| session.since.unwrap_or(Timestamp::MAX));
    (rank, key, Reverse(session.updated_at))
}

/// The sessions in order, each with its depth 0.
pub(crate) fn flat(sessions: &[Surveyed]) -> Vec<Row<'_>> {
    sessions.iter().map(|surveyed| Row { session: &surveyed.session, depth: 0 }).collect()
}

/// Children directly under their parents; a child whose parent is not listed stands for itself.
pub(crate) fn tree(sessions: &[Surveyed]) -> Vec<Row<'_>> {
    let place =
        |session: &Session, id: &str| (session.adapter.clone(), session.config_root.clone(), id.to_owned());
    let listed: HashSet<_> = sessions.iter().map(|s| place(&s.session, &s.session.id)).collect();
    let mut children: HashMap<_, Vec<&Session>> = HashMap::new();
    let mut roots = Vec::new();
    for session in sessions.iter().map(|surveyed| &*surveyed.session) {
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
        // Removed as they are shown, so that records which name each other as parents cannot go round for ever.
        let below = children.remove(&place(session, &session.id)).unwrap_or_default();
        open.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
    }
    // What is left are such circles: shown all the same, because nothing that was found may be hidden.
    let circles = children.into_values().flatten();
    rows.extend(circles.map(|session| Row { session, depth: 0 }));
    rows
}

#[cfg(test)]
#[path = "order_tests.rs"]
pub(crate) mod tests;
