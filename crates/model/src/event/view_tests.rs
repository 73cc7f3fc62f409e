//! Tests random histories of sessions, read through sources that fail at random.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::evidence::{Evidence, Witness};
use crate::session::{NativeSession, PendingKind};
use crate::status::Rule;
use crate::survey::{Coverage, Surveyed};

const ROOTS: [&str; 2] = ["/one", "/two"];

fn surveyed(root: &str, id: u8, status: Status) -> Surveyed {
    let value = serde_json::json!({
        "id": id.to_string(), "adapter": "a", "configRoot": root, "status": status, "outcome": null, "pending": [],
        "pid": (status != Status::Stopped).then_some(1), "processes": [], "capabilities": [],
        "evidence": [Evidence::said(Witness::Kernel, "looked", None)], "meta": {}
    });
    let session = serde_json::from_value(value).unwrap();
    Surveyed {
        key: key(root, id),
        session: Box::new(session),
        place: "/x".into(),
        rule: Rule::TurnOpen,
        owners: Vec::new(),
        calls: None,
    }
}

fn key(root: &str, id: u8) -> SessionKey {
    SessionKey { adapter: "a".into(), root: root.into(), id: id.to_string(), variant: None }
}

fn report(root: &str, coverage: &Coverage) -> SourceReport {
    SourceReport {
        adapter: "a".into(),
        host: String::new(),
        root: root.into(),
        coverage: coverage.kind(),
        error: coverage.error(),
        warnings: vec![],
        sessions: None,
        took_ms: 1,
    }
}

fn survey(sessions: Vec<Surveyed>, coverages: &[Coverage]) -> Survey {
    let sources = ROOTS.iter().zip(coverages).map(|(root, coverage)| report(root, coverage)).collect();
    Survey { sessions, sources, ..Survey::default() }
}

fn kinds(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

/// The true status of every session that exists, by root and id.
type Truth = BTreeMap<(usize, u8), Status>;

/// What happens between two surveys: sessions change, and each source is read with some coverage.
#[derive(Debug, Clone)]
struct Step {
    moves: Vec<(usize, u8, Option<Status>)>,
    coverages: Vec<Coverage>,
    /// Which sessions a partial source leaves out.
    left_out: BTreeSet<u8>,
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        Just(None),
        Just(Some(Status::Running)),
        Just(Some(Status::Waiting)),
        Just(Some(Status::Idle)),
        Just(Some(Status::Unknown)),
        Just(Some(Status::Stopped)),
    ];
    let coverage = prop_oneof![
        3 => Just(Coverage::Complete),
        1 => Just(Coverage::Partial),
        1 => Just(Coverage::TimedOut { after_ms: 2 }),
        1 => Just(Coverage::Failed { error: "no".into() }),
    ];
    (
        proptest::collection::vec((0..2usize, 0..5u8, status), 0..6),
        proptest::collection::vec(coverage, 2),
        proptest::collection::btree_set(0..5u8, 0..4),
    )
        .prop_map(|(moves, coverages, left_out)| Step { moves, coverages, left_out })
}

/// The survey of a fleet in this state.
fn hear(truth: &Truth, step: &Step) -> Survey {
    let heard = truth.iter().filter(|((root, id), _)| match &step.coverages[*root] {
        Coverage::Complete | Coverage::NotInstalled => true,
        Coverage::Partial => !step.left_out.contains(id),
        Coverage::TimedOut { .. } | Coverage::Failed { .. } => false,
    });
    survey(heard.map(|((root, id), status)| surveyed(ROOTS[*root], *id, *status)).collect(), &step.coverages)
}

proptest! {
    /// No live session is ever reported as stopped or gone, no session ends twice, and after a survey that read everything
    /// the view equals the truth.
    #[test]
    fn no_history_of_failures_ends_a_session_that_lives(steps in proptest::collection::vec(step(), 1..30)) {
        let (mut truth, mut view) = (Truth::new(), View::default());
        for step in &steps {
            for (root, id, status) in &step.moves {
                match status {
                    Some(status) => drop(truth.insert((*root, *id), *status)),
                    None => drop(truth.remove(&(*root, *id))),
                }
            }
            let before: BTreeSet<SessionKey> = view.live.keys().cloned().collect();
            let (events, after) = view.diff(&hear(&truth, step));
            view = after;
            for event in &events {
                let Some(key) = &event.key else { continue };
                let root = ROOTS.iter().position(|root| *root == key.root).unwrap();
                let status = truth.get(&(root, key.id.parse().unwrap()));
                match event.kind {
                    EventKind::SessionStopped => {
                        prop_assert_eq!(status, Some(&Status::Stopped));
                        prop_assert!(before.contains(key));
                    }
                    EventKind::SessionGone => prop_assert!(status.is_none() && before.contains(key)),
                    EventKind::SessionStarted => prop_assert!(!before.contains(key)),
                    kind => prop_assert_eq!(status.copied().and_then(EventKind::of), Some(kind)),
                }
            }
        }
        let calm = Step { moves: vec![], coverages: vec![Coverage::Complete; 2], left_out: BTreeSet::new() };
        let (_, settled) = view.diff(&hear(&truth, &calm));
        let live: BTreeSet<SessionKey> = settled.live.keys().cloned().collect();
        let really = truth.iter().filter(|(_, status)| **status != Status::Stopped);
        prop_assert_eq!(live, really.map(|((root, id), _)| key(ROOTS[*root], *id)).collect());
        prop_assert_eq!(settled.diff(&hear(&truth, &calm)).0, vec![]);
    }
}

const HEARD: [Coverage; 2] = [Coverage::Complete, Coverage::Complete];

#[test]
fn a_session_is_followed_from_its_start_to_its_end() {
    let (events, view) = View::default().diff(&survey(vec![surveyed("/one", 1, Status::Running)], &HEARD));
    assert_eq!(kinds(&events), [""; 0], "what lived before did not start now");
    let both = vec![surveyed("/one", 1, Status::Waiting), surveyed("/one", 2, Status::Idle)];
    let (events, view) = view.diff(&survey(both, &HEARD));
    assert_eq!(kinds(&events), ["session.waiting", "session.started", "session.idle"]);
    assert_eq!(events[0].previous, Some(Status::Running));
    let unknown = vec![surveyed("/one", 1, Status::Unknown), surveyed("/one", 2, Status::Stopped)];
    let (events, view) = view.diff(&survey(unknown, &HEARD));
    assert_eq!(kinds(&events), ["session.stopped"], "not knowing is no news");
    let (events, view) = view.diff(&survey(vec![surveyed("/one", 1, Status::Waiting)], &HEARD));
    assert_eq!(kinds(&events), [""; 0], "it never left that status");
    assert_eq!(kinds(&view.diff(&survey(vec![], &HEARD)).0), ["session.gone"]);
}

#[test]
fn a_failed_source_is_news_and_its_sessions_are_not() {
    let (_, view) = View::default().diff(&survey(vec![surveyed("/one", 1, Status::Running)], &HEARD));
    let failed = [Coverage::Failed { error: "no".into() }, Coverage::Complete];
    let (events, view) = view.diff(&survey(vec![], &failed));
    assert_eq!(kinds(&events), ["source.failed"]);
    assert_eq!(view.missing(&survey(vec![], &failed)), [], "there is no answer to be had from it");
    assert_eq!(view.missing(&survey(vec![], &HEARD)).len(), 1);
    assert_eq!(kinds(&view.diff(&survey(vec![], &failed)).0), [""; 0]);
    let (events, _) = view.diff(&survey(vec![surveyed("/one", 1, Status::Running)], &HEARD));
    assert_eq!(kinds(&events), ["source.recovered"]);
}

#[test]
fn an_answer_about_some_says_nothing_of_the_others() {
    let complete = [Coverage::Complete, Coverage::Complete];
    let all = [1, 2].map(|id| surveyed("/one", id, Status::Running));
    let (_, view) = View::default().diff(&survey(all.to_vec(), &complete));
    let some = [key("/one", 1)];
    let stopped = survey(vec![surveyed("/one", 1, Status::Stopped)], &complete);
    let (events, after) = view.diff_of(&some, &stopped);
    assert_eq!(kinds(&events), ["session.stopped"]);
    assert_eq!(after.sessions().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["2"]);
    // A source that that failed changes nothing here; the next full survey reports the failure.
    let failed = [Coverage::Failed { error: "no".into() }, Coverage::Complete];
    let (events, after) = view.diff_of(&some, &survey(Vec::new(), &failed));
    assert!(events.is_empty() && after == view);
    let (events, after) = view.diff_of(&some, &survey(Vec::new(), &complete));
    assert_eq!((kinds(&events), after.sessions().count()), (vec!["session.gone"], 1));
}

#[test]
fn an_answer_of_some_agents_leaves_the_others_alone() {
    let complete = [Coverage::Complete, Coverage::Complete];
    let running = surveyed("/one", 1, Status::Running);
    let (_, view) = View::default().diff(&survey(vec![running], &complete));
    let nothing = Survey::default();
    let (events, after) = view.diff_among(|adapter| adapter != "a", &nothing);
    assert!(events.is_empty() && after == view);
    let stopped = survey(vec![surveyed("/one", 1, Status::Stopped)], &complete);
    let (events, after) = view.diff_among(|adapter| adapter == "a", &stopped);
    assert_eq!((kinds(&events), after.sessions().count()), (vec!["session.stopped"], 0));
    // An agent that nobody reads any more is not kept.
    let (events, after) = view.diff_among(|adapter| adapter == "a", &nothing);
    assert_eq!((events.len(), after.sessions().count(), after.sources().count()), (0, 0, 0));
}

/// A gateway at `/one` has session 1, which it runs as the native session 2 of the root `/two`.
fn pair(front: Option<Status>, native: Option<Status>) -> Vec<Surveyed> {
    let front = front.map(|status| {
        let mut front = surveyed("/one", 1, status);
        let native = NativeSession { adapter: "a".into(), id: "2".into(), root: Some("/two".into()) };
        front.session.meta.native = Some(Box::new(native));
        // What rests in a gateway is in no process.
        front.session.pid = None;
        front
    });
    front.into_iter().chain(native.map(|status| surveyed("/two", 2, status))).collect()
}

/// The reported changes of both sessions, survey by survey, and which sessions are shown in the end.
fn told_of(looks: &[(Option<Status>, Option<Status>)]) -> (Vec<Vec<String>>, Vec<String>) {
    let complete = [Coverage::Complete, Coverage::Complete];
    let (_, mut view) = View::default().diff(&survey(vec![], &complete));
    let mut told = Vec::new();
    for (front, native) in looks {
        let (events, after) = view.diff(&survey(pair(*front, *native), &complete));
        let words = events.iter().map(|event| {
            let session = event.session.as_ref().unwrap();
            format!("{} {}", session.id, event.kind.as_str())
        });
        told.push(words.collect());
        view = after;
    }
    (told, view.shown().map(|session| session.id.clone()).collect())
}

#[test]
fn of_two_sessions_for_one_conversation_one_is_told_of() {
    use Status::{Idle, Running, Stopped};
    let (told, shown) = told_of(&[
        (Some(Running), None),
        (Some(Running), Some(Running)),
        (Some(Running), Some(Idle)),
        (Some(Idle), Some(Idle)),
    ]);
    assert_eq!(told[0], ["1 session.started", "1 session.running"]);
    assert_eq!((told[1].len(), told[2].len()), (0, 0), "{told:?}");
    assert_eq!(told[3], ["1 session.idle"]);
    assert_eq!(shown, ["2"], "it lives, and its front rests");

    // Its process exits a little later than the gateway reports. No reader knows it, so its end is not reported.
    let (told, shown) =
        told_of(&[(Some(Running), Some(Running)), (Some(Idle), Some(Running)), (Some(Idle), Some(Stopped))]);
    assert_eq!(told.concat(), ["1 session.started", "1 session.running", "1 session.idle"]);
    assert!(shown.is_empty());
}

#[test]
fn of_whom_anything_was_told_everything_is_told() {
    use Status::{Idle, Running, Stopped};
    // It was live before its gateway resumed it.
    let (told, shown) =
        told_of(&[(None, Some(Idle)), (Some(Running), Some(Running)), (Some(Running), Some(Stopped))]);
    assert_eq!(told[0], ["2 session.started", "2 session.idle"]);
    assert_eq!(told[2], ["2 session.stopped"], "{told:?}");
    assert_eq!(shown, ["1"]);
    // A person resumes it in a terminal when the gateway has finished.
    let (told, _) = told_of(&[
        (Some(Running), Some(Running)),
        (Some(Idle), Some(Idle)),
        (None, Some(Running)),
        (None, Some(Stopped)),
    ]);
    assert_eq!(told[2..], [["2 session.running"], ["2 session.stopped"]]);
}

#[test]
fn who_was_shown_is_told_of_to_the_end_and_a_silent_gateway_hides_nobody() {
    use Status::{Idle, Running, Stopped};
    let complete = [Coverage::Complete, Coverage::Complete];
    let (_, view) = View::default().diff(&survey(pair(Some(Running), Some(Running)), &complete));
    let ids = |view: &View| view.shown().map(|session| session.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&view), ["1"]);
    let silent = [Coverage::Failed { error: "away".into() }, Coverage::Complete];
    let (events, unheard) = view.diff(&survey(pair(None, Some(Running)), &silent));
    assert_eq!((kinds(&events), ids(&unheard)), (vec!["source.failed"], vec!["1".into(), "2".into()]));
    let (events, _) = unheard.diff(&survey(pair(None, Some(Stopped)), &silent));
    assert_eq!(kinds(&events), ["session.stopped"], "nobody else tells it");

    let (_, mut view) = view.diff(&survey(pair(Some(Idle), Some(Idle)), &complete));
    assert_eq!(ids(&view), ["2"]);
    let ended = survey(pair(Some(Idle), Some(Stopped)), &complete);
    assert_eq!(kinds(&view.diff(&ended).0), Vec::<&str>::new());
    view.tell_shown();
    assert_eq!(kinds(&view.diff(&ended).0), ["session.stopped"], "a reader has seen it");
    // A daemon that has just started reads the two sources one after the other.
    let (_, view) = View::default().diff(&survey(pair(None, Some(Idle)), &complete));
    assert_eq!(kinds(&view.diff(&ended).0), ["session.stopped"], "nobody stood before it");
    let (_, view) = view.diff(&survey(pair(Some(Running), Some(Idle)), &complete));
    let (events, view) = view.diff(&survey(pair(Some(Running), Some(Running)), &complete));
    assert_eq!(kinds(&events), Vec::<&str>::new());
    assert_eq!(ids(&view), ["1"]);
}

#[test]
fn an_end_whose_exit_is_not_written_yet_is_told_once_it_is() {
    let complete = [Coverage::Complete, Coverage::Complete];
    let (_, view) = View::default().diff(&survey(vec![surveyed(ROOTS[0], 1, Status::Running)], &complete));
    let ending = Surveyed { rule: Rule::ExitNotWrittenYet, ..surveyed(ROOTS[0], 1, Status::Stopped) };
    let (events, view) = view.diff(&survey(vec![ending.clone()], &complete));
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(view.missing(&survey(vec![], &complete)), [key(ROOTS[0], 1)], "it is asked after again");
    let shown: Vec<Status> = view.shown().map(|session| session.status).collect();
    assert_eq!(shown, [Status::Stopped], "and nobody is told that it runs");
    let (events, view) = view.diff(&survey(vec![ending], &complete));
    assert!(events.is_empty(), "{events:?}");
    let stopped = Surveyed { rule: Rule::NobodyCarriesIt, ..surveyed(ROOTS[0], 1, Status::Stopped) };
    let (events, view) = view.diff(&survey(vec![stopped], &complete));
    assert_eq!(kinds(&events), ["session.stopped"]);
    assert_eq!(events[0].previous, Some(Status::Running));
    assert_eq!(view.sessions().count(), 0);
}

#[test]
fn a_further_request_is_told_again() {
    let asks = |ids: &[&str]| {
        let mut surveyed = surveyed("/one", 1, Status::Waiting);
        let pending =
            |id: &&str| Pending { id: Some((*id).into()), ..Pending::new(PendingKind::Approval, None, None) };
        surveyed.session.pending = ids.iter().map(pending).collect();
        survey(vec![surveyed], &HEARD)
    };
    let (_, view) = View::default().diff(&asks(&["a"]));
    let (events, view) = view.diff(&asks(&["a"]));
    assert_eq!(events.len(), 0);
    for ids in [&["a", "b"][..], &["c"]] {
        let (events, _) = view.diff(&asks(ids));
        assert_eq!(events.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventKind::SessionWaiting]);
    }
    let (_, view) = view.diff(&asks(&["a", "b"]));
    assert_eq!(view.diff(&asks(&["b"])).0.len(), 0, "one was answered");
}

/// The first survey may take longer than a reader is kept waiting, and a source may be read for the first time long after that.
#[test]
fn who_was_shown_too_little_is_told_the_rest() {
    let session = || vec![surveyed(ROOTS[0], 1, Status::Waiting)];
    let complete = [Coverage::Complete, Coverage::Complete];
    let mut shown = View::default();
    assert_eq!(
        kinds(&shown.diff(&survey(session(), &complete)).0),
        Vec::<&str>::new(),
        "nobody was shown less"
    );
    shown.tell_shown();
    let (events, after) = shown.diff(&survey(session(), &complete));
    assert_eq!(kinds(&events), ["session.waiting"], "it did not start now");
    assert_eq!(kinds(&after.diff(&survey(session(), &complete)).0), Vec::<&str>::new());
    let silent = [Coverage::TimedOut { after_ms: 2 }, Coverage::Complete];
    let (_, late) = shown.diff_among(|_| true, &survey(Vec::new(), &silent));
    let (events, _) = late.diff_among(|_| true, &survey(session(), &complete));
    assert_eq!(kinds(&events), ["source.recovered", "session.waiting"]);
}
