//! The gateway's responses, as far as they are used. Pure. A field of an unexpected type loses that field, never the
//! row.

use std::fmt;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::bounded_list::bounded_list;

/// One page of `sessions.list`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    #[serde(deserialize_with = "bounded_list")]
    pub(crate) sessions: Vec<Row>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) ts: Option<Millis>,
    #[serde(default)]
    pub(crate) total_count: Option<usize>,
    #[serde(default)]
    pub(crate) has_more: bool,
    #[serde(default)]
    pub(crate) next_offset: Option<usize>,
}

/// One session. `key` is its identity; `session_id` names its current transcript.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) key: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) session_id: Option<String>,
    /// The live state; the only statement about whether the session is working.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) has_active_run: Option<bool>,
    /// How the last run ended, as stored: it says nothing about the present.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) status: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) last_run_error: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) last_run_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) label: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) display_name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) agent_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) agent_runtime: Option<Runtime>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) classification: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) channel: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) created_via: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) spawned_by: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) fork_source: Option<ForkSource>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) spawned_cwd: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) workspace_dir: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) worktree: Option<Worktree>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) model_provider: Option<String>,
    /// Of the last run alone, without what was read from a cache.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) input_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) output_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) created_at: Option<Millis>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) updated_at: Option<Millis>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) started_at: Option<Millis>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) ended_at: Option<Millis>,
}

impl Row {
    /// A row of a cron job or of a hook: nobody takes the next message.
    pub(crate) fn is_automation(&self) -> bool {
        self.created_via.as_deref() == Some("cron") || self.job_id().is_some()
    }

    /// The session is idle, which for an automation only its job can say.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_active_run == Some(false) && !self.is_automation()
    }

    /// What does the work behind it: OpenClaw itself, or the program of another agent.
    pub(crate) fn runtime(&self) -> Option<&str> {
        self.agent_runtime.as_ref().map(|runtime| runtime.id.as_str())
    }

    /// The text after `:cron:`: the id of a job, or the number of one post to a hook.
    pub(crate) fn job_id(&self) -> Option<&str> {
        let (_, rest) = self.key.split_once(":cron:")?;
        rest.split(':').next()
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ForkSource {
    pub(crate) session_key: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Runtime {
    pub(crate) id: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Worktree {
    pub(crate) branch: String,
}

/// One page of `cron.list`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Jobs {
    #[serde(rename = "jobs")]
    pub(crate) page: Vec<Job>,
    #[serde(default)]
    pub(crate) has_more: bool,
    #[serde(default)]
    pub(crate) next_offset: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) state: Option<JobState>,
}

impl Job {
    pub(crate) fn is_running(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running_at_ms.is_some())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobState {
    /// Set from the beginning of a run to its end; the row follows seconds later.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) running_at_ms: Option<Millis>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) last_run_status: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) last_error: Option<String>,
}

/// One entry of `exec.approval.list`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub id: String,
    pub request: ApprovalRequest,
    #[serde(default, deserialize_with = "lenient")]
    pub created_at_ms: Option<Millis>,
}

impl Approval {
    /// Sorts the one that has waited longest to the front.
    pub(crate) fn by_age(&self) -> (bool, Option<Millis>) {
        (self.created_at_ms.is_none(), self.created_at_ms)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    #[serde(default, deserialize_with = "lenient")]
    pub command: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub session_key: Option<String>,
}

/// `agents.list`, for the directory in which an agent's sessions work unless they say otherwise.
#[derive(Debug, Deserialize)]
pub(crate) struct Agents {
    pub(crate) agents: Vec<Agent>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Agent {
    pub(crate) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) workspace: Option<String>,
}

/// `chat.history`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    #[serde(default)]
    pub(crate) messages: Vec<Value>,
    #[serde(default)]
    pub(crate) has_more: bool,
    /// Counted in stored messages, of which one can arrive as several rows and another as none.
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) next_offset: Option<usize>,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) in_flight_run: Option<InFlight>,
}

/// The reply in progress.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InFlight {
    #[serde(default)]
    pub(crate) run_id: String,
    #[serde(default)]
    pub(crate) text: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(crate) started_at: Option<Millis>,
}

/// A time in milliseconds since 1970, as JavaScript counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub Timestamp);

impl fmt::Debug for Millis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl<'de> Deserialize<'de> for Millis {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let millis = f64::deserialize(from)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a moment out of range is refused by what follows"
        )]
        let moment = Timestamp::from_millisecond(millis as i64);
        moment.map(Self).map_err(serde::de::Error::custom)
    }
}

/// The value if it has the right type, otherwise nothing.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(T::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn odd_fields_cost_only_themselves() {
        let row: Row = serde_json::from_value(json!({
            "key": "agent:main:x", "hasActiveRun": "yes", "label": 7, "createdAt": 1e300, "updatedAt": 1000.5,
            "worktree": {}, "status": "done", "activitySummary": {"new": true},
        }))
        .unwrap();
        assert_eq!((row.has_active_run, row.label.as_deref(), row.created_at), (None, None, None));
        assert_eq!(row.updated_at, Some(Millis(Timestamp::from_second(1).unwrap())));
        assert_eq!((row.status.as_deref(), row.worktree), (Some("done"), None));
    }

    #[test]
    fn automation_is_known_by_its_key_or_its_origin() {
        let row = |key: &str, via: Option<&str>| Row {
            key: key.into(),
            created_via: via.map(str::to_owned),
            ..Row::default()
        };
        assert_eq!(row("agent:main:cron:j1:run:s", None).job_id(), Some("j1"));
        assert!(row("agent:main:x", Some("cron")).is_automation());
        assert!(!row("agent:main:cronology", Some("operator")).is_automation());
    }
}
