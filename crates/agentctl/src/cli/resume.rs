//! `agentctl resume ID MESSAGE`: a further turn of a session that nobody runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_fleet::fresh;
use agentctl_fleet::launches::{LaunchOrder, Talk};
use agentctl_model::{Permission, Status, Surveyed};

use super::launch::{permission_parser, turn};
use super::message::Message;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::time;
use crate::surroundings::Surroundings;

/// Say something further to a session that is not running
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl resume 5f0c 'Now add a test'\n  \
    agentctl resume 5f0c - < notes.md\n  \
    agentctl resume 5f0c --fork 'Try it another way'\n\n\
    A session that is live in another process is refused: `agentctl send` speaks to\n\
    it where the agent offers a way in.")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    message: Message,
    /// Go on in a copy with an id of its own, where the agent can
    #[arg(long)]
    fork: bool,
    /// Another model from here on
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What the agent may do without asking
    #[arg(long, value_name = "MODE", value_parser = permission_parser())]
    permission_mode: Option<Permission>,
    /// Run this command once the agent has ended
    #[arg(long, value_name = "CMD")]
    on_complete: Option<String>,
    /// Stop it after this time: 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    timeout: Option<Duration>,
    /// Wait until the turn is over
    #[arg(long)]
    wait: bool,
    /// The session object as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let fleet = surroundings.fleet_under(&settings);
    let words = args.message.words(surroundings)?;
    let (found, _) = args.target.find(&fleet, surroundings, out)?;
    let hosted = fleet.is_hosted(&found);
    if !args.fork {
        refuse_live(&found, hosted)?;
    }
    if found.session.is_subagent() {
        return Err(Failure::new(Exit::Refused, "a sub-agent cannot be taken up by itself").hint(format!(
            "`agentctl resume {}` speaks to its parent",
            found.session.parent_id.as_deref().unwrap_or("ID")
        )));
    }
    fleet.may_resume(&found)?;
    let caller = surroundings.caller(&settings)?;
    surroundings.prepare_home()?;
    fleet.forget_old_launches(surroundings.now(), settings.launches_kept.value);
    let binary = settings.adapter(&found.key.adapter).binary.value;
    let order = args.order(&found, binary, hosted)?;
    let what = format!("resuming {} ...", found.key.adapter);
    let session = turn::carry_out(order, &words, &what, &fleet, &caller, surroundings, out)?;
    if !(args.json && args.wait) {
        turn::report(&session, args.json, surroundings, out)?;
    }
    if args.wait {
        super::wait::for_turn(&session, args.json, &fleet, surroundings, out)
    } else {
        Ok(Exit::Done)
    }
}

/// Two processes on one conversation would tear it apart. The runner looks again when nobody else can begin.
/// In a gateway a session that rests has no process that could be in the way.
fn refuse_live(found: &Surveyed, hosted: bool) -> Result<(), Failure> {
    let session = &found.session;
    if session.status == Status::Stopped || (hosted && session.status == Status::Idle) {
        return Ok(());
    }
    let id = &session.id;
    let pid = session.pid.map(|pid| format!(" in process {pid}")).unwrap_or_default();
    let message = format!("session {id} is live{pid} ({})", session.status.word());
    Err(Failure::new(Exit::Refused, message).hint(format!(
        "`agentctl send {id} ...` speaks to it where the agent offers a way in, `agentctl stop {id}` ends it"
    )))
}

fn folder_of(found: &Surveyed) -> Result<String, Failure> {
    let id = &found.key.id;
    let cwd = found.session.cwd.clone().ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            format!("the folder of session {id} is not known, so it cannot be resumed"),
        )
    })?;
    if !std::path::Path::new(&cwd).is_dir() {
        let message = format!("the folder of session {id} is gone: {cwd}");
        return Err(
            Failure::new(Exit::Failed, message).hint("make it again, or launch a new session elsewhere")
        );
    }
    Ok(cwd)
}

impl Args {
    fn order(
        &self,
        found: &Surveyed,
        program: Option<PathBuf>,
        hosted: bool,
    ) -> Result<LaunchOrder, Failure> {
        let (id, place) = (found.key.id.clone(), found.place.clone());
        // Where a session of a gateway works is the gateway's business.
        let cwd = if hosted { found.session.cwd.clone().unwrap_or_default() } else { folder_of(found)? };
        let fresh_id = fresh::uuid().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let conversation = if self.fork { Talk::Fork { id, place } } else { Talk::Resume { id, place } };
        Ok(LaunchOrder {
            adapter: found.key.adapter.clone(),
            root: found.key.root.clone(),
            conversation,
            cwd: cwd.into(),
            cwd_is_chosen: false,
            worktree: None,
            model: self.model.clone(),
            permission: self.permission_mode,
            system_prompt: None,
            fresh_id,
            program,
            env: BTreeMap::new(),
            // The group of a session is the one of its first launch.
            group: found.session.group.clone().filter(|_| !self.fork),
            slot: None,
            labels: BTreeMap::new(),
            spec: None,
            files: Vec::new(),
            on_create: None,
            on_complete: self.on_complete.clone(),
            callback: None,
            timeout_ms: self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            force: false,
        })
    }
}
