use std::sync::Arc;

use agentctl_model::{Outcome, Road, Session};
use agentctl_testkit::sessions::session;
use proptest::prelude::*;

use super::*;

const NOW: &str = "2026-11-15T12:00:00Z";

fn key(id: &str) -> Key {
    Key {
        host: "dev1".into(),
        adapter: "claude-code".into(),
        root: "/r".into(),
        id: id.into(),
        variant: None,
    }
}

fn row(id: &str, status: Status, since: i64) -> Row {
    let now: Timestamp = NOW.parse().unwrap();
    let since = Timestamp::from_second(now.as_second() - since).unwrap();
    let outcome = (status == Status::Stopped).then_some(Outcome::Completed);
    let session = Session { since: Some(since), updated_at: Some(since), ..session(id, status, outcome) };
    Row { key: key(id), session: Arc::new(session), ahead: jiff::SignedDuration::ZERO, old: None }
}

fn state(rows: Vec<Row>) -> State {
    let mut state = State::new("dev1".into(), NOW.parse().unwrap());
    tell(&mut state, rows);
    state
}

fn tell(state: &mut State, rows: Vec<Row>) {
    state.hear("", Part { rows, ..Part::default() });
}

fn ids(state: &State) -> Vec<&str> {
    state.order.iter().map(|key| key.id.as_str()).collect()
}

#[test]
fn who_waits_longest_stands_first_and_who_ended_last() {
    let state = state(vec![
        row("done", Status::Stopped, 10),
        row("idle", Status::Idle, 480),
        row("new", Status::Running, 41),
        row("short", Status::Waiting, 120),
        row("old", Status::Running, 180),
        row("long", Status::Waiting, 1020),
    ]);
    assert_eq!(ids(&state), ["long", "short", "new", "old", "idle", "done"]);
    assert_eq!(state.counts().waiting, 2);
    assert_eq!(state.title(), "◐ 2 · agentctl");
}

/// The order changes only when the cursor leaves; what is new is below it, and nothing is lost.
#[test]
fn the_row_under_the_cursor_stays_where_it_is() {
    let mut state =
        state(vec![row("a", Status::Running, 10), row("b", Status::Running, 20), row("c", Status::Idle, 30)]);
    state.move_to(1);
    assert_eq!(state.cursor, Some(key("b")));
    let waiting = vec![
        row("a", Status::Running, 10),
        row("b", Status::Running, 20),
        row("c", Status::Waiting, 5),
        row("d", Status::Waiting, 300),
    ];
    tell(&mut state, waiting);
    assert_eq!(ids(&state), ["a", "b", "d", "c"]);
    assert!(state.order_waits);
    state.move_by(1);
    assert_eq!(ids(&state), ["d", "c", "a", "b"]);
    assert_eq!(state.cursor, Some(key("d")));
    assert!(!state.order_waits);
}

#[test]
fn a_cursor_whose_row_is_gone_takes_the_next_one() {
    let mut state = state(vec![row("a", Status::Running, 10), row("b", Status::Running, 20)]);
    tell(&mut state, vec![row("b", Status::Running, 20)]);
    assert_eq!(state.cursor, Some(key("b")));
    tell(&mut state, Vec::new());
    assert_eq!((state.cursor.clone(), ids(&state).len()), (None, 0));
}

#[test]
fn what_is_not_heard_stays_and_is_marked_as_old() {
    let mut state = State::new("dev1".into(), NOW.parse().unwrap());
    let mut there = row("x", Status::Running, 9);
    there.key.host = "box".into();
    let heard_at: Option<Timestamp> = Some(NOW.parse().unwrap());
    let mut host = HostReport::unheard("box".into(), Road::Ssh);
    host.coverage = CoverageKind::Complete;
    state.hear("box", Part { rows: vec![there], hosts: vec![host.clone()], heard_at, ..Part::default() });
    assert!(state.unheard().is_empty());
    (host.coverage, host.error) = (CoverageKind::Failed, Some("connection timed out".into()));
    for _ in 0..3 {
        state.hear("box", Part { hosts: vec![host.clone()], heard_at, ..Part::default() });
        let kept: Vec<Option<Timestamp>> = state.rows().map(|row| row.old).collect();
        assert_eq!(kept, [heard_at]);
        assert_eq!(state.unheard()[0].1, "connection timed out");
    }
    (host.coverage, host.error) = (CoverageKind::Complete, None);
    state.hear("box", Part { hosts: vec![host], heard_at, ..Part::default() });
    assert_eq!(state.rows().count(), 0);
}

#[test]
fn what_is_looked_for_is_all_that_is_shown_until_it_is_taken_back() {
    let mut state = state(vec![row("abc", Status::Running, 10), row("xyz", Status::Running, 20)]);
    state.look_for("xyz".into());
    assert_eq!(ids(&state), ["xyz"]);
    assert_eq!(state.cursor, Some(key("xyz")));
    state.look_for("nothing-like-it".into());
    assert_eq!(ids(&state).len(), 0);
    state.look_for(String::new());
    assert_eq!(ids(&state).len(), 2);
}

fn statuses() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::Running), Just(Status::Waiting), Just(Status::Idle), Just(Status::Stopped)]
}

proptest! {
    /// A thousand changes in a row, with keys between them: each row is there once, shows what was told last, and the one
    /// under the cursor is never moved by what others do.
    #[test]
    fn no_row_is_ever_wrong(
        steps in prop::collection::vec((prop::collection::vec((0..12_u8, statuses(), 0..2000_i64), 0..12), -2..3_isize), 1..200)
    ) {
        let mut state = state(Vec::new());
        for (told, moves) in steps {
            let mut rows: Vec<Row> = Vec::new();
            for (id, status, since) in told {
                let new = row(&format!("s{id}"), status, since);
                if !rows.iter().any(|known| known.key == new.key) {
                    rows.push(new);
                }
            }
            let before = state.cursor.clone().zip(state.index());
            let above: Vec<Key> = state.order.iter().take(state.index().unwrap_or(0)).cloned().collect();
            tell(&mut state, rows.clone());
            let mut shown: Vec<&Key> = state.order.iter().collect();
            shown.sort();
            let mut wanted: Vec<&Key> = rows.iter().map(|row| &row.key).collect();
            wanted.sort();
            prop_assert_eq!(shown, wanted);
            for row in &rows {
                prop_assert_eq!(&state.row(&row.key).unwrap().session, &row.session);
            }
            if let Some((cursor, index)) = before.filter(|(cursor, _)| rows.iter().any(|row| row.key == *cursor)) {
                prop_assert_eq!(state.cursor.as_ref(), Some(&cursor));
                let gone = above.iter().filter(|key| !rows.iter().any(|row| row.key == **key)).count();
                prop_assert!(state.index() == Some(index) || state.index() == Some(index - gone));
            }
            state.move_by(moves);
            prop_assert_eq!(state.cursor.is_some(), !state.order.is_empty());
        }
    }
}
