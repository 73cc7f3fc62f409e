//! N5 in the daemon: more than a day of cron jobs and hooks in fast motion. What it shows as live is the
//! gateway's own count, and an end is announced only for a run that has ended.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentctl_testkit::agents::openclaw::{Act, BusyDay, Ledger, ScriptedGateway, Step};
use agentctl_testkit::until_seen;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::events::Listener;
use crate::house::{House, SOON};

/// Starts when the day is over, so that a reader of the events knows that it has read all of them.
const CURFEW: &str = "agent:main:curfew";

#[derive(Default)]
struct Gateway {
    ledger: Ledger,
    day: BusyDay,
}

type Shared = Arc<Mutex<Gateway>>;

fn lock(gateway: &Shared) -> MutexGuard<'_, Gateway> {
    gateway.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was announced during one day.
#[derive(Debug, Default)]
struct Heard {
    starts: usize,
    ends: usize,
    /// What was said of the source each time that it failed.
    failures: Vec<String>,
    /// Computed from the events alone.
    at_work: BTreeSet<String>,
    wrong: Vec<String>,
}

/// Reads until the curfew. An end must be true when it is read, because what has ended stays ended.
fn hear(mut events: Listener, gateway: &Shared) -> Heard {
    let mut heard = Heard::default();
    loop {
        let event = events.next();
        let id = event["sessionId"].as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        match kind {
            "session.started" if id == CURFEW => return heard,
            "session.started" => heard.starts += 1,
            "session.stopped" | "session.idle" => {
                heard.ends += 1;
                let transcript = event["session"]["meta"]["sessionId"].as_str().unwrap_or_default();
                if !lock(gateway).day.is_over(transcript) {
                    heard.wrong.push(format!("{kind} of {id}, whose run {transcript} goes on"));
                }
            }
            "session.gone" | "reset" => heard.wrong.push(format!("{kind} {id}")),
            "source.failed" => heard.failures.push(event["source"]["error"].to_string()),
            _ => {}
        }
        match event["session"]["status"].as_str() {
            Some("running" | "waiting") => heard.at_work.insert(id),
            Some(_) => heard.at_work.remove(&id),
            None => false,
        };
    }
}

fn ids(sessions: &Value) -> BTreeSet<String> {
    let sessions = sessions.as_array().unwrap();
    sessions.iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

/// One in three reads of the list fails in some way.
struct Stumbling {
    dice: Dice,
    /// Whether it fails after the list has begun and before it is complete.
    in_the_middle: bool,
}

impl Stumbling {
    fn at(&mut self, method: &str) -> Option<Act> {
        match (method, self.dice.roll(9)) {
            ("sessions.list", 0) => Some(Act::Cut),
            ("sessions.list", 1) => Some(Act::Refuse(json!({"code": "UNAVAILABLE", "message": "not now"}))),
            ("sessions.list", 2) => {
                self.in_the_middle = true;
                None
            }
            ("cron.list", _) if std::mem::take(&mut self.in_the_middle) => Some(Act::Cut),
            _ => None,
        }
    }
}

/// One day, surveyed every so many minutes.
fn live_through(every: u64, fails: bool) -> Heard {
    let shared: Shared = Arc::default();
    let (served, stumbling) =
        (Arc::clone(&shared), Mutex::new(Stumbling { dice: Dice(5), in_the_middle: false }));
    let gateway = ScriptedGateway::start(move |step| {
        let proper = |step| lock(&served).ledger.answer(step);
        let Step::Request { method, .. } = step else { return proper(step) };
        let stumbled = if fails { stumbling.lock().unwrap().at(method) } else { None };
        stumbled.unwrap_or_else(|| proper(step))
    });
    let house = House::new();
    house.has_gateway(gateway.port());
    // No answer is given up for being slow: on a busy machine that would be a failure of a gateway that never fails.
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let patient = "[adapters.openclaw]\ntimeout = \"60s\"\n";
    fs::write(house.home.agentctl_home().join("config.toml"), patient).unwrap();
    let _daemon = house.daemon(&[]);
    house.settled();
    let hearing = {
        let (events, shared) = (Listener::open(&house, "", None), Arc::clone(&shared));
        std::thread::spawn(move || hear(events, &shared))
    };
    let wake = || gateway.push("sessions.changed", &json!({}));
    let pass = || {
        let Gateway { ledger, day } = &mut *lock(&shared);
        let now = day.now()?;
        let looked_at = now % every == 0 || day.is_last();
        day.pass(ledger);
        Some((now, looked_at))
    };
    while let Some((now, looked_at)) = pass() {
        wake();
        if !looked_at {
            continue;
        }
        let own = lock(&shared).ledger.at_work();
        // The view that produces events follows; the list is of this moment.
        until_seen(SOON, &format!("the gateway's own count in minute {now}"), || {
            wake();
            let view = Listener::open(&house, "snapshot=true", None).next();
            let seen = ids(&view["sessions"]);
            let source = || view["sources"].as_array()?.iter().find(|source| source["adapter"] == "openclaw");
            if seen == own { Ok(()) } else { Err(format!("{own:?} {seen:?} {:?}", source())) }
        });
        let list = house.get("/v1/sessions?adapter=openclaw").json();
        if list["sources"][0]["coverage"] == "complete" {
            assert_eq!(ids(&list["sessions"]), own, "minute {now}");
        } else {
            assert!(fails && list["sessions"] == json!([]), "no verdict about anybody: {list:#}");
        }
    }
    let live = &house.get("/v1/daemon").json()["liveSessions"];
    assert_eq!(*live, 0, "ghosts");
    *lock(&shared).ledger.row(CURFEW) = json!({"key": CURFEW, "hasActiveRun": true});
    until_seen(SOON, "the end of the events", || {
        wake();
        if hearing.is_finished() { Ok(()) } else { Err("they are still read") }
    });
    hearing.join().unwrap()
}

fn every() -> u64 {
    if std::env::var_os("AGENTCTL_LONG").is_some() { 7 } else { 31 }
}

#[test]
fn after_a_day_of_automations_nobody_is_left_at_work() {
    let heard = live_through(every(), false);
    assert_eq!((&heard.at_work, &heard.wrong), (&BTreeSet::new(), &Vec::new()), "{heard:#?}");
    assert!(heard.starts > 50 && heard.starts == heard.ends, "{heard:#?}");
    assert!(heard.failures.is_empty(), "{heard:#?}");
}

#[test]
fn no_end_is_told_because_the_gateway_fails_again_and_again() {
    let heard = live_through(every(), true);
    assert_eq!((&heard.at_work, &heard.wrong), (&BTreeSet::new(), &Vec::new()), "{heard:#?}");
    assert!(heard.starts > 10 && heard.failures.len() > 2, "{heard:#?}");
}
