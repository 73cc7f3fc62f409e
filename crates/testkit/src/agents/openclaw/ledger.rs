//! The data of a gateway, and the answers that a correct gateway gives from it.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};

use super::manners::Act;
use super::scripted::Step;

/// The rows, jobs, approvals and conversations of one gateway, in the gateway's own JSON.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    pub rows: Vec<Value>,
    pub jobs: Vec<Value>,
    pub approvals: Vec<Value>,
    pub agents: Vec<Value>,
    /// Messages by session key.
    pub messages: HashMap<String, Vec<Value>>,
    /// The answer that is being streamed, by session key.
    pub in_flight: HashMap<String, Value>,
    /// Which of the requested scopes it grants; `None` grants them all.
    pub scopes: Option<Vec<String>>,
    pub boot: String,
    /// The maximum number of rows in one answer, whatever limit the request has.
    pub page: Option<usize>,
    /// The same for the messages of a conversation.
    pub history_page: Option<usize>,
}

impl Ledger {
    /// The row of a session, created when it does not exist.
    pub fn row(&mut self, key: &str) -> &mut Value {
        let known = self.rows.iter().position(|row| row["key"] == key);
        let index = known.unwrap_or_else(|| {
            self.rows.push(json!({"key": key}));
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }

    /// The sessions that the gateway reports as running: by their rows, and by jobs whose row is not active yet.
    pub fn at_work(&self) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rows = self.rows.iter().filter(|row| row["hasActiveRun"] == true).map(|row| text(&row["key"]));
        let jobs = self.jobs.iter().filter(|job| !job["state"]["runningAtMs"].is_null());
        rows.chain(jobs.map(|job| format!("agent:main:cron:{}", text(&job["id"])))).collect()
    }

    /// The correct answer.
    pub fn answer(&self, step: Step<'_>) -> Act {
        let Step::Request { method, params } = step else { return Act::Proper(Value::Null) };
        let payload = match method {
            "connect" => self.hello(params),
            "sessions.list" => self.list(params),
            "cron.list" => json!({"jobs": self.jobs, "hasMore": false, "nextOffset": null}),
            "exec.approval.list" => json!(self.approvals),
            "agents.list" => json!({"defaultId": "main", "agents": self.agents}),
            "sessions.subscribe" => json!({"subscribed": true}),
            "chat.history" => self.history(params),
            other => {
                let error =
                    json!({"code": "FORBIDDEN", "message": "missing scope: operator.admin", "what": other});
                return Act::Refuse(error);
            }
        };
        Act::Proper(payload)
    }

    fn hello(&self, params: &Value) -> Value {
        let scopes = self.scopes.as_ref().map_or_else(|| params["scopes"].clone(), |scopes| json!(scopes));
        json!({
            "type": "hello-ok", "protocol": 4, "server": {"version": "2026.9.6", "bootId": self.boot},
            "features": {"methods": [], "events": []}, "auth": {"role": "operator", "scopes": scopes},
            "policy": {"maxPayload": 26_214_400, "tickIntervalMs": 30_000},
        })
    }

    fn list(&self, params: &Value) -> Value {
        let number = |name: &str| params[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let searched = params["search"].as_str().map(|search| search.trim().to_lowercase());
        let fits = |row: &&Value| {
            let text = |name: &str| row[name].as_str().unwrap_or_default().to_lowercase();
            let found = searched.as_ref().is_none_or(|search| {
                ["key", "sessionId", "label"].iter().any(|name| text(name).contains(search.as_str()))
            });
            found && (params["activeOnly"] != true || row["hasActiveRun"] == true)
        };
        let rows: Vec<&Value> = self.rows.iter().filter(fits).collect();
        let offset = number("offset").unwrap_or(0).min(rows.len());
        let limit = number("limit").unwrap_or(100).min(self.page.unwrap_or(usize::MAX));
        let end = (offset + limit).min(rows.len());
        let more = end < rows.len();
        json!({
            "ts": 1_794_725_739_451_i64, "count": end - offset, "totalCount": rows.len(), "hasMore": more,
            "nextOffset": more.then_some(end), "limitApplied": limit, "sessions": rows[offset..end],
        })
    }

    /// A page of a conversation. Offsets count stored messages from its end; one message can have several rows.
    fn history(&self, params: &Value) -> Value {
        let key = params["sessionKey"].as_str().unwrap_or_default();
        let all = self.messages.get(key).map_or(&[][..], Vec::as_slice);
        let number = |name: &str| params[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let id = |message: &Value| message["__openclaw"]["id"].as_str().map(str::to_owned);
        let stored: Vec<&[Value]> =
            all.chunk_by(|one, next| id(one).is_some() && id(one) == id(next)).collect();
        let offset = number("offset").unwrap_or(0).min(stored.len());
        let limit = number("limit").unwrap_or(200).min(self.history_page.unwrap_or(usize::MAX));
        let end = stored.len() - offset;
        let start = end.saturating_sub(limit);
        let mut history = json!({
            "sessionKey": key, "messages": stored[start..end].concat(), "hasMore": start > 0,
            "totalMessages": stored.len(),
        });
        if start > 0 {
            history["nextOffset"] = json!(stored.len() - start);
        }
        if let Some(run) = self.in_flight.get(key) {
            history["inFlightRun"] = run.clone();
        }
        history
    }
}
