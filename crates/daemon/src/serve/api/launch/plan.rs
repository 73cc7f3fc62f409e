//! A resume that is planned for a time.

use std::collections::BTreeMap;

use agentctl_files::kernel;
use agentctl_fleet::Purpose;
use agentctl_fleet::act::launch::{ResumeRequest, check_words};
use agentctl_model::text::appointment;
use agentctl_model::{EventKind, Fuse, OnExpire, PendingKind, PlannedResume, Session, SessionKey, Stage};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use data_encoding::HEXLOWER;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ResumeBody;
use crate::fuses::tell;
use crate::run::clock;
use crate::serve::api::body::{Body, check_variables};
use crate::serve::api::extract::Id;
use crate::serve::api::fuses::unwritten;
use crate::serve::api::sessions::{run_blocking, selector};
use crate::serve::api::{App, answer, json};
use crate::serve::body_budget::WORDS;
use crate::serve::problem::Problem;
use crate::serve::query::Pairs;
use crate::serve::server::Peer;

/// The body of `POST /v1/sessions/{id}/resume-at`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PlanBody {
    /// `reset` (when the limit ends of which the session's records tell), an RFC 3339 time, `HH:MM`, or `+20m`.
    at: String,
    #[schemars(length(min = 1))]
    message: String,
    /// The other fields of the body of `POST /v1/sessions/{id}/resume`, but no `fork`.
    #[serde(default)]
    options: Map<String, Value>,
    /// Variables that choose where the agents' records are. On the unix socket alone.
    #[serde(default)]
    variables: BTreeMap<String, String>,
    /// Names of variables that the agent may need. The answer says which of them the daemon lacks.
    #[serde(default)]
    needs: Vec<String>,
}

/// A resume that was planned.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    pub fuse: Fuse,
    /// The variables among those that the agent may need which the daemon does not have.
    pub lacks: Vec<String>,
}

/// What a plan asks for, once its time has come.
pub(crate) fn planned_request(plan: &PlannedResume, adapter: &str) -> Result<ResumeRequest, Problem> {
    let mut body = plan.options.clone();
    body.insert("message".to_owned(), plan.message.clone().into());
    let body: ResumeBody = serde_json::from_value(Value::Object(body))
        .map_err(|error| Problem::usage(format!("`options`: {error}")))?;
    if body.fork || body.environment.is_some() {
        return Err(Problem::usage("a plan takes neither `fork` nor `environment`"));
    }
    body.request(Some(adapter.to_owned()))
}

pub(crate) async fn plan(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<PlanBody, WORDS>,
) -> Result<Response, Problem> {
    let selector = selector(id, &pairs);
    let planned = run_blocking(move || {
        check_words(&body.message).map_err(Problem::usage)?;
        check_variables("variables", &body.variables)?;
        if !body.variables.is_empty() && !matches!(peer, Peer::Unix { .. }) {
            return Err(Problem::forbidden("`variables` are taken on the unix socket alone"));
        }
        let chosen = body.options.get("onComplete").is_some_and(|command| !command.is_null());
        peer.check_chosen(&[("onComplete", chosen)])?;
        let launcher = app.settings.launcher_with(&body.variables).map_err(Problem::failed)?;
        let (found, _) =
            launcher.fleet.find(&selector, Purpose::Act).map_err(|error| Problem::not_one(error, false))?;
        let now = clock::now();
        let at = moment(&body.at, &found.session, now, &launcher.fleet.zone())?;
        let resume = PlannedResume {
            message: body.message,
            options: body.options,
            variables: body.variables,
            last_record: found.session.updated_at,
            problem: None,
        };
        let request = planned_request(&resume, selector.adapter.as_deref().unwrap_or(&found.key.adapter))?;
        peer.check_permission(request.permission)?;
        // What would be refused now is told now.
        launcher.fleet.resume_order(&found, &request, &launcher.caller.programs)?;
        let id = kernel::random::<4>().map_err(|error| Problem::failed(format!("no random id: {error}")))?;
        let fuse = planned_fuse(format!("f-{}", HEXLOWER.encode(&id)), &found.key, resume, at, now);
        let told = || tell(&app, EventKind::FuseSet, &fuse, Some(&found.session));
        app.fuses.set(fuse.clone(), told).map_err(|error| unwritten(&error))?;
        let lacks = app.settings.lacking(&body.needs);
        json(&Planned { fuse, lacks })
    });
    planned.await.map(answer)
}

fn planned_fuse(id: String, key: &SessionKey, resume: PlannedResume, at: Timestamp, now: Timestamp) -> Fuse {
    Fuse {
        id,
        directory: None,
        session_id: Some(key.id.clone()),
        adapter: Some(key.adapter.clone()),
        config_root: Some(key.root.clone()),
        variant: key.variant.clone(),
        label: None,
        set_at: now,
        expires_at: Some(at),
        max_tokens: None,
        max_cost: None,
        per: None,
        on_expire: OnExpire::default(),
        stage: Stage::Set,
        stage_at: now,
        spent: None,
        resume: Some(resume),
    }
}

/// When a plan is due.
fn moment(at: &str, session: &Session, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, Problem> {
    if at != "reset" {
        return appointment::parse(at, now, zone).map_err(Problem::usage);
    }
    let limit = session.pending.iter().find(|pending| pending.kind == PendingKind::Limit);
    let Some(limit) = limit else {
        return Err(Problem::refused("its provider has not refused it, so there is no reset to wait for")
            .hint("`agentctl resume` without --at resumes it now"));
    };
    limit.limited_until.ok_or_else(|| {
        Problem::refused("its records do not say when the limit ends")
            .hint("give a time: --at 18:30, --at +20m, or one of RFC 3339")
    })
}

#[cfg(test)]
mod tests {
    use agentctl_model::Pending;

    use super::*;

    #[test]
    fn a_reset_is_waited_for_only_where_the_records_say_when_it_is() {
        let (now, reset) = ("2026-11-15T10:00:00Z".parse().unwrap(), "2026-11-15T12:30:00Z".parse().unwrap());
        let stopped: Session = serde_json::from_value(serde_json::json!({
            "id": "5f0c", "adapter": "codex", "configRoot": "/r", "status": "stopped", "outcome": "failed", "pending": [],
            "processes": [], "capabilities": [], "evidence": [], "meta": {},
        }))
        .unwrap();
        let limited = |limited_until| {
            let limit = Pending { limited_until, ..Pending::new(PendingKind::Limit, None, None) };
            Session { pending: vec![limit], ..stopped.clone() }
        };
        let at = |at: &str, session: &Session| moment(at, session, now, &TimeZone::UTC);
        assert_eq!(at("reset", &limited(Some(reset))).unwrap(), reset);
        for unknown in [limited(None), stopped.clone()] {
            let problem = at("reset", &unknown).unwrap_err();
            assert_eq!(problem.code, "refused", "{}", problem.detail);
        }
        // Whoever names a time need not know.
        assert_eq!(at("2026-11-15T12:30:00Z", &stopped).unwrap(), reset);
        assert_eq!(at("soon", &limited(Some(reset))).unwrap_err().code, "usage");
    }
}
