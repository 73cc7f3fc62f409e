//! What a thread of an app-server waits for.
//!
//! The server numbers its requests anew in each process, so a request is named by its number and by the item that it is
//! about. It sends its unanswered requests to every client that joins the thread.

use std::io;
use std::path::PathBuf;

use agentctl_model::text::visible;
use agentctl_model::{OptionKind, OptionScope, Pending, PendingKind, PendingOption};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Server;
use crate::agents::codex::rollout::calls::call_in_words;
use crate::agents::codex::storage::RolloutFile;
use crate::control::offer::{Question, option, questions};
use crate::transcript::call;

pub(super) const COMMAND: &str = "item/commandExecution/requestApproval";
pub(super) const CHANGE: &str = "item/fileChange/requestApproval";
pub(super) const PERMISSIONS: &str = "item/permissions/requestApproval";
pub(super) const QUESTION: &str = "item/tool/requestUserInput";
pub(super) const ELICITATION: &str = "mcpServer/elicitation/request";

/// One request that waits.
#[derive(Debug)]
pub(super) struct Asked {
    /// The server's own message.
    pub(super) message: Value,
    /// The call that is to change files. The request itself does not name them.
    changes: Option<String>,
}

/// Joins a thread that waits, and returns its requests in the order in which they were asked.
pub(super) fn join(server: &mut Server, thread: &str) -> io::Result<Result<Vec<Asked>, String>> {
    let joined = match server.ask("thread/resume", &json!({"threadId": thread, "excludeTurns": true}))? {
        Ok(joined) => joined,
        Err(words) => return Ok(Err(words)),
    };
    let flags = joined["thread"]["status"]["activeFlags"].as_array();
    if flags.is_some_and(Vec::is_empty) {
        return Ok(Ok(Vec::new()));
    }
    let mut waiting = Vec::new();
    while waiting.is_empty() {
        let message = server.receive()?;
        waiting.extend(is_request(&message, thread).then_some(message));
    }
    // All are sent at once, and the answer to a further question comes after them.
    let _ = server.call("thread/read", &json!({"threadId": thread, "includeTurns": false}))?;
    for message in std::mem::take(&mut server.unread) {
        if message["method"] == "serverRequest/resolved" {
            waiting.retain(|asked| asked["id"] != message["params"]["requestId"]);
        } else if is_request(&message, thread) && !waiting.iter().any(|asked| asked["id"] == message["id"]) {
            waiting.push(message);
        }
    }
    let asked = waiting.into_iter().map(|message| {
        let is_change = message["method"] == CHANGE;
        let changes = is_change.then(|| changes(&joined["thread"], &message["params"])).flatten();
        Asked { message, changes }
    });
    Ok(Ok(asked.collect()))
}

fn is_request(message: &Value, thread: &str) -> bool {
    message["method"].is_string() && !message["id"].is_null() && message["params"]["threadId"] == thread
}

/// The call with which the model wants to change files, whole. The server does not tell it to clients that join later,
/// but the rollout that it writes has it.
fn changes(thread: &Value, asked: &Value) -> Option<String> {
    let (rollout, id) = (thread["path"].as_str()?, asked["itemId"].as_str()?);
    let rollout = RolloutFile::at(PathBuf::from(rollout)).filter(|rollout| thread["id"] == rollout.id)?;
    call_in_words(&rollout.path, id).ok()?
}

impl Asked {
    #[cfg(test)]
    pub(super) fn of(message: Value) -> Self {
        Self { message, changes: None }
    }

    pub(super) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(super) fn params(&self) -> &Value {
        &self.message["params"]
    }

    /// Names no other request of this thread.
    pub(super) fn id(&self) -> String {
        let params = self.params();
        let about = ["approvalId", "itemId", "turnId"].iter().find_map(|key| params[key].as_str());
        format!("{}:{}", about.unwrap_or_default(), self.message["id"])
    }

    pub(super) fn pending(&self) -> Pending {
        let params = self.params();
        let (kind, summary, options) = match self.method() {
            COMMAND => (PendingKind::Approval, self.command(), self.decisions()),
            CHANGE => {
                let changes = self.changes.clone().unwrap_or_else(|| "changes files".to_owned());
                (PendingKind::Approval, self.with_reason(changes), self.decisions())
            }
            PERMISSIONS => {
                let wanted = call::words("permissions", &params["permissions"].to_string());
                (PendingKind::Approval, self.with_reason(wanted), self.decisions())
            }
            QUESTION => {
                let asked = params["questions"].as_array().into_iter().flatten();
                let asked: Vec<Question<'_>> = asked.map(question).collect();
                let (summary, options) = questions(&asked, None);
                (PendingKind::Question, summary, options)
            }
            method => {
                let what = params["message"].as_str().unwrap_or(method);
                (PendingKind::Question, visible(what), Vec::new())
            }
        };
        let since = params["startedAtMs"].as_i64().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let answerable = [COMMAND, CHANGE, PERMISSIONS, QUESTION].contains(&self.method());
        let id = Some(self.id());
        Pending { answerable, id, options, ..Pending::new(kind, Some(summary), since) }
    }

    fn command(&self) -> String {
        let params = self.params();
        let mut words = call::words("command", params["command"].as_str().unwrap_or_default());
        for (key, name) in
            [("cwd", "in"), ("networkApprovalContext", "network"), ("additionalPermissions", "permissions")]
        {
            let told = match &params[key] {
                Value::Null => continue,
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            words = format!("{words}\n{}", call::words(name, &told));
        }
        self.with_reason(words)
    }

    fn with_reason(&self, words: String) -> String {
        match self.params()["reason"].as_str() {
            Some(reason) => format!("{words}\n{}", call::words("reason", reason)),
            None => words,
        }
    }

    /// What can be decided. The server takes more than it lists.
    fn decisions(&self) -> Vec<PendingOption> {
        let mut options = vec![
            option("accept", "Allow once", OptionKind::AllowOnce, OptionScope::Once),
            option(
                "acceptForSession",
                "Allow for this session",
                OptionKind::AllowAlways,
                OptionScope::Session,
            ),
        ];
        let listed = self.params()["availableDecisions"].as_array().into_iter().flatten();
        for (name, decision) in listed.filter_map(Value::as_object).flatten() {
            // Both are written into the agent's own rules.
            let kind = match name.as_str() {
                "applyNetworkPolicyAmendment" if decision.to_string().contains("\"deny\"") => {
                    OptionKind::DenyAlways
                }
                "acceptWithExecpolicyAmendment" | "applyNetworkPolicyAmendment" => OptionKind::AllowAlways,
                _ => OptionKind::Other,
            };
            let label = format!("Keep as a rule: {}", visible(&decision.to_string()));
            options.push(option(name, &label, kind, OptionScope::User));
        }
        options.push(option("decline", "Deny", OptionKind::Deny, OptionScope::Once));
        options
    }
}

fn question(asked: &Value) -> Question<'_> {
    let choices = asked["options"].as_array().into_iter().flatten();
    Question {
        words: asked["question"].as_str().unwrap_or_default(),
        choices: choices
            .filter_map(|one| Some((one["label"].as_str()?, one["description"].as_str().unwrap_or_default())))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, number: u64, params: &Value) -> Asked {
        Asked::of(json!({"method": method, "id": number, "params": params}))
    }

    #[test]
    fn a_request_is_named_by_its_item_and_its_number() {
        let id = |number, params: Value| asked(COMMAND, number, &params).id();
        assert_eq!(id(0, json!({"turnId": "t", "itemId": "call_1"})), "call_1:0");
        assert_eq!(id(1, json!({"turnId": "t", "itemId": "call_1"})), "call_1:1", "asked again");
        assert_eq!(id(0, json!({"turnId": "t", "itemId": "call_1", "approvalId": "a"})), "a:0");
        assert_eq!(id(0, json!({"turnId": "t"})), "t:0");
    }

    #[test]
    fn what_is_kept_as_a_rule_reaches_the_user() {
        let params = json!({"itemId": "c", "command": "make", "cwd": "/w", "reason": "to build", "startedAtMs": 1000,
            "availableDecisions": ["accept",
                {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["make"]}}, "cancel"]});
        let pending = asked(COMMAND, 0, &params).pending();
        assert_eq!(pending.summary.as_deref(), Some("command: make\nin: /w\nreason: to build"));
        assert_eq!(pending.since, Timestamp::from_second(1).ok());
        assert!(pending.answerable);
        let offered: Vec<_> = pending.options.iter().map(|one| (one.kind, one.scope)).collect();
        assert_eq!(
            offered,
            [
                (OptionKind::AllowOnce, OptionScope::Once),
                (OptionKind::AllowAlways, OptionScope::Session),
                (OptionKind::AllowAlways, OptionScope::User),
                (OptionKind::Deny, OptionScope::Once),
            ]
        );
    }

    #[test]
    fn what_cannot_be_answered_from_here_is_shown_and_says_so() {
        let pending = asked(ELICITATION, 0, &json!({"serverName": "s", "message": "Who are you?"})).pending();
        assert_eq!((pending.summary.as_deref(), pending.answerable), (Some("Who are you?"), false));
    }
}
