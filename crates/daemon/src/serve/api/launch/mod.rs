//! Launching and resuming over HTTP: the same functions as on the command line, in the environment that the
//! caller gives.
//!
//! The client may disconnect: the work continues on a blocking thread, and the launch belongs to its runner
//! anyway.

mod options;
mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_fleet::act::launch::{
    Choice, LaunchPlan, LaunchRequest, Launcher, MOST_SLOTS, ResumeRequest, check_count, check_folder,
    check_words, misfit,
};
use agentctl_fleet::keep::launches::WorktreeOrder;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::groups::GroupLaunch;
use agentctl_fleet::{Purpose, Store};
use agentctl_model::Permission;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use self::options::{OptionsBody, StayBody};
pub use self::plan::Planned;
pub(crate) use self::plan::{PlanBody, plan, planned_request};
use super::body::{AbsolutePath, AdapterName, Body, absolute, check_variables};
use super::extract::Id;
use super::sessions::{run_blocking, selector};
use super::{App, answer, json};
use crate::run::clock;
use crate::serve::body_budget::WORDS;
use crate::serve::problem::Problem;
use crate::serve::query::Pairs;
use crate::serve::server::Peer;

/// The body of `POST /v1/sessions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LaunchBody {
    /// The agent; without it the one that config.toml names.
    #[schemars(with = "Option<AdapterName>")]
    adapter: Option<String>,
    model: Option<String>,
    /// What is said to the agent; may be left out where `spec` or `issue` says it.
    prompt: Option<String>,
    /// Where the agent works: an absolute path. Only a gateway chooses by itself where it is left out; for one that is
    /// elsewhere it is a folder of that machine, taken as it stands.
    cwd: Option<PathBuf>,
    /// Make a working tree for it.
    worktree: Option<WorktreeBody>,
    #[serde(flatten)]
    stay: StayBody,
    #[serde(flatten)]
    options: OptionsBody,
}

/// The body of `POST /v1/groups`: several agents side by side, each in a working tree of its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GroupBody {
    #[schemars(length(min = 1, max = MOST_SLOTS))]
    launches: Vec<SlotBody>,
    /// What is said to every agent; may be left out where `spec` or `issue` says it.
    prompt: Option<String>,
    /// The repository: an absolute path.
    #[schemars(with = "AbsolutePath")]
    cwd: PathBuf,
    /// Where the branches begin; without it at what is checked out.
    base_branch: Option<String>,
    #[serde(flatten)]
    stay: StayBody,
    #[serde(flatten)]
    options: OptionsBody,
}

/// One of the agents of a group.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SlotBody {
    #[schemars(with = "AdapterName")]
    adapter: String,
    model: Option<String>,
    /// Without it `try/GROUP/SLOT`.
    branch: Option<String>,
}

/// A working tree to be made for a launch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WorktreeBody {
    /// An absolute path.
    #[schemars(with = "AbsolutePath")]
    repository: PathBuf,
    /// Made if it does not exist.
    branch: String,
    /// Where a new branch begins; without it at what is checked out.
    base_branch: Option<String>,
}

/// The body of `POST /v1/sessions/{id}/resume`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResumeBody {
    #[schemars(length(min = 1))]
    message: String,
    /// Go on in a copy with an id of its own, where the agent can.
    #[serde(default)]
    fork: bool,
    model: Option<String>,
    permission_mode: Option<Permission>,
    /// A command that runs once the agent has ended.
    on_complete: Option<String>,
    #[serde(flatten)]
    stay: StayBody,
    /// All variables of the caller, as in a launch.
    environment: Option<BTreeMap<String, String>>,
}

impl ResumeBody {
    fn request(&self, via: Option<String>) -> Result<ResumeRequest, Problem> {
        Ok(ResumeRequest {
            fork: self.fork,
            model: self.model.clone(),
            permission: self.permission_mode,
            on_complete: self.on_complete.clone(),
            stay: self.stay.stay()?,
            via,
            unshared: false,
        })
    }
}

pub(crate) async fn launch(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<LaunchBody, WORDS>,
) -> Result<Response, Problem> {
    let launched = run_blocking(move || {
        let launcher = launcher(&app, &peer, body.options.environment.as_ref())?;
        let choice = launcher.defaults.choice(body.adapter, body.model).ok_or_else(|| {
            Problem::usage("no agent was named").hint("give `adapter`, or set it in config.toml")
        })?;
        let worktree = body.worktree.map(WorktreeBody::order).transpose()?;
        let gateway = body.options.gateway.as_deref();
        let hosted = launcher.fleet.place_to_launch(&choice.adapter, gateway)?.adapter.gateway().is_some();
        let elsewhere = launcher.fleet.works_elsewhere(&choice.adapter, gateway)?;
        let cwd = match (&body.cwd, hosted) {
            (Some(given), true) if elsewhere => given.clone(),
            (Some(given), _) => folder(given)?,
            (None, true) => PathBuf::new(),
            (None, false) => return Err(Problem::usage("the body: missing field `cwd`")),
        };
        let words = body.options.words(body.prompt, &cwd, &peer, &launcher)?;
        let trust = body.options.trust;
        let request = LaunchRequest {
            cwd_is_chosen: body.cwd.is_some(),
            choices: vec![choice],
            side_by_side: false,
            cwd,
            worktree,
            base: None,
            options: body.options.options(&body.stay)?,
        };
        let plan = planned(&launcher, &request, words)?;
        let slot = plan.slots.first().ok_or_else(|| Problem::usage("there is nothing to launch"))?;
        let order = slot.order.clone()?;
        launcher.fleet.preview(&order, &plan.words)?;
        launcher.prepare(&plan, clock::now(), |tree| consent(&launcher, tree, trust, &peer))?;
        let session = launcher.carry_out(order, &plan.words, clock::now(), || false);
        json(&session?.session)
    });
    launched.await.map(answer)
}

pub(crate) async fn group(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<GroupBody, WORDS>,
) -> Result<Response, Problem> {
    let launched = run_blocking(move || {
        let launcher = launcher(&app, &peer, body.options.environment.as_ref())?;
        if body.launches.is_empty() {
            return Err(Problem::usage("`launches` lists nothing to launch"));
        }
        check_count(body.launches.len()).map_err(Problem::usage)?;
        let choice =
            |slot: SlotBody| Choice { adapter: slot.adapter, model: slot.model, branch: slot.branch };
        let cwd = folder(&body.cwd)?;
        let words = body.options.words(body.prompt, &cwd, &peer, &launcher)?;
        let trust = body.options.trust;
        let request = LaunchRequest {
            cwd_is_chosen: true,
            choices: body.launches.into_iter().map(choice).collect(),
            side_by_side: true,
            cwd,
            worktree: None,
            base: body.base_branch,
            options: body.options.options(&body.stay)?,
        };
        let plan = planned(&launcher, &request, words)?;
        launcher.prepare(&plan, clock::now(), |tree| consent(&launcher, tree, trust, &peer))?;
        let done = launcher.fleet.launch_side_by_side(plan, &launcher.caller, clock::now, || false);
        json(&GroupLaunch::from(done))
    });
    launched.await.map(answer)
}

pub(crate) async fn resume(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Id(id): Id,
    Extension(pairs): Extension<Pairs>,
    Body(body): Body<ResumeBody, WORDS>,
) -> Result<Response, Problem> {
    let selector = selector(id, &pairs);
    let resumed = run_blocking(move || {
        // The runner uses the sources of this environment, so the session is looked up in them.
        let launcher = launcher(&app, &peer, body.environment.as_ref())?;
        check_words(&body.message).map_err(Problem::usage)?;
        peer.check_chosen(&[("onComplete", body.on_complete.is_some())])?;
        peer.check_permission(body.permission_mode)?;
        let request = body.request(selector.adapter.clone())?;
        let (found, _) =
            launcher.fleet.find(&selector, Purpose::Act).map_err(|error| Problem::not_one(error, false))?;
        let misfit = request.model.as_deref().and_then(|model| misfit(&found.key.adapter, "model", model));
        if let Some(why) = misfit {
            return Err(Problem::usage(why));
        }
        let order = launcher.fleet.resume_order(&found, &request, &launcher.caller.programs)?;
        launcher.make_ready(clock::now())?;
        let session = launcher.carry_out(order, &body.message, clock::now(), || false);
        json(&session?.session)
    });
    resumed.await.map(answer)
}

/// Checks a launch or a resume that is passed on to another machine, where the request has all rights of its user: what a
/// page may not choose here, nobody over TCP chooses there.
pub(crate) fn check_passed_on(path: &str, body: &str) -> Result<(), Problem> {
    const AS: Peer = Peer::Page;
    let mistake = |error: serde_json::Error| Problem::usage(format!("the body: {error}"));
    if path == "/v1/sessions" {
        let LaunchBody { options, .. } = serde_json::from_str(body).map_err(mistake)?;
        if options.trust {
            return Err(Problem::forbidden("`trust` is given on the machine that is meant"));
        }
        options.check(&AS)?;
        return check_environment(&AS, options.environment.as_ref());
    }
    let ResumeBody { on_complete, environment, permission_mode, .. } =
        serde_json::from_str(body).map_err(mistake)?;
    AS.check_chosen(&[("onComplete", on_complete.is_some())])?;
    AS.check_permission(permission_mode)?;
    check_environment(&AS, environment.as_ref())
}

/// A caller over TCP cannot point a launch at other folders.
fn check_environment(peer: &Peer, environment: Option<&BTreeMap<String, String>>) -> Result<(), Problem> {
    let Some(environment) = environment else { return Ok(()) };
    check_variables("environment", environment)?;
    if matches!(peer, Peer::Unix { .. }) {
        return Ok(());
    }
    Err(Problem::forbidden("an environment is taken on the unix socket alone")
        .hint("`env` gives the agent variables beside the daemon's own"))
}

/// The inputs of a launch.
fn launcher(
    app: &App,
    peer: &Peer,
    environment: Option<&BTreeMap<String, String>>,
) -> Result<Launcher, Problem> {
    check_environment(peer, environment)?;
    let launcher = app.settings.launcher(environment).map_err(Problem::failed)?;
    match launcher.mistake {
        Some(mistake) => {
            Err(Problem::failed(mistake).hint("correct it; `agentctl config check` tries it again"))
        }
        None => Ok(launcher),
    }
}

fn folder(given: &std::path::Path) -> Result<PathBuf, Problem> {
    let cwd = absolute("cwd", given)?;
    check_folder(&cwd).map_err(Problem::usage)?;
    Ok(cwd)
}

impl WorktreeBody {
    fn order(self) -> Result<WorktreeOrder, Problem> {
        let repository = absolute("repository", &self.repository)?;
        Ok(WorktreeOrder { repository, branch: self.branch, base: self.base_branch })
    }
}

fn planned(launcher: &Launcher, request: &LaunchRequest, words: String) -> Result<LaunchPlan, Problem> {
    launcher.plan(request, words).map_err(|error| Problem::failed(error.to_string()))
}

/// Checks that the user has agreed to the programs that the repository of the working tree runs.
fn consent(launcher: &Launcher, tree: &WorktreeOrder, trust: bool, peer: &Peer) -> Result<(), Problem> {
    let WorktreeOrder { repository, branch, base } = tree;
    let marks = Marks::of(Store::at(&launcher.caller.home));
    super::worktrees::consent(&marks, (repository, branch, base.as_deref()), trust, peer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Every field that a page may not choose, alone.
    #[test]
    fn what_a_page_may_not_choose_is_not_passed_on() {
        let plain = json!({
            "adapter": "codex", "model": "m", "prompt": "p", "cwd": "/w", "hold": true, "permissionMode": "bypass",
            "worktree": {"repository": "/w", "branch": "b"}, "group": "g", "labels": {"a": "b"}, "force": true,
            "timeout": "30m", "idleTimeout": "30m", "systemPromptAppend": "s",
        });
        check_passed_on("/v1/sessions", &plain.to_string()).unwrap();
        for (name, value) in [
            ("env", json!({"A": "b"})),
            ("environment", json!({"A": "b"})),
            ("environment", json!({})),
            ("onCreate", json!("true")),
            ("onComplete", json!("true")),
            ("callbackSession", json!("s")),
            ("callbackAgent", json!("a")),
            ("args", json!(["--x"])),
            ("spec", json!("/etc/passwd")),
            ("files", json!(["/etc/passwd"])),
            ("issue", json!(1)),
            ("trust", json!(true)),
        ] {
            let mut body = plain.clone();
            body[name] = value;
            let refused = check_passed_on("/v1/sessions", &body.to_string()).unwrap_err();
            assert_eq!(refused.code, "forbidden", "{name}");
        }
        let resume =
            json!({"message": "m", "hold": true, "fork": true, "model": "m", "permissionMode": "plan"});
        check_passed_on("/v1/sessions/x/resume", &resume.to_string()).unwrap();
        for (name, value) in [("onComplete", json!("true")), ("environment", json!({"A": "b"}))] {
            let mut body = resume.clone();
            body[name] = value;
            let refused = check_passed_on("/v1/sessions/x/resume", &body.to_string()).unwrap_err();
            assert_eq!(refused.code, "forbidden", "{name}");
        }
        for strange in ["[]", "{\"message\": 1}", "{\"message\": \"m\", \"roots\": []}", "no"] {
            let refused = check_passed_on("/v1/sessions/x/resume", strange).unwrap_err();
            assert_eq!(refused.code, "usage", "{strange}");
        }
    }
}
