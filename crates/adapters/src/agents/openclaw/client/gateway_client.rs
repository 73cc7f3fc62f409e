//! One gateway and the requests to it: the library behind launch, stop, send and approvals.
//!
//! Every call opens its own connection with exactly the rights it needs. Nothing here decides about a status: only
//! the next survey says what is true afterwards.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::connection::{ADMIN, APPROVALS, Connection, REQUEST_TIMEOUT, WRITE};
use super::error::GatewayError;
use super::rows::Approval;
use crate::agents::openclaw::settings::address::Address;
use crate::{Keys, Root};

#[derive(Debug, Clone)]
pub struct GatewayClient {
    address: Address,
    keys: Keys,
    timeout: Duration,
}

/// A session to begin. `key` may name an existing session, which then receives the message.
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
    /// Sent again with the same key, the launch happens once.
    pub idempotency_key: Option<&'a str>,
}

impl Launch<'_> {
    pub(crate) fn params(&self) -> Value {
        compact(json!({
            "message": self.message, "key": self.key, "agentId": self.agent, "displayName": self.name,
            "model": self.model, "cwd": self.cwd, "permissionMode": self.permission_mode,
            "idempotencyKey": self.idempotency_key,
        }))
    }
}

/// The gateway's immediate answer: real ids, before the first token.
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
    /// `started`, `in_flight` for a message that was sent before, or a status of a queue.
    pub status: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    AllowOnce,
    Deny,
}

impl GatewayClient {
    /// The gateway of a root; `None` when the root is not an address.
    pub fn of(root: &Root) -> Option<Self> {
        let address = Address::parse(root.path.to_str()?)?;
        Some(Self { address, keys: root.keys.clone().unwrap_or_default(), timeout: REQUEST_TIMEOUT })
    }

    /// Uses this timeout for the handshake and for each response, instead of the usual one.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Whether pending approvals are read. That requires an administrator: on this machine the token makes us one,
    /// elsewhere it would be a wider pairing, which the user must ask for.
    pub(crate) fn wants_approvals(&self) -> bool {
        self.keys.approvals.unwrap_or(self.address.is_loopback())
    }

    pub(crate) fn connect(&self, scopes: &[&'static str]) -> Result<Connection, GatewayError> {
        Connection::connect(&self.address, &self.keys, scopes, self.timeout)
    }

    /// Begins a session. A directory outside the agent's workspace needs more rights, which are requested only then.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<Launched, GatewayError> {
        self.begin("sessions.create", &launch.params())
    }

    /// Sends the request with the rights to write and to ask for approvals: a run has the rights of the connection
    /// that began it, and without the second right its guarded commands fail instead of waiting.
    fn begin<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, GatewayError> {
        self.act(method, params, [&[WRITE, APPROVALS], &[ADMIN, APPROVALS]])
    }

    /// Sends the request with the first of these rights. If the gateway answers that an administrator is needed,
    /// sends it again with the second; every other refusal is final.
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

    /// Ends the current run; the session stays and can take the next message. Only administrators can end a run that
    /// another connection began.
    pub fn stop(&self, key: &str) -> Result<Stopped, GatewayError> {
        self.act("chat.abort", &json!({"sessionKey": key}), [&[WRITE], &[ADMIN]])
    }

    /// Sends a message to an existing session. Sent again with the same key, it starts nothing.
    pub fn send(
        &self,
        key: &str,
        message: &str,
        idempotency_key: Option<&str>,
    ) -> Result<Sent, GatewayError> {
        self.begin("sessions.send", &Self::message(key, message, idempotency_key))
    }

    /// The same for a session that is created if it does not exist.
    pub(crate) fn chat(&self, key: &str, message: &str, idempotency_key: &str) -> Result<(), GatewayError> {
        let params = json!({"sessionKey": key, "message": message, "idempotencyKey": idempotency_key});
        self.begin("chat.send", &params).map(|_: Value| ())
    }

    /// The parameters of `sessions.send`.
    pub(crate) fn message(key: &str, message: &str, idempotency_key: Option<&str>) -> Value {
        compact(json!({"key": key, "message": message, "idempotencyKey": idempotency_key}))
    }

    /// The pending approvals. Only administrators see those of others; anybody else gets an empty list.
    pub fn approvals(&self) -> Result<Vec<Approval>, GatewayError> {
        listed(&mut self.approver()?)
    }

    /// The same within this total time, for callers that can do without.
    pub(crate) fn approvals_within(&self, time: Duration) -> Result<Vec<Approval>, GatewayError> {
        let until = Instant::now() + time.min(self.timeout);
        let mut connection = self.clone().with_timeout(time.min(self.timeout)).approver()?;
        connection.set_timeout(until.saturating_duration_since(Instant::now()));
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

/// Removes fields without a value: the gateway refuses properties that it does not expect, and null is one.
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
