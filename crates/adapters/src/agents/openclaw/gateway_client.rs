//! One gateway, and what can be asked of it: the library behind launch, stop, send and approvals.
//!
//! Every call is a connection of its own with exactly the rights it needs. Nothing here decides about a status: what
//! is true afterwards is for the next survey to say.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::address::Address;
use super::connection::{ADMIN, APPROVALS, Connection, PATIENCE, WRITE};
use super::error::GatewayError;
use super::rows::Approval;
use crate::{Keys, Root};

#[derive(Debug, Clone)]
pub struct GatewayClient {
    address: Address,
    keys: Keys,
    patience: Duration,
}

/// A session to begin. `key` may name a session that exists: it then gets the message.
#[derive(Debug, Clone, Default)]
pub struct Launch<'a> {
    pub message: &'a str,
    pub key: Option<&'a str>,
    pub agent: Option<&'a str>,
    pub name: Option<&'a str>,
    pub model: Option<&'a str>,
    pub cwd: Option<&'a str>,
    /// read-only, guarded, workspace or full.
    pub permission_mode: Option<&'a str>,
    /// Sent again with the same word, the launch happens once.
    pub idempotency_key: Option<&'a str>,
}

impl Launch<'_> {
    pub(super) fn params(&self) -> Value {
        compact(json!({
            "message": self.message, "key": self.key, "agentId": self.agent, "displayName": self.name,
            "model": self.model, "cwd": self.cwd, "permissionMode": self.permission_mode,
            "idempotencyKey": self.idempotency_key,
        }))
    }
}

/// What the gateway answers at once: real ids, before the first token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launched {
    pub key: String,
    pub session_id: Option<String>,
    pub run_id: Option<String>,
}

/// Whether there was anything to stop.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stopped {
    pub aborted: bool,
    #[serde(default)]
    pub run_ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sent {
    pub run_id: Option<String>,
    /// `started`, `in_flight` for a message that was sent before, or a word about a queue.
    pub status: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    AllowOnce,
    Deny,
}

impl GatewayClient {
    /// The gateway behind a root; `None` when the root is no address.
    pub fn of(root: &Root) -> Option<Self> {
        let address = Address::parse(root.path.to_str()?)?;
        Some(Self { address, keys: root.keys.clone().unwrap_or_default(), patience: PATIENCE })
    }

    /// With this patience for letting us in and for each answer, instead of the usual one.
    #[must_use]
    pub fn patient_for(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether it is asked what waits for a person. That takes an administrator: on this machine the token makes us one,
    /// elsewhere it would be a wider pairing, which somebody must want.
    pub(super) fn wants_approvals(&self) -> bool {
        self.keys.approvals.unwrap_or(self.address.is_loopback())
    }

    pub(super) fn connect(&self, scopes: &[&'static str]) -> Result<Connection, GatewayError> {
        Connection::connect(&self.address, &self.keys, scopes, self.patience)
    }

    /// Begins a session. A folder outside the agent's workspace needs more rights, and only then they are asked for.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<Launched, GatewayError> {
        self.begin("sessions.create", &launch.params())
    }

    /// With the right to write, and to ask a person: a run has the rights of the connection that began it, and without
    /// the second one its guarded commands fail instead of waiting.
    fn begin<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, GatewayError> {
        self.act(method, params, [&[WRITE, APPROVALS], &[ADMIN, APPROVALS]])
    }

    /// With the first of these rights. Where the gateway says that this takes an administrator, with the second; every
    /// other refusal stands.
    fn act<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        [usual, more]: [&[&'static str]; 2],
    ) -> Result<T, GatewayError> {
        match self.connect(usual)?.ask(method, params) {
            Err(error) if wants_admin(&error) => self.connect(more)?.ask(method, params),
            other => other,
        }
    }

    /// Ends the run of the moment; the session stays and can take the next message. A run that another connection began
    /// is ended by administrators only.
    pub fn stop(&self, key: &str) -> Result<Stopped, GatewayError> {
        self.act("chat.abort", &json!({"sessionKey": key}), [&[WRITE], &[ADMIN]])
    }

    /// A message to a session that exists. Sent again with the same word it starts nothing.
    pub fn send(
        &self,
        key: &str,
        message: &str,
        idempotency_key: Option<&str>,
    ) -> Result<Sent, GatewayError> {
        self.begin("sessions.send", &Self::message(key, message, idempotency_key))
    }

    /// The same to a session that is made if there is none.
    pub(super) fn chat(&self, key: &str, message: &str, idempotency_key: &str) -> Result<(), GatewayError> {
        let params = json!({"sessionKey": key, "message": message, "idempotencyKey": idempotency_key});
        self.begin("chat.send", &params).map(|_: Value| ())
    }

    /// What would be sent.
    pub(super) fn message(key: &str, message: &str, idempotency_key: Option<&str>) -> Value {
        compact(json!({"key": key, "message": message, "idempotencyKey": idempotency_key}))
    }

    /// What waits for a person. Others' approvals are shown to administrators only, to anybody else the list is empty.
    pub fn approvals(&self) -> Result<Vec<Approval>, GatewayError> {
        listed(&mut self.approver()?)
    }

    /// The same in so much time altogether, for those who can do without.
    pub(super) fn approvals_within(&self, time: Duration) -> Result<Vec<Approval>, GatewayError> {
        let until = Instant::now() + time.min(self.patience);
        let mut connection = self.clone().patient_for(time.min(self.patience)).approver()?;
        connection.be_patient_for(until.saturating_duration_since(Instant::now()));
        listed(&mut connection)
    }

    fn approver(&self) -> Result<Connection, GatewayError> {
        self.connect(&[ADMIN, APPROVALS])
    }

    pub fn decide(&self, approval: &str, decision: Decision) -> Result<(), GatewayError> {
        let word = match decision {
            Decision::AllowOnce => "allow-once",
            Decision::Deny => "deny",
        };
        let params = json!({"id": approval, "decision": word});
        let _: Value = self.approver()?.ask("exec.approval.resolve", &params)?;
        Ok(())
    }
}

fn listed(approver: &mut Connection) -> Result<Vec<Approval>, GatewayError> {
    let list: Vec<Value> = approver.ask("exec.approval.list", &json!({}))?;
    Ok(list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

/// Without what was not said: the gateway refuses properties it does not expect, and null is one.
fn compact(mut params: Value) -> Value {
    if let Value::Object(fields) = &mut params {
        fields.retain(|_, value| !value.is_null());
    }
    params
}

fn wants_admin(error: &GatewayError) -> bool {
    error.refusal().is_some_and(|refusal| {
        refusal.message == "unauthorized"
            || (refusal.message.contains("missing scope") && refusal.message.contains(ADMIN))
    })
}
