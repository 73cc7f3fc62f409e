//! N5: a day and more of cron jobs and hooks in fast motion. The original had collected 394 sessions that nobody ran;
//! here the count is the gateway's own at every look, and nothing is left at the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentctl_fleet::{Fleet, Question};
use agentctl_model::{SessionKey, Survey};
use agentctl_testkit::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use super::{PATIENT, Scene, active, everything, fleet, root};

const HOUR: u64 = 60;
const JOBS: u64 = 8;
/// A row of an automation goes a day after its last run.
const RETENTION: u64 = 24 * HOUR;

/// A small generator: the same day every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// One minute in the life of the gateway.
fn minute(ledger: &mut Ledger, now: u64, dice: &mut Dice, closing: bool) {
    for row in &mut ledger.rows {
        if row["hasActiveRun"] == true && row["test"]["until"].as_u64().is_some_and(|until| until <= now) {
            row["hasActiveRun"] = json!(false);
            row["activeRunIds"] = json!([]);
            row["test"]["ended"] = json!(now);
        }
    }
    ledger.rows.retain(|row| row["test"]["ended"].as_u64().is_none_or(|ended| now - ended < RETENTION));
    for job in &mut ledger.jobs {
        let until = job["test"]["until"].as_u64();
        if until.is_some_and(|until| until <= now) {
            // The job ends some time after its row went quiet.
            job["test"]["until"] = Value::Null;
            job["state"] = json!({"lastRunStatus": if dice.roll(9) == 0 { "error" } else { "ok" }});
        }
    }
    if closing {
        return;
    }
    for number in 0..JOBS {
        if now % (15 + number) == number {
            run_job(ledger, number, now, dice);
        }
    }
    if dice.roll(3) == 0 {
        let (post, until) = (format!("agent:main:cron:hook-{now}"), now + 1 + dice.roll(6));
        ledger.rows.push(json!({
            "key": post, "sessionId": format!("s-{now}"), "createdVia": "cron", "hasActiveRun": true,
            "updatedAt": 1_794_700_000_000_u64 + now * 60_000, "test": {"until": until},
        }));
    }
}

/// The same row for each run, with a new transcript; the job runs from a little before it to a little after.
fn run_job(ledger: &mut Ledger, number: u64, now: u64, dice: &mut Dice) {
    let id = format!("job-{number}");
    let until = now + 1 + dice.roll(8);
    let job = json!({
        "id": id, "name": format!("job {number}"), "state": {"runningAtMs": 1_794_700_000_000_u64 + now * 60_000},
        "test": {"until": until + 1},
    });
    ledger.jobs.retain(|known| known["id"] != id.as_str());
    ledger.jobs.push(job);
    *ledger.row(&format!("agent:main:cron:{id}")) = json!({
        "key": format!("agent:main:cron:{id}"), "sessionId": format!("g-{number}-{now}"), "createdVia": "cron",
        // The row follows its job only later.
        "hasActiveRun": dice.roll(2) == 0, "status": "running", "test": {"until": until, "ended": now},
    });
}

/// What the gateway itself says is at work: rows, and jobs whose row does not say so yet.
fn working(ledger: &Ledger) -> BTreeSet<String> {
    let jobs = ledger.jobs.iter().filter(|job| !job["state"]["runningAtMs"].is_null());
    let of_jobs = jobs.map(|job| format!("agent:main:cron:{}", job["id"].as_str().unwrap()));
    let of_rows = ledger.rows.iter().filter(|row| row["hasActiveRun"] == true);
    of_rows.map(|row| row["key"].as_str().unwrap().to_owned()).chain(of_jobs).collect()
}

fn check(survey: &Survey, ledger: &Ledger, now: u64) {
    let own = working(ledger);
    assert_eq!(survey.sources[0].coverage, "complete");
    assert_eq!(active(survey), own.len(), "minute {now}: {own:?}");
    assert_eq!(survey.sessions.len(), ledger.rows.len(), "minute {now}");
    let ids: BTreeSet<&str> = survey.sessions.iter().map(|one| one.session.id.as_str()).collect();
    assert_eq!(ids.len(), ledger.rows.len(), "one session for each key");
}

/// Nobody that the gateway works on may be proven ended, whatever was heard.
fn proves_no_end(survey: &Survey, ledger: &Ledger, root: &str) {
    for id in working(ledger) {
        let key = SessionKey { adapter: "openclaw".into(), root: root.into(), id, slot: None };
        assert_eq!(survey.prove_ended(&key), None, "{key:?}");
    }
}

fn list() -> Question {
    Question { usage: false, ..everything() }
}

/// A day and two hours, looked at every `every` minutes; then everything ends.
fn live_through(
    ledger: &Mutex<Ledger>,
    fleet: &Fleet,
    every: u64,
    mut look: impl FnMut(&Survey, &Ledger, u64),
) {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let end = 26 * HOUR;
    for now in 0..=end + 20 {
        minute(&mut ledger.lock().unwrap(), now, &mut dice, now > end);
        if now % every == 0 || now == end + 20 {
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
        // At another step each time.
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
        if survey.sources[0].coverage == "failed" {
            assert!(survey.sessions.is_empty(), "no verdict about anybody");
            failed += 1;
        } else {
            check(survey, ledger, now);
            heard += 1;
        }
    });
    assert!(failed >= heard / 3 && failed > 10, "{failed} {heard}");
}
