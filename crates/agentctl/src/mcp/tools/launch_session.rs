//! `launch_session`: what `agentctl launch` does, without everything that could choose more than an agent and its words.

use std::collections::BTreeMap;
use std::path::PathBuf;

use agentctl_fleet::act::launch::{LaunchOptions, LaunchRequest, Stay, check_folder, check_words};
use agentctl_fleet::keep::launches::WorktreeOrder;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree;
use agentctl_model::event::ActionVerb;
use agentctl_model::{Error, Permission, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Card, Request, Told, TypedTool};
use crate::cli::host_args::HostArgs;
use crate::failure::Failure;
use crate::link::asked::Asked;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::{RosterHost, full};
use crate::mcp::desk::Desk;
use crate::mcp::rights::Right;
use crate::mcp::row::{SessionRow, line};
use crate::output::Output;
use crate::render::style::Colour;
use crate::render::time;
use crate::surroundings::Surroundings;

pub(super) struct LaunchSession;

/// What to launch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Takes {
    /// The agent: claude-code, codex, pi, ...; without it the one of the user's config.
    adapter: Option<String>,
    /// What is said to the agent.
    prompt: String,
    /// Where it works: an absolute path.
    cwd: PathBuf,
    /// The machine of the config on which it is started; its folders are meant. Without it this one.
    host: Option<String>,
    model: Option<String>,
    /// Keep the session after its turn, so that it can be spoken with.
    #[serde(default)]
    hold: bool,
    /// End a held session that nobody talked to for this long: 30m, 2h.
    idle_timeout: Option<String>,
    /// Stop it after this time; with `hold`, interrupt a turn.
    timeout: Option<String>,
    /// What the agent may do without asking; more than the default only if the server was started with --allow bypass.
    permission_mode: Option<Permission>,
    /// Make a working tree of this repository for it, on `branch`.
    worktree: Option<PathBuf>,
    /// The branch of the working tree; made if it does not exist.
    branch: Option<String>,
    /// Put it into this group.
    group: Option<String>,
}

/// The session that was launched.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Gives {
    session: SessionRow,
}

impl TypedTool for LaunchSession {
    const CARD: Card = Card {
        name: "launch_session",
        title: "Launch an agent",
        about: "Starts an agent on a prompt in a folder and returns its session's own id once its turn is seen. It runs on \
                by itself: wait_for waits for it, read_messages reads it. A folder that somebody holds is refused; \
                `worktree` and `branch` give it one of its own.",
        needs: Some(Right::Launch),
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let surroundings = desk.surroundings();
        let asked = desk.asked(request.client.as_deref());
        let far = HostArgs::named(takes.host.clone()).one(&surroundings).map_err(Failure::into_error)?;
        let launched = desk.rights.check_mode(takes.permission_mode).and_then(|()| match &far {
            Some(far) => launch_there(&takes, far, &asked, request),
            None => launch(takes, &asked, request, &surroundings),
        });
        let id = launched.as_ref().ok().map(|session| full(far.as_deref(), &session.id)).unwrap_or_default();
        let target = launched.as_ref().ok().map(|session| (session.adapter.as_str(), id.as_str()));
        asked.tell(ActionVerb::Launch, target, &launched, &surroundings);
        let session = launched?;
        let headline = format!("launched {}", session.status.as_str());
        let body = line(&id, &session);
        Ok(Told { data: Gives { session: SessionRow::of(id, &session) }, headline, body })
    }
}

/// On another machine its API does it, under the settings there.
fn launch_there(
    takes: &Takes,
    far: &RosterHost,
    asked: &Asked,
    request: &Request<'_>,
) -> Result<Session, Error> {
    check_words(&takes.prompt).map_err(Error::usage)?;
    let worktree = match (&takes.worktree, &takes.branch) {
        (None, None) => None,
        (Some(repository), Some(branch)) => Some(json!({"repository": repository, "branch": branch})),
        _ => return Err(Error::usage("`worktree` and `branch` belong together")),
    };
    let body = json!({
        "adapter": takes.adapter, "prompt": takes.prompt, "cwd": takes.cwd, "model": takes.model, "hold": takes.hold,
        "idleTimeout": takes.idle_timeout, "timeout": takes.timeout, "permissionMode": takes.permission_mode,
        "worktree": worktree, "group": takes.group, "labels": asked.labels().collect::<BTreeMap<_, _>>(),
    });
    request.tell(&format!("starting it on {}", far.name));
    far.launch(&body).map_err(Failure::into_error)
}

fn launch(
    takes: Takes,
    asked: &Asked,
    request: &Request<'_>,
    surroundings: &Surroundings,
) -> Result<Session, Error> {
    check_words(&takes.prompt).map_err(Error::usage)?;
    let settings = surroundings.settings().map_err(|error| Failure::from(error).into_error())?;
    let launcher = surroundings.launcher(&settings).map_err(Failure::into_error)?;
    if let Some(mistake) = &launcher.mistake {
        return Err(Error::failed(mistake.clone()).hint("`agentctl config check` tries it again"));
    }
    let choice = launcher.defaults.choice(takes.adapter, takes.model);
    let choice = choice
        .ok_or_else(|| Error::usage("no agent was named").hint("give `adapter`, or set it in config.toml"))?;
    let elsewhere = launcher.fleet.works_elsewhere(&choice.adapter, None)?;
    if !elsewhere {
        check_place("cwd", &takes.cwd)?;
    }
    let worktree = match (takes.worktree, takes.branch) {
        (None, None) => None,
        (Some(repository), Some(branch)) => {
            check_place("worktree", &repository)?;
            Some(WorktreeOrder { repository, branch, base: None })
        }
        _ => return Err(Error::usage("`worktree` and `branch` belong together")),
    };
    let duration = |text: Option<String>| text.as_deref().map(time::parse_duration).transpose();
    let stay = Stay {
        timeout: duration(takes.timeout).map_err(Error::usage)?,
        hold: takes.hold,
        idle_timeout: duration(takes.idle_timeout).map_err(Error::usage)?,
        terminal: false,
    };
    let options = LaunchOptions {
        group: takes.group,
        permission: takes.permission_mode,
        labels: asked.labels().collect(),
        stay,
        ..LaunchOptions::default()
    };
    let launch_request = LaunchRequest {
        choices: vec![choice],
        side_by_side: false,
        cwd: takes.cwd,
        cwd_is_chosen: true,
        worktree,
        base: None,
        options,
    };
    let plan =
        launcher.plan(&launch_request, takes.prompt).map_err(|error| Error::failed(error.to_string()))?;
    let slot = plan.slots.first().ok_or_else(|| Error::usage("there is nothing to launch"))?;
    let order = slot.order.clone()?;
    let marks = Marks::of(surroundings.store().map_err(Failure::into_error)?);
    launcher
        .prepare(&plan, surroundings.now(), |WorktreeOrder { repository, branch, base }| {
            // Only a person agrees to what a repository runs.
            let place = (repository.as_path(), branch.as_str(), base.as_deref());
            worktree::consent(&marks, place, surroundings.now(), |_| false).map_err(Failure::from)
        })
        .map_err(Failure::into_error)?;
    start_daemon(surroundings);
    request.tell(&format!("starting {}", slot.adapter));
    let begun = launcher.carry_out(order, &plan.words, surroundings.now(), || request.is_over())?;
    Ok(*begun.session)
}

fn check_place(what: &str, path: &std::path::Path) -> Result<(), Error> {
    if !path.is_absolute() {
        return Err(Error::usage(format!("`{what}` is not an absolute path: {}", path.display())));
    }
    check_folder(path).map_err(Error::usage)
}

/// What acts wants the daemon, as on the command line: it makes the event.
pub(super) fn start_daemon(surroundings: &Surroundings) {
    DaemonProcess::wanted(surroundings, &mut Output::new(surroundings, Colour::Never));
}
