//! A gateway is asked only for what the query needs, not for everything it keeps; the answer is the same.

use std::sync::{Arc, Mutex};

use agentctl_fleet::{Query, Wanted};
use agentctl_model::{SessionKey, Survey};
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use super::{PATIENT, fleet, root};

/// A running session, a running job whose row does not say so yet, and many idle sessions.
fn ledger() -> Ledger {
    let mut rows: Vec<Value> = (0..40)
        .map(|number| json!({"key": format!("agent:main:old-{number}"), "hasActiveRun": false, "status": "done"}))
        .collect();
    rows.push(json!({"key": "agent:main:busy", "hasActiveRun": true, "workspaceDir": "/w"}));
    rows.push(json!({"key": "agent:main:cron:nightly", "createdVia": "cron", "hasActiveRun": false}));
    rows.push(json!({"key": "agent:main:cron:weekly", "createdVia": "cron", "hasActiveRun": false}));
    let running = json!({"id": "nightly", "state": {"runningAtMs": 1_794_700_000_000_u64}});
    let at_rest = json!({"id": "weekly", "state": {"lastRunStatus": "ok"}});
    // Its first run has no row yet.
    let unborn = json!({"id": "hourly", "state": {"runningAtMs": 1_794_700_000_000_u64}});
    Ledger { rows, jobs: vec![running, at_rest, unborn], page: Some(10), ..Ledger::default() }
}

/// The requests for each part of the list, and the result.
fn asked(wanted: Wanted, knows_active_only: bool) -> (Vec<Value>, Survey, String) {
    let log: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (ledger, asked) = (ledger(), Arc::clone(&log));
    let gateway = ScriptedGateway::start(move |step| {
        if let Step::Request { method: "sessions.list", params } = step {
            asked.lock().unwrap().push(params.clone());
            if !knows_active_only && !params["activeOnly"].is_null() {
                return Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "unexpected property"}));
            }
        }
        ledger.answer(step)
    });
    let root = root(&gateway);
    let place = root.path.to_str().unwrap().to_owned();
    let survey = fleet(vec![root], PATIENT).survey(&Query::new(wanted));
    assert_eq!(survey.sources[0].coverage.as_str(), "complete", "{:?}", survey.sources);
    let asked = log.lock().unwrap().clone();
    (asked, survey, place)
}

fn ids(survey: &Survey) -> Vec<&str> {
    let mut ids: Vec<&str> = survey.sessions.iter().map(|one| one.session.id.as_str()).collect();
    ids.sort_unstable();
    ids
}

const AT_WORK: [&str; 2] = ["agent:main:busy", "agent:main:cron:nightly"];

#[test]
fn a_list_of_the_live_ones_reads_those_alone() {
    let (asked, survey, _) = asked(Wanted::Live, true);
    assert_eq!(ids(&survey), AT_WORK);
    assert_eq!(asked[0]["activeOnly"], true);
    let searched: Vec<&Value> = asked[1..].iter().map(|params| &params["search"]).collect();
    assert_eq!(searched, ["nightly", "hourly"], "only running jobs whose row does not say so: {asked:?}");
}

#[test]
fn a_gateway_that_cannot_choose_says_everything_and_the_answer_is_the_same() {
    let (asked, survey, _) = asked(Wanted::Live, false);
    assert_eq!(ids(&survey), AT_WORK);
    assert!(asked[1..].iter().all(|params| params["activeOnly"].is_null() && params["search"].is_null()));
    assert_eq!(asked.len(), 1 + 5, "to the last page: {asked:?}");
}

#[test]
fn who_is_named_is_searched_for_and_whoever_is_not_found_by_the_whole_list_is_gone() {
    let named = |id: &str| asked(Wanted::Ids(vec![id.to_owned()]), true);
    let (asked, survey, _) = named("agent:main:old-7");
    assert_eq!((ids(&survey), asked.len()), (vec!["agent:main:old-7"], 1), "{asked:?}");
    let (_, survey, _) = named("agent:main:old-3");
    assert_eq!(ids(&survey).len(), 11, "a beginning fits all that begin so: 3 and 30 to 39");
    let (asked, survey, place) = named("agent:main:gone");
    assert_eq!((ids(&survey).len(), asked.len()), (0, 1 + 5), "{asked:?}");
    let key =
        SessionKey { adapter: "openclaw".into(), root: place, id: "agent:main:gone".into(), variant: None };
    assert!(survey.prove_ended(&key).is_some());
    let (asked, survey, _) = named("0192-of-another-agent");
    assert_eq!((ids(&survey).len(), asked.len()), (0, 1), "no key of a gateway begins so: {asked:?}");
    let (_, survey, _) = named("agent:main:cron:weekly");
    assert_eq!(survey.sessions[0].session.outcome.map(agentctl_model::Outcome::as_str), Some("completed"));
}

/// A session that is not known to be idle belongs in the list; for one that is known to be idle, no jobs are needed.
#[test]
fn without_the_jobs_nobody_is_left_out_and_nothing_is_missing_where_there_are_none() {
    let live = |ledger: Ledger| {
        let gateway = ScriptedGateway::start(move |step| match step {
            Step::Request { method: "cron.list", .. } => Act::Refuse(json!({"code": "FORBIDDEN"})),
            _ => ledger.answer(step),
        });
        fleet(vec![root(&gateway)], PATIENT).survey(&Query::new(Wanted::Live))
    };
    let survey = live(ledger());
    assert_eq!(survey.sources[0].coverage.as_str(), "partial");
    assert_eq!(ids(&survey), ["agent:main:busy", "agent:main:cron:nightly", "agent:main:cron:weekly"]);
    let mut plain = ledger();
    plain.rows.retain(|row| row["createdVia"] != "cron");
    let survey = live(plain);
    assert_eq!((survey.sources[0].coverage.as_str(), ids(&survey)), ("complete", vec!["agent:main:busy"]));
}
