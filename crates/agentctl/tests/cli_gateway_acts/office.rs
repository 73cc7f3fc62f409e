//! A scripted gateway, and a machine that knows it.

use std::sync::{Arc, Mutex, MutexGuard};

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use crate::machine::Machine;

pub(crate) const TOKEN: &str = "token-of-openclaw";

/// A gateway that does what it is asked and records it.
pub(crate) struct Office {
    ledger: Arc<Mutex<Ledger>>,
    pub(crate) asked: Arc<Mutex<Vec<(String, Value)>>>,
    _gateway: ScriptedGateway,
    pub(crate) machine: Machine,
}

impl Office {
    pub(crate) fn open() -> Self {
        let (ledger, asked) = (Arc::new(Mutex::new(Ledger::default())), Arc::new(Mutex::new(Vec::new())));
        let (known, log) = (Arc::clone(&ledger), Arc::clone(&asked));
        let gateway = ScriptedGateway::start(move |step| {
            let mut ledger = known.lock().unwrap();
            let Step::Request { method, params } = step else { return ledger.answer(step) };
            log.lock().unwrap().push((method.to_owned(), params.clone()));
            act(&mut ledger, method, params).unwrap_or_else(|| ledger.answer(step))
        });
        let machine = Machine::empty();
        let port = gateway.url().rsplit(':').next().unwrap().to_owned();
        machine.write(
            ".openclaw/openclaw.json",
            &format!("{{gateway: {{port: {port}, auth: {{token: '{TOKEN}'}}}}}}"),
        );
        machine.write(".agentctl/config.toml", "[adapters.openclaw]\ntimeout = \"30s\"\n");
        Self { ledger, asked, _gateway: gateway, machine }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// The requests to the gateway with this method.
    pub(crate) fn asked(&self, method: &str) -> Vec<Value> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(name, _)| name == method).map(|(_, params)| params.clone()).collect()
    }
}

/// What a real gateway was observed to do with these.
fn act(ledger: &mut Ledger, method: &str, params: &Value) -> Option<Act> {
    let key = ["key", "sessionKey"].into_iter().find_map(|name| params[name].as_str()).unwrap_or_default();
    let message = params["message"].as_str().unwrap_or_default();
    match method {
        "sessions.create" if message == "refuse me" => {
            Some(Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "Unknown provider \"nope\""})))
        }
        "sessions.create" => {
            let row = json!({"key": "agent:main:dashboard:1", "sessionId": "s-1", "hasActiveRun": message != "fail at once",
                "status": if message == "fail at once" { "failed" } else { "running" }, "lastRunError": "no such model",
                "lastRunId": (message == "fail at once").then_some("run-1"), "workspaceDir": "/w"});
            ledger.rows = vec![row];
            Some(Act::Proper(
                json!({"ok": true, "key": "agent:main:dashboard:1", "sessionId": "s-1", "runId": "run-1"}),
            ))
        }
        "chat.abort" if key.ends_with(":cut") => Some(Act::Cut),
        "chat.abort" if key.ends_with(":starting") => {
            Some(Act::Refuse(json!({"code": "UNAVAILABLE", "message": "gateway starting; retry shortly"})))
        }
        "chat.abort" if key.ends_with(":deleted") => {
            ledger.rows.retain(|row| row["key"] != key);
            Some(Act::Proper(json!({"aborted": false, "runIds": []})))
        }
        "chat.abort" if key.ends_with(":stubborn") => {
            Some(Act::Proper(json!({"aborted": true, "runIds": []})))
        }
        "chat.abort" if key.ends_with(":never") => {
            Some(Act::Refuse(json!({"code": "INVALID_REQUEST", "message": "not yours to stop"})))
        }
        "chat.abort" => {
            let was_at_work = ledger.row(key)["hasActiveRun"] == true;
            ledger.row(key)["hasActiveRun"] = json!(false);
            ledger.row(key)["status"] = json!("killed");
            Some(Act::Proper(json!({"aborted": was_at_work, "runIds": []})))
        }
        "sessions.send" => {
            // A turn that is over before any survey.
            ledger.row(key)["status"] = json!("done");
            ledger.row(key)["lastRunId"] = json!("run-2");
            Some(Act::Proper(json!({"runId": "run-2", "status": "started"})))
        }
        "exec.approval.resolve" => {
            ledger.approvals.retain(|one| one["id"] != params["id"]);
            Some(Act::Proper(json!({"ok": true})))
        }
        _ => None,
    }
}
