//! Turns the gateway's rows into sessions, each with the state that the gateway reports. Pure: the table of the
//! states is here.

use std::collections::HashMap;
use std::path::Path;

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{
    Evidence, Facts, Found, LiveReport, NativeSession, Parent, Pending, PendingKind, Relation, RemoteReport,
    RemoteState, Tokens, Turn, TurnState, Witness,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::client::rows::{Agent, Approval, Job, Row};
use super::natives::Native;
use crate::transcript::call;

const NAME: usize = 200;
const WORDS: usize = 300;

/// Everything the gateway reported at one moment, read to its end.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) rows: Vec<Row>,
    /// `None` when they could not be read: then no automation is reported as ended.
    pub(super) jobs: Option<Vec<Job>>,
    /// `None` when they were not requested, or not shown: a working session may then be waiting.
    pub(super) approvals: Option<Vec<Approval>>,
    pub(super) agents: Vec<Agent>,
    /// The native sessions of other agents, by the key of the gateway session.
    pub(super) natives: HashMap<String, Native>,
    /// The time by the gateway's own clock.
    pub(super) at: Option<Timestamp>,
}

impl Snapshot {
    /// Every session with the gateway's report about it.
    pub(super) fn sessions(&self, place: &Path) -> Vec<(Found, RemoteReport)> {
        let jobs: HashMap<&str, &Job> =
            self.jobs.iter().flatten().map(|job| (job.id.as_str(), job)).collect();
        let folders: HashMap<&str, &str> = self
            .agents
            .iter()
            .filter_map(|agent| Some((agent.id.as_str(), agent.workspace.as_deref()?)))
            .collect();
        let mut waiting: HashMap<&str, Vec<&Approval>> = HashMap::new();
        for approval in self.approvals.iter().flatten() {
            if let Some(key) = approval.request.session_key.as_deref() {
                waiting.entry(key).or_default().push(approval);
            }
        }
        for approvals in waiting.values_mut() {
            approvals.sort_by_key(|approval| approval.by_age());
        }
        self.rows
            .iter()
            .map(|row| {
                let job = row.job_id().and_then(|id| jobs.get(id).copied());
                let approvals = waiting.get(row.key.as_str()).map_or(&[][..], Vec::as_slice);
                let folder = row.agent_id.as_deref().and_then(|agent| folders.get(agent).copied());
                let found = Found {
                    id: row.key.clone(),
                    variant: None,
                    place: place.to_owned(),
                    stamp: None,
                    facts: self.facts(row, job, folder),
                    evidence: Vec::new(),
                };
                (found, self.remote(row, job, approvals))
            })
            .collect()
    }

    fn facts(&self, row: &Row, job: Option<&Job>, folder: Option<&str>) -> Facts {
        let mut facts = facts(row, job, folder);
        if let Some(native) = self.natives.get(&row.key) {
            let root = native.root.as_deref().map(|root| clean_cut(&root.to_string_lossy(), None));
            let id = clean_cut(&native.id, Some(NAME));
            let native = NativeSession { adapter: native.adapter.to_owned(), id, root };
            facts.meta.native = Some(Box::new(native));
        }
        facts
    }

    /// Working, ready, ended, or not reported: from `hasActiveRun`, and for automations from their job; never from a
    /// time.
    fn remote(&self, row: &Row, job: Option<&Job>, approvals: &[&Approval]) -> RemoteReport {
        let job_runs = job.and_then(|job| job.state.as_ref()).and_then(|state| state.running_at_ms);
        let (state, report_text) = match row.has_active_run {
            Some(true) if self.approvals.is_none() => {
                (RemoteState::Running, "hasActiveRun is true; its approvals were not looked at")
            }
            Some(true) => (RemoteState::Running, "hasActiveRun is true"),
            Some(false) if !row.is_automation() => (RemoteState::Ready, "hasActiveRun is false"),
            Some(false) if job_runs.is_some() => (RemoteState::Running, "the cron job is running"),
            Some(false) if self.jobs.is_none() => {
                (RemoteState::Unsaid, "hasActiveRun is false, the cron jobs were not heard")
            }
            Some(false) => (RemoteState::Ended, "an automation, hasActiveRun is false"),
            None => (RemoteState::Unsaid, "the row has no hasActiveRun"),
        };
        let mut live_report = LiveReport::default();
        if state == RemoteState::Running {
            live_report.since = job_runs.or_else(|| began(row)).map(|at| at.0);
            live_report.pending = approvals.iter().map(|approval| pending(approval)).collect();
            if let Some(first) = live_report.pending.first() {
                live_report.detail.clone_from(&first.summary);
                live_report.turn = Some(Turn::new(TurnState::Approval, None));
                let count = live_report.pending.len();
                live_report.evidence.push(Evidence::said(
                    Witness::Gateway,
                    format!("{count} approval(s) of this session are pending"),
                    self.at,
                ));
            }
        }
        RemoteReport {
            id: row.key.clone(),
            variant: None,
            state,
            evidence: Evidence::said(Witness::Gateway, report_text, self.at),
            live_report,
        }
    }
}

/// When the current run began; the stored time of an older run does not count.
fn began(row: &Row) -> Option<super::client::rows::Millis> {
    row.started_at.filter(|started| row.ended_at.is_none_or(|ended| ended < *started))
}

fn pending(approval: &Approval) -> Pending {
    let command = approval.request.command.as_deref();
    let summary = command.map(|command| call::words("exec", command));
    // Anybody who may see it may answer it.
    let asked =
        Pending::new(PendingKind::Approval, summary, approval.created_at_ms.map(|at| at.0)).answerable(true);
    Pending { id: Some(approval.id.clone()), ..asked }
}

fn facts(row: &Row, job: Option<&Job>, folder: Option<&str>) -> Facts {
    let name = |text: &Option<String>| {
        text.as_deref().map(|text| clean_cut(&one_line(text), Some(NAME))).filter(|text| !text.is_empty())
    };
    let path = |text: &Option<String>| text.as_deref().map(|text| clean_cut(text, None));
    let model = row.model.as_deref().map(|model| match row.model_provider.as_deref() {
        Some(provider) => format!("{provider}/{model}"),
        None => model.to_owned(),
    });
    Facts {
        turn: last_turn(row, job),
        name: name(&row.label)
            .or_else(|| name(&row.display_name).filter(|name| *name != row.key))
            .or_else(|| job.and_then(|job| name(&job.name))),
        prompt: None,
        // A row's preview can be the user's own text, even after the turn: only the conversation says who wrote it.
        last_message: None,
        cwd: path(&row.spawned_cwd)
            .or_else(|| path(&row.workspace_dir))
            .or_else(|| folder.map(|folder| clean_cut(folder, None))),
        branch: row.worktree.as_ref().map(|worktree| clean_cut(&worktree.branch, Some(NAME))),
        model: model.map(|model| clean_cut(&model, Some(NAME))),
        started_at: row.created_at.map(|at| at.0),
        updated_at: row.updated_at.map(|at| at.0),
        stopped_at: row.ended_at.map(|at| at.0),
        tokens: last_run(row),
        cost: None,
        calls: None,
        parent: parent(row),
        meta: meta(row, job).into(),
    }
}

/// Only the tokens of the last run: the survey keeps them if the conversation itself is gone, and in no other case.
fn last_run(row: &Row) -> Option<Tokens> {
    let (input, output) = (row.input_tokens, row.output_tokens);
    (input.is_some() || output.is_some()).then(|| Tokens { input, output, ..Tokens::default() })
}

/// How the last run ended, in the stored words of the row or, for a job, of the job.
fn last_turn(row: &Row, job: Option<&Job>) -> Option<Turn> {
    let state = job.and_then(|job| job.state.as_ref());
    let of_job = state.and_then(|state| match state.last_run_status.as_deref()? {
        "ok" => Some((TurnState::Finished, None)),
        "error" => Some((TurnState::Failed, state.last_error.as_deref())),
        _ => None,
    });
    let of_row = match row.status.as_deref() {
        Some("done") => Some((TurnState::Finished, None)),
        Some("failed" | "timeout") => Some((TurnState::Failed, row.last_run_error.as_deref())),
        Some("killed") => Some((TurnState::Interrupted, None)),
        _ => None,
    };
    let (state, detail) = of_job.or(of_row)?;
    let mut turn = Turn::new(state, row.ended_at.map(|at| at.0));
    turn.began = row.started_at.map(|at| at.0);
    turn.detail = detail.map(|detail| clean_cut(&one_line(detail), Some(WORDS)));
    Some(turn)
}

/// The session that spawned it. `parentSessionKey` only says where the vendor's own page navigates back to.
fn parent(row: &Row) -> Option<Parent> {
    let of = |id: &str, relation| Parent { id: clean_cut(id, None), relation };
    match (row.spawned_by.as_deref(), &row.fork_source) {
        (Some(parent), _) => Some(of(parent, Relation::Subagent)),
        (None, Some(source)) => Some(of(&source.session_key, Relation::Fork)),
        (None, None) => None,
    }
}

fn meta(row: &Row, job: Option<&Job>) -> Map<String, Value> {
    let mut meta = Map::new();
    let texts = [
        ("sessionId", row.session_id.as_deref()),
        ("agentId", row.agent_id.as_deref()),
        ("kind", row.kind.as_deref()),
        ("classification", row.classification.as_deref()),
        ("runtime", row.runtime()),
        ("createdVia", row.created_via.as_deref()),
        ("channel", row.channel.as_deref()),
        ("lastRunId", row.last_run_id.as_deref()),
        ("lastRunError", row.last_run_error.as_deref()),
        ("job", job.and_then(|job| job.name.as_deref())),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            meta.insert(name.to_owned(), json!(clean_cut(text, Some(WORDS))));
        }
    }
    meta
}
