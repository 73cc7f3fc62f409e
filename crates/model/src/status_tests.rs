//! Tests the law as a table: every state of the records against every state of the processes.

use super::*;
use crate::launch::exit::{EndedBy, SeenExit};
use Outcome as O;
use Status as S;
use TurnState as T;

const EARLIER: i64 = 1_000;
const START: i64 = 2_000;
const LATER: i64 = 3_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn owner(headless: bool) -> Owner {
    Owner {
        process: ProcessRef { pid: 7, start: 1, boot: 1 },
        started_at: Some(at(START)),
        headless,
        how: Evidence::said(Witness::Kernel, "pid 7 alive", None),
    }
}

fn alive(headless: bool) -> Liveness {
    Liveness::Alive(Owners { first: owner(headless), rest: vec![] })
}

fn remote(state: RemoteState) -> Liveness {
    Liveness::Remote { state, evidence: Evidence::said(Witness::Gateway, "hasActiveRun", None) }
}

fn gone() -> Liveness {
    Liveness::Gone { looked_at: at(LATER) }
}

fn unobservable() -> Liveness {
    Liveness::Unobservable { why: "no lock witness".into(), looked_at: at(LATER) }
}

fn verdict(state: Option<T>, second: i64, liveness: &Liveness) -> (S, Option<O>) {
    let turn = state.map(|state| Turn::new(state, Some(at(second))));
    let verdict = derive(turn.as_ref(), liveness, None, vec![]);
    assert!(!verdict.evidence.is_empty(), "a verdict without evidence");
    (verdict.status(), verdict.outcome())
}

const STATES: [Option<T>; 8] = [
    Some(T::NotBegun),
    Some(T::Open),
    Some(T::Approval),
    Some(T::Question),
    Some(T::Finished),
    Some(T::Failed),
    Some(T::Interrupted),
    None,
];

/// One column of the table, in the order of `STATES`.
fn column(second: i64, liveness: &Liveness) -> Vec<(S, Option<O>)> {
    STATES.iter().map(|state| verdict(*state, second, liveness)).collect()
}

const ENDED_AS_RECORDED: [Option<O>; 8] = [
    None,
    Some(O::Died),
    Some(O::Died),
    Some(O::Died),
    Some(O::Completed),
    Some(O::Failed),
    Some(O::Interrupted),
    None,
];

fn every(status: S, outcomes: [Option<O>; 8]) -> Vec<(S, Option<O>)> {
    outcomes.into_iter().map(|outcome| (status, outcome)).collect()
}

#[test]
fn nobody_carries_it() {
    assert_eq!(column(LATER, &gone()), every(S::Stopped, ENDED_AS_RECORDED));
    assert_eq!(column(LATER, &remote(RemoteState::Ended)), every(S::Stopped, ENDED_AS_RECORDED));
}

#[test]
fn not_being_able_to_look_is_unknown_and_never_stopped() {
    assert_eq!(column(LATER, &unobservable()), every(S::Unknown, [None; 8]));
}

#[test]
fn alive_and_interactive() {
    assert_eq!(
        column(LATER, &alive(false)),
        [
            (S::Idle, None),
            (S::Running, None),
            (S::Waiting, None),
            (S::Waiting, None),
            (S::Idle, Some(O::Completed)),
            (S::Idle, Some(O::Failed)),
            (S::Idle, Some(O::Interrupted)),
            (S::Unknown, None),
        ]
    );
}

#[test]
fn alive_but_the_turn_is_older_than_every_owner() {
    assert_eq!(
        column(EARLIER, &alive(false)),
        [
            (S::Idle, None),
            (S::Idle, Some(O::Died)),
            (S::Idle, Some(O::Died)),
            (S::Idle, Some(O::Died)),
            (S::Idle, Some(O::Completed)),
            (S::Idle, Some(O::Failed)),
            (S::Idle, Some(O::Interrupted)),
            (S::Unknown, None),
        ]
    );
}

#[test]
fn a_second_owner_that_was_there_keeps_the_turn_open() {
    let mut early = owner(false);
    early.started_at = Some(at(EARLIER));
    let both = Liveness::Alive(Owners { first: owner(false), rest: vec![early] });
    assert_eq!(verdict(Some(T::Open), EARLIER + 1, &both), (S::Running, None));
}

#[test]
fn a_live_headless_run_runs_until_it_ends() {
    // The records contain no turn or only older ones: its own turn has not been recorded yet.
    assert_eq!(column(EARLIER, &alive(true)), every(S::Running, [None; 8]));
    // Records of its own turn do not end the run: after an error it may try again, and a finished run ends with its process.
    let mut own = every(S::Running, [None; 8]);
    own[2] = (S::Waiting, None);
    own[3] = (S::Waiting, None);
    assert_eq!(column(LATER, &alive(true)), own);
    assert_eq!(verdict(Some(T::Ended), LATER, &alive(true)), (S::Running, None));
    // The same holds if a terminal has the session open too.
    let both = Liveness::Alive(Owners { first: owner(false), rest: vec![owner(true)] });
    assert_eq!(verdict(Some(T::Failed), LATER, &both), (S::Running, None));
    // When the process has exited, the records say how the turn ended.
    assert_eq!(verdict(Some(T::Failed), LATER, &gone()), (S::Stopped, Some(O::Failed)));
}

#[test]
fn the_rule_says_whether_a_headless_run_was_cut_short() {
    let rule = |state| derive(Some(&Turn::new(state, Some(at(LATER)))), &alive(true), None, vec![]).rule();
    assert_eq!([T::Finished, T::Ended].map(rule), [Rule::HeadlessRunNotOver; 2]);
    assert_eq!([T::Failed, T::Interrupted].map(rule), [Rule::HeadlessRunAfterError; 2]);
    assert_eq!(rule(T::Open), Rule::TurnOpen);
}

#[test]
fn an_unknown_start_time_never_makes_a_turn_somebody_elses() {
    let mut timeless = owner(false);
    timeless.started_at = None;
    let liveness = Liveness::Alive(Owners { first: timeless, rest: vec![] });
    assert_eq!(verdict(Some(T::Open), EARLIER, &liveness), (S::Running, None));
}

#[test]
fn the_gateways_word_decides_for_remote_sessions() {
    let mut running = every(S::Running, [None; 8]);
    running[2] = (S::Waiting, None);
    running[3] = (S::Waiting, None);
    assert_eq!(column(LATER, &remote(RemoteState::Running)), running);
    let mut ready = every(S::Idle, ENDED_AS_RECORDED);
    ready[2] = (S::Waiting, None);
    ready[3] = (S::Waiting, None);
    assert_eq!(column(LATER, &remote(RemoteState::Ready)), ready);
    assert_eq!(column(LATER, &remote(RemoteState::Unsaid)), every(S::Unknown, [None; 8]));
}

#[test]
fn what_the_records_said_stands_before_what_the_kernel_said() {
    let heard = vec![Evidence::new(Witness::Transcript, Fact::TurnIs(T::Finished), None)];
    let turn = Turn::new(T::Finished, Some(at(LATER)));
    let evidence = derive(Some(&turn), &gone(), None, heard).into_evidence();
    assert_eq!(evidence.iter().map(|e| e.source).collect::<Vec<_>>(), [Witness::Transcript, Witness::Kernel]);
}

#[test]
fn a_live_owner_that_says_ready_closes_its_own_open_turn_but_not_how_it_ended() {
    let owners = Owners { first: owner(false), rest: vec![] };
    let said = |recorded: Option<T>, second, word: Option<T>| {
        let turn = |state| Turn::new(state, Some(at(second)));
        prevailing(recorded.map(turn), word.map(|state| Turn::new(state, None)), &owners)
            .map(|turn| turn.state)
    };
    assert_eq!(said(Some(T::Open), LATER, Some(T::Ended)), Some(T::Ended));
    assert_eq!(said(Some(T::Open), EARLIER, Some(T::Ended)), Some(T::Open), "somebody else's: it died");
    assert_eq!(said(Some(T::Failed), LATER, Some(T::Ended)), Some(T::Failed));
    assert_eq!(said(Some(T::Finished), LATER, Some(T::Open)), Some(T::Open));
    assert_eq!(said(None, LATER, Some(T::Ended)), Some(T::Ended));
    assert_eq!(said(Some(T::Open), LATER, None), Some(T::Open));
    assert_eq!(verdict(Some(T::Ended), LATER, &alive(false)), (S::Idle, None));
}

/// The exit that the runner saw decides how an open turn ended, and nothing else.
#[test]
fn a_seen_exit_says_how_an_open_turn_ended() {
    let exit =
        |signal| LaunchExit::Seen(SeenExit { at: at(LATER), code: None, signal: Some(signal), by: None });
    let outcome = |state, liveness: &Liveness, signal| {
        let turn = Turn::new(state, Some(at(EARLIER)));
        derive(Some(&turn), liveness, Some(&exit(signal)), vec![])
    };
    for state in [T::Open, T::Approval, T::Question] {
        assert_eq!(outcome(state, &gone(), 15).outcome(), Some(O::Interrupted));
        assert_eq!(outcome(state, &gone(), 9).outcome(), Some(O::Died));
        let taken_up = outcome(state, &alive(false), 15);
        assert_eq!((taken_up.status(), taken_up.outcome()), (S::Idle, Some(O::Interrupted)));
    }
    for (state, recorded) in
        [(T::Finished, Some(O::Completed)), (T::Failed, Some(O::Failed)), (T::NotBegun, None)]
    {
        assert_eq!(outcome(state, &gone(), 15).outcome(), recorded);
    }
    let said = outcome(T::Open, &gone(), 15).into_evidence();
    assert!(said.iter().any(|evidence| evidence.source == Witness::Launch), "{said:?}");
}

/// Until the runner has written the exit, the verdict says nothing that the exit could change.
#[test]
fn an_exit_that_is_about_to_be_written_leaves_the_outcome_open() {
    let judge = |state| {
        let turn = Turn::new(state, Some(at(EARLIER)));
        derive(Some(&turn), &gone(), Some(&LaunchExit::Unwritten), vec![])
    };
    for state in [T::Open, T::Approval, T::Question] {
        let verdict = judge(state);
        assert_eq!((verdict.status(), verdict.outcome()), (S::Stopped, None), "{state:?}");
        assert_eq!(verdict.rule(), Rule::ExitNotWrittenYet);
        let said = verdict.into_evidence();
        assert!(said.iter().any(|evidence| evidence.source == Witness::Launch), "{said:?}");
    }
    assert_eq!(judge(T::Finished).outcome(), Some(O::Completed), "no exit changes what the agent recorded");
    assert_eq!(judge(T::Finished).rule(), Rule::ExitNotWrittenYet);
    let turn = Turn::new(T::Open, Some(at(EARLIER)));
    let unseen = derive(Some(&turn), &gone(), Some(&LaunchExit::Unseen), vec![]);
    assert_eq!((unseen.outcome(), unseen.rule()), (Some(O::Died), Rule::NobodyCarriesIt));
}

#[test]
fn the_evidence_says_who_ended_it_also_of_a_turn_that_the_agent_closed() {
    let limit = Some("--timeout 10s".to_owned());
    for (by, words) in [
        (EndedBy::stop(), "agentctl stop"),
        (EndedBy::timeout(limit), "time was up (--timeout 10s)"),
        (EndedBy::fuse("--max-tokens 5".to_owned()), "fuse was spent (--max-tokens 5)"),
    ] {
        let exit = SeenExit { at: at(LATER), code: Some(0), signal: None, by: Some(by) };
        for state in [T::Open, T::Interrupted] {
            let turn = Turn::new(state, Some(at(EARLIER)));
            let verdict = derive(Some(&turn), &gone(), Some(&LaunchExit::Seen(exit.clone())), vec![]);
            assert_eq!(verdict.outcome(), Some(O::Interrupted));
            let said = verdict.into_evidence();
            assert!(said.iter().any(|evidence| evidence.fact.to_string().contains(words)), "{said:?}");
        }
    }
}
