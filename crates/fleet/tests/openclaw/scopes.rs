//! Every call requests the permissions it needs and no more.

use std::sync::{Arc, Mutex};

use agentctl_adapters::Root;
use agentctl_adapters::agents::openclaw::{Decision, GatewayClient, Launch};
use agentctl_fleet::Selector;
use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use super::{PATIENT, everything, fleet, root};

const READ: &[&str] = &["operator.read"];
const WRITE: &[&str] = &["operator.write"];
const BEGIN: &[&str] = &["operator.write", "operator.approvals"];
const JUDGE: &[&str] = &["operator.admin", "operator.approvals"];

/// A gateway that accepts every client, and the scopes that were requested.
struct Office {
    gateway: ScriptedGateway,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Office {
    /// With `others_only`, only administrators may stop what was begun elsewhere.
    fn open(others_only: bool) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let row = json!({"key": "agent:main:x", "hasActiveRun": true, "workspaceDir": "/w"});
        let ledger = Ledger { rows: vec![row], ..Ledger::default() };
        let gateway = ScriptedGateway::start(move |step| {
            let Step::Request { method, params } = step else { return ledger.answer(step) };
            let is_admin = |log: &Vec<Value>| log.last().is_some_and(|last| last[0] == "operator.admin");
            match method {
                "connect" => log.lock().unwrap().push(params["scopes"].clone()),
                "chat.abort" if others_only && !is_admin(&log.lock().unwrap()) => {
                    return Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "unauthorized"}));
                }
                "sessions.create" | "sessions.send" | "exec.approval.resolve" | "chat.abort" => {
                    return Act::Proper(json!({"key": "agent:main:x", "aborted": true}));
                }
                _ => {}
            }
            ledger.answer(step)
        });
        Self { gateway, asked }
    }

    /// Returns the scopes that this action requests.
    fn scopes_of(&self, act: impl FnOnce(Root)) -> Vec<Value> {
        self.asked.lock().unwrap().clear();
        act(root(&self.gateway));
        self.asked.lock().unwrap().clone()
    }
}

#[test]
fn no_call_asks_for_more_than_it_needs() {
    let office = Office::open(false);
    let door = |root: &Root| GatewayClient::of(root).unwrap();
    let launch = Launch { message: "go", ..Launch::default() };
    assert_eq!(office.scopes_of(|root| drop(door(&root).launch(&launch).unwrap())), [json!(BEGIN)]);
    assert_eq!(office.scopes_of(|root| drop(door(&root).send("k", "on", None).unwrap())), [json!(BEGIN)]);
    assert_eq!(office.scopes_of(|root| drop(door(&root).stop("k").unwrap())), [json!(WRITE)]);
    let decided = office.scopes_of(|root| door(&root).decide("a-1", Decision::Deny).unwrap());
    assert_eq!(decided, [json!(JUDGE)]);

    let list = |mut root: Root, approvals| {
        root.keys.as_mut().unwrap().approvals = Some(approvals);
        fleet(vec![root], PATIENT)
    };
    let modest = office.scopes_of(|root| drop(list(root, false).survey(&everything())));
    assert_eq!(modest, [json!(READ)]);
    let whole = office.scopes_of(|root| drop(list(root, true).survey(&everything())));
    assert_eq!(whole, [json!(READ), json!(JUDGE)]);
    let peek = office.scopes_of(|root| {
        let fleet = list(root, false);
        let selector = Selector { text: "agent:main:x".into(), ..Selector::default() };
        let (found, _) = fleet.find(&selector, agentctl_fleet::Purpose::Read).unwrap();
        fleet.read(&found, 5).unwrap();
    });
    assert!(peek.len() > 1 && peek.iter().all(|scopes| *scopes == json!(READ)), "{peek:?}");
}

#[test]
fn more_is_asked_for_only_where_the_gateway_insists() {
    let office = Office::open(true);
    let asked = office.scopes_of(|root| drop(GatewayClient::of(&root).unwrap().stop("k").unwrap()));
    assert_eq!(asked, [json!(WRITE), json!(["operator.admin"])]);
}
