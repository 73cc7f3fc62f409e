//! A recorded exchange, played into a ledger that answers as the gateway would after each line.

use std::collections::HashMap;

use agentctl_testkit::agents::openclaw::Ledger;
use serde_json::{Value, json};

/// What is known after some lines.
#[derive(Default)]
pub(crate) struct Playback {
    pub(crate) ledger: Ledger,
    /// The connection is closed.
    pub(crate) closed: bool,
    /// Some pages of a list came, and more must follow.
    pub(crate) mid_list: bool,
    asked: HashMap<String, (String, Value)>,
    pages: Vec<Value>,
}

impl Playback {
    pub(crate) fn next_connection(&mut self) {
        self.closed = false;
        self.asked.clear();
    }

    pub(crate) fn feed(&mut self, line: &Value) {
        let frame = &line["frame"];
        match (line["dir"].as_str().unwrap(), frame["type"].as_str()) {
            ("close", _) => self.closed = true,
            ("out", _) => {
                let call = (text(&frame["method"]), frame["params"].clone());
                self.asked.insert(text(&frame["id"]), call);
            }
            (_, Some("res")) if frame["ok"] == true => {
                if let Some((method, params)) = self.asked.get(&text(&frame["id"])).cloned() {
                    self.answered(&method, &params, &frame["payload"]);
                }
            }
            (_, Some("event")) => self.told(&text(&frame["event"]), &frame["payload"]),
            _ => {}
        }
    }

    fn answered(&mut self, method: &str, params: &Value, payload: &Value) {
        match method {
            "sessions.list" => self.listed(params, payload),
            "sessions.subscribe" if payload["list"].is_object() => self.listed(&json!({}), &payload["list"]),
            "cron.list" => self.ledger.jobs.clone_from(payload["jobs"].as_array().unwrap()),
            "exec.approval.list" => self.ledger.approvals.clone_from(payload.as_array().unwrap()),
            "chat.history" if !payload["sessionInfo"].is_null() => {
                let key = text(&payload["sessionKey"]);
                self.put(&payload["sessionInfo"]);
                let messages = payload["messages"].as_array().unwrap().clone();
                self.ledger.messages.insert(key.clone(), messages);
                self.ledger.in_flight.remove(&key);
                if !payload["inFlightRun"].is_null() {
                    self.ledger.in_flight.insert(key, payload["inFlightRun"].clone());
                }
            }
            "sessions.create" => {
                let key = text(&payload["key"]);
                self.merge(&key, &payload["entry"]);
                let resolved = &payload["resolved"];
                let now = json!({"hasActiveRun": payload["runStarted"], "model": resolved["model"],
                    "modelProvider": resolved["modelProvider"]});
                self.merge(&key, &now);
                self.say(&key, "user", &params["message"]);
            }
            "chat.send" | "sessions.send" => {
                let key = params["sessionKey"].as_str().or(params["key"].as_str()).unwrap().to_owned();
                self.merge(&key, &json!({"hasActiveRun": true}));
            }
            "agent" => self.agent(params, payload),
            "agent.wait" if payload["status"] == "ok" => {
                let run = payload["runId"].clone();
                let is_it = |row: &&mut Value| row["lastRunId"] == run;
                if let Some(row) = self.ledger.rows.iter_mut().find(is_it) {
                    merge(row, &json!({"hasActiveRun": false, "status": "done"}));
                }
            }
            "sessions.delete" if payload["deleted"] == true => self.remove(&text(&payload["key"])),
            _ => {}
        }
    }

    /// The first response says that the run was accepted, the second how it ended.
    fn agent(&mut self, params: &Value, payload: &Value) {
        let Some(key) = params["sessionKey"].as_str() else { return };
        let meta = &payload["result"]["meta"]["agentMeta"];
        if payload["status"] == "ok" {
            let ended = json!({"hasActiveRun": false, "status": "done", "sessionId": meta["sessionId"]});
            self.merge(key, &ended);
            self.say(key, "assistant", &payload["result"]["payloads"][0]["text"]);
        } else {
            let running = json!({"hasActiveRun": true, "lastRunId": payload["runId"]});
            self.merge(key, &running);
            if let Some(own) = params["sessionId"].as_str() {
                self.merge(key, &json!({"sessionId": own}));
            }
        }
    }

    fn listed(&mut self, params: &Value, payload: &Value) {
        let rows = payload["sessions"].as_array().unwrap().clone();
        if !params["archived"].is_null() {
            return;
        }
        let whole = params["search"].is_null() && params["activeOnly"].is_null();
        if !whole {
            // A search without results shows that its target is gone.
            if let (Some(key), true) = (params["search"].as_str(), rows.is_empty()) {
                self.remove(key);
            }
            for row in &rows {
                self.put(row);
            }
            return;
        }
        if params["offset"].as_u64().unwrap_or(0) == 0 {
            self.pages.clear();
        }
        self.pages.extend(rows);
        self.mid_list = payload["hasMore"] == true;
        if !self.mid_list {
            self.ledger.rows = std::mem::take(&mut self.pages);
        }
    }

    fn told(&mut self, event: &str, payload: &Value) {
        let key = text(&payload["sessionKey"]);
        match event {
            "sessions.changed" if payload["reason"] == "delete" => self.remove(&key),
            "sessions.changed" | "session.message" if payload["session"]["archived"] != true => {
                if payload["session"]["key"].is_string() {
                    self.put(&payload["session"]);
                }
                if event == "session.message" {
                    self.ledger.messages.entry(key).or_default().push(payload["message"].clone());
                }
            }
            "exec.approval.requested" => self.ledger.approvals.push(payload.clone()),
            "exec.approval.resolved" => {
                self.ledger.approvals.retain(|approval| approval["id"] != payload["id"]);
            }
            "agent" if payload["stream"] == "lifecycle" && !key.contains(":run:") => {
                match payload["data"]["phase"].as_str() {
                    Some("start") => self.merge(&key, &json!({"hasActiveRun": true})),
                    Some("end") => self.merge(&key, &json!({"hasActiveRun": false, "status": "done"})),
                    _ => {}
                }
                if payload["sessionId"].is_string() {
                    self.merge(&key, &json!({"sessionId": payload["sessionId"]}));
                }
            }
            "cron" if payload["job"].is_object() => {
                let job = &payload["job"];
                self.ledger.jobs.retain(|known| known["id"] != job["id"]);
                self.ledger.jobs.push(job.clone());
            }
            _ => {}
        }
    }

    fn say(&mut self, key: &str, role: &str, words: &Value) {
        let message = json!({"role": role, "content": words});
        self.ledger.messages.entry(key.to_owned()).or_default().push(message);
    }

    /// Replaces the known row with the one that was received.
    fn put(&mut self, row: &Value) {
        *self.ledger.row(row["key"].as_str().unwrap()) = row.clone();
    }

    fn merge(&mut self, key: &str, fields: &Value) {
        merge(self.ledger.row(key), fields);
    }

    fn remove(&mut self, key: &str) {
        self.ledger.rows.retain(|row| row["key"] != key);
    }
}

fn merge(row: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        row[name] = value.clone();
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
