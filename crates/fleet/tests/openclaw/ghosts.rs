//! N5: more than a day of cron jobs and hooks in fast motion. The original had collected 394 sessions that nothing ran;
//! here the count equals the gateway's own in every survey, and nothing is left at the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_fleet::{Fleet, Query};
use agentctl_model::{SessionKey, Survey};
use agentctl_testkit::agents::openclaw::{Act, BusyDay, Ledger, ScriptedGateway, Step};

use super::{PATIENT, Scene, active, everything, fleet, root};

fn check(survey: &Survey, ledger: &Ledger, now: u64) {
    let own = ledger.at_work();
    assert_eq!(survey.sources[0].coverage.as_str(), "complete");
    assert_eq!(active(survey), own.len(), "minute {now}: {own:?}");
    assert_eq!(survey.sessions.len(), ledger.rows.len(), "minute {now}");
    let ids: BTreeSet<&str> = survey.sessions.iter().map(|one| one.session.id.as_str()).collect();
    assert_eq!(ids.len(), ledger.rows.len(), "one session for each key");
}

/// No session that the gateway works on may be proven ended, whatever was read.
fn proves_no_end(survey: &Survey, ledger: &Ledger, root: &str) {
    for id in ledger.at_work() {
        let key = SessionKey { adapter: "openclaw".into(), root: root.into(), id, variant: None };
        assert_eq!(survey.prove_ended(&key), None, "{key:?}");
    }
}

fn list() -> Query {
    Query { usage: false, ..everything() }
}

/// Plays a day and two hours with a survey every `every` minutes; then everything ends.
fn live_through(
    ledger: &Mutex<Ledger>,
    fleet: &Fleet,
    every: u64,
    mut look: impl FnMut(&Survey, &Ledger, u64),
) {
    let mut day = BusyDay::default();
    while let Some(now) = day.now() {
        let looked_at = now % every == 0 || day.is_last();
        day.pass(&mut ledger.lock().unwrap());
        if looked_at {
            let survey = fleet.survey(&list());
            look(&survey, &ledger.lock().unwrap(), now);
        }
    }
}

#[test]
fn after_a_day_of_automations_the_count_is_still_the_gateways_own() {
    let scene = Scene::set();
    let fleet = fleet(vec![root(&scene.gateway)], PATIENT);
    let mut most = 0;
    live_through(&scene.ledger, &fleet, 7, |survey, ledger, now| {
        check(survey, ledger, now);
        most = most.max(active(survey));
    });
    let left = fleet.survey(&list());
    assert!(most >= 5 && left.sessions.len() > 300, "the day was not busy: {most}, {}", left.sessions.len());
    assert_eq!(active(&left), 0, "ghosts");
}

#[test]
fn a_gateway_that_fails_every_third_time_is_never_wrong() {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (shared, polls) = (Arc::clone(&ledger), AtomicUsize::new(0));
    let gateway = ScriptedGateway::start(move |step| {
        let ledger = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Step::Request { method, .. } = step else { return ledger.answer(step) };
        if method == "connect" {
            polls.fetch_add(1, Ordering::Relaxed);
        }
        // This fails at another step each time.
        let poll = polls.load(Ordering::Relaxed);
        let failing = ["connect", "sessions.list", "cron.list"][(poll / 3) % 3];
        if poll % 3 == 0 && method == failing { Act::Cut } else { ledger.answer(step) }
    });
    let root = root(&gateway);
    let address = root.path.to_str().unwrap().to_owned();
    let fleet = fleet(vec![root], PATIENT);
    let (mut failed, mut heard) = (0, 0);
    live_through(&ledger, &fleet, 31, |survey, ledger, now| {
        proves_no_end(survey, ledger, &address);
        if survey.sources[0].coverage.as_str() == "failed" {
            assert!(survey.sessions.is_empty(), "no verdict about anybody");
            failed += 1;
        } else {
            check(survey, ledger, now);
            heard += 1;
        }
    });
    assert!(failed >= heard / 3 && failed > 10, "{failed} {heard}");
}
