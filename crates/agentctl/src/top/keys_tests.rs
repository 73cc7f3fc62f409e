use std::sync::Arc;
use std::time::Duration;

use agentctl_testkit::sessions::session;

use super::*;
use crate::top::rows::Row;
use crate::top::state::{Part, Sheet, Shown};

fn press(state: &mut State, letter: char, at: Instant) -> Option<Action> {
    pressed(state, KeyEvent::from(KeyCode::Char(letter)), at)
}

fn request(id: &str, words: &str) -> Pending {
    let pending = Pending::new(PendingKind::Approval, Some(words.to_owned()), None).answerable(true);
    Pending { id: Some(id.to_owned()), ..pending }
}

fn state(pending: Vec<Pending>) -> State {
    let now = "2026-11-15T12:00:00Z".parse().unwrap();
    let mut state = State::new("dev1".into(), now);
    tell(&mut state, pending);
    state
}

fn tell(state: &mut State, pending: Vec<Pending>) {
    let status = if pending.is_empty() { Status::Running } else { Status::Waiting };
    let capabilities = vec![Capability::Send, Capability::Stop, Capability::Interrupt];
    let session = Session { pending, capabilities, ..session("a", status, None) };
    let key =
        Key { host: "dev1".into(), adapter: "x".into(), root: "/r".into(), id: "a".into(), variant: None };
    let row = Row { key, session: Arc::new(session), ahead: jiff::SignedDuration::ZERO, old: None };
    state.hear("", Part { rows: vec![row], ..Part::default() });
}

/// A frame that showed the request of the row under the cursor to its end.
fn show(state: &mut State, at: Instant) {
    let request = state.cursor.clone().zip(state.request().cloned());
    state.saw(Shown { request, list: 5, ..Shown::default() }, at);
}

const A_SECOND: Duration = Duration::from_secs(1);

/// Yes means the request that was on the screen, and no other.
#[test]
fn only_what_was_shown_whole_is_approved() {
    let mut state = state(vec![request("r1", "Bash: rm -rf build")]);
    let start = Instant::now();
    assert_eq!(press(&mut state, 'y', start), None, "nothing was drawn yet");
    assert_eq!(state.view, View::Request, "it is shown instead");
    state.open(View::List);
    show(&mut state, start);
    assert_eq!(press(&mut state, 'y', start), None, "it came this very moment");
    show(&mut state, start + A_SECOND);
    let Some(Action::Do(Deed::Answer { shown, decision, .. })) = press(&mut state, 'y', start + A_SECOND)
    else {
        panic!("{:?}", state.message)
    };
    assert_eq!((shown.id.as_deref(), decision), (Some("r1"), Decision::AllowOnce));
    // Another request takes its place: the same key, pressed again, does not approve it.
    tell(&mut state, vec![request("r2", "Bash: rm -rf /")]);
    assert_eq!(press(&mut state, 'y', start + A_SECOND * 2), None);
    state.open(View::List);
    show(&mut state, start + A_SECOND * 2);
    assert_eq!(press(&mut state, 'y', start + A_SECOND * 2), None);
    assert!(press(&mut state, 'y', start + A_SECOND * 3).is_some());
}

#[test]
fn words_go_to_the_request_that_was_there_when_they_were_begun() {
    let question = Pending { kind: PendingKind::Question, ..request("q1", "which one?") };
    let mut state = state(vec![question]);
    let now = Instant::now();
    press(&mut state, 'a', now);
    for letter in "first".chars() {
        press(&mut state, letter, now);
    }
    tell(&mut state, vec![Pending { kind: PendingKind::Question, ..request("q2", "really?") }]);
    let entered = pressed(&mut state, KeyEvent::from(KeyCode::Enter), now);
    let Some(Action::Do(Deed::Answer { shown, decision, .. })) = entered else { panic!("{entered:?}") };
    assert_eq!((shown.id.as_deref(), decision), (Some("q1"), Decision::Text("first".into())));
}

#[test]
fn a_stop_is_asked_for_twice_within_two_seconds() {
    let mut state = state(Vec::new());
    let start = Instant::now();
    assert_eq!(press(&mut state, 'x', start), None);
    assert_eq!(press(&mut state, 'x', start + A_SECOND * 3), None, "too late counts as the first");
    assert!(matches!(press(&mut state, 'x', start + A_SECOND * 4), Some(Action::Do(Deed::Stop { .. }))));
    assert_eq!(press(&mut state, 'x', start), None);
    press(&mut state, 'j', start);
    assert_eq!(press(&mut state, 'x', start), None, "another key between them");
}

#[test]
fn what_is_typed_or_pasted_is_no_key() {
    let mut state = state(Vec::new());
    let now = Instant::now();
    pasted(&mut state, "qqxxyy");
    assert!(state.stopping.is_none());
    assert_eq!(press(&mut state, 's', now), None);
    for letter in "quit xx".chars() {
        assert_eq!(press(&mut state, letter, now), None);
    }
    pasted(&mut state, "\nline");
    let entered = pressed(&mut state, KeyEvent::from(KeyCode::Enter), now);
    let Some(Action::Do(Deed::Send { words, .. })) = entered else { panic!("{entered:?}") };
    assert_eq!(words, "quit xx\nline");
    assert_eq!(press(&mut state, 'q', now), Some(Action::Quit));
}

#[test]
fn what_a_session_does_not_offer_is_said() {
    let mut state = state(Vec::new());
    let now = Instant::now();
    assert_eq!(press(&mut state, 'r', now), None);
    assert_eq!(state.message.clone().unwrap().words, "it is live; s sends a message");
    assert_eq!(press(&mut state, 'y', now), None);
    assert_eq!(state.message.clone().unwrap().words, "it waits for nothing");
    let key = state.cursor.clone().unwrap();
    assert_eq!(press(&mut state, 'w', now), Some(Action::Do(Deed::Page { key })));
    press(&mut state, 'e', now);
    assert_eq!(state.view, View::Evidence);
    pressed(&mut state, KeyEvent::from(KeyCode::Esc), now);
    assert_eq!(state.view, View::List);
}

/// The changes of one session are asked for, and those of another before they came.
#[test]
fn a_late_answer_is_not_shown_under_the_name_of_another() {
    let mut state = state(Vec::new());
    let now = Instant::now();
    let first = state.selected().unwrap().clone();
    let mut second = first.clone();
    second.key.id = "b".into();
    state.hear("", Part { rows: vec![first, second], ..Part::default() });
    let asked = |state: &mut State| match press(state, 'd', now) {
        Some(Action::Ask(question)) => question,
        other => panic!("{other:?}"),
    };
    let early = asked(&mut state);
    pressed(&mut state, KeyEvent::from(KeyCode::Esc), now);
    press(&mut state, 'j', now);
    let late = asked(&mut state);
    assert_ne!(early, late);
    state.hear_sheet(&early, Ok(vec!["of a".into()]));
    assert_eq!(state.sheet, Some(Sheet::Asked));
    state.hear_sheet(&late, Ok(vec!["of b".into()]));
    state.hear_sheet(&early, Err("a is gone".into()));
    assert_eq!(state.sheet, Some(Sheet::Told(vec!["of b".into()])));
}
