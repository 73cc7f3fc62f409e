//! The orders in which a list can show its sessions. Pure.

use std::cmp::Reverse;

use agentctl_model::{Outcome, Session, Status, Tokens};
use jiff::Timestamp;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Attention,
    Updated,
    Started,
    Name,
    Cwd,
    Tokens,
}

impl Sort {
    pub const ALL: [Self; 6] =
        [Self::Attention, Self::Updated, Self::Started, Self::Name, Self::Cwd, Self::Tokens];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Updated => "updated",
            Self::Started => "started",
            Self::Name => "name",
            Self::Cwd => "cwd",
            Self::Tokens => "tokens",
        }
    }

    /// Describes what comes first in this order.
    pub fn help(self) -> &'static str {
        match self {
            Self::Attention => "Who needs a person first, longest wait first",
            Self::Updated => "Last activity, newest first",
            Self::Started => "Newest first",
            Self::Name => "Name or prompt, A to Z",
            Self::Cwd => "Folder, newest activity first within one",
            Self::Tokens => "Most first; give --usage so that all are known",
        }
    }

    pub fn parse(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|sort| sort.as_str() == word).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|sort| sort.as_str()).collect();
            format!("expected one of {}", known.join(", "))
        })
    }
}

pub fn sort<T: AsRef<Session>>(sessions: &mut [T], by: Sort) {
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
        Sort::Tokens => by_key(sessions, |session| Reverse(session.tokens.as_ref().map(total))),
    }
}

/// Sorts by the key, and by the id where keys are equal, so that the rows of `--watch` do not change places. Each key
/// is computed once, and the small keys are sorted instead of the sessions, because a session is many times as big.
fn by_key<T: AsRef<Session>, K: Ord>(sessions: &mut [T], key: impl Fn(&Session) -> K) {
    let identity = |place: usize| {
        let session = sessions[place].as_ref();
        (&session.adapter, &session.config_root, &session.id, &session.host)
    };
    let mut order: Vec<(K, usize)> =
        sessions.iter().enumerate().map(|(place, one)| (key(one.as_ref()), place)).collect();
    order.sort_unstable_by(|(a, at), (b, bt)| {
        a.cmp(b).then_with(|| identity(*at).cmp(&identity(*bt))).then(at.cmp(bt))
    });
    let mut from: Vec<usize> = order.into_iter().map(|(_, place)| place).collect();
    // This walks each cycle of the permutation once; a position that is done points to itself.
    for start in 0..from.len() {
        let mut to = start;
        while from[to] != start {
            let next = from[to];
            sessions.swap(to, next);
            from[to] = to;
            to = next;
        }
        from[to] = to;
    }
}

/// Waiting sessions come first, then live ones whose last turn went wrong, then unknown, running, idle and stopped
/// ones. A session that failed and stopped is history and must not push live rows off the screen.
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
    // A wait of unknown length sorts after the known ones.
    let key = (session.status == Status::Waiting).then(|| session.since.unwrap_or(Timestamp::MAX));
    (rank, key, Reverse(session.updated_at))
}

/// All tokens that are known, as one number.
fn total(tokens: &Tokens) -> u64 {
    [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write].into_iter().flatten().sum()
}

#[cfg(test)]
mod tests {
    use agentctl_model::Surveyed;

    use super::*;
    use agentctl_testkit::sessions::{session, surveyed};

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn any_order_is_put_right() {
        for seed in 1..40_u64 {
            let number = |place: u64| (place * 7919 * seed) % 101 % 13;
            let rows = (0..60).map(|place| Session {
                started_at: Timestamp::from_second(i64::try_from(number(place)).unwrap()).ok(),
                ..session(&format!("{place:02}"), Status::Stopped, None)
            });
            let rows: Vec<Session> = rows.collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| (Reverse(row.started_at), row.id.clone()));
            let expected: Vec<String> = expected.into_iter().map(|row| row.id).collect();
            assert_eq!(ids(rows, Sort::Started), expected, "seed {seed}");
        }
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
        let b =
            Session { name: Some("Apple".into()), tokens: tokens(50), ..session("b", Status::Running, None) };
        let c = Session { prompt: None, ..session("c", Status::Running, None) };
        let order = |by| ids(vec![a.clone(), b.clone(), c.clone()], by).concat();
        assert_eq!(order(Sort::Name), "bac");
        assert_eq!(order(Sort::Cwd), "bca");
        assert_eq!(order(Sort::Tokens), "bac");
        assert_eq!(order(Sort::Started), "abc");
    }
}
