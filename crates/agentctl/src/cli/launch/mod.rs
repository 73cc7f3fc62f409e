//! `agentctl launch`: start an agent, or several side by side, and return with the agents' own ids.

mod dry_run;
mod far;
mod gateway;
mod group;
pub(crate) mod matrix;
mod pairs;
pub(crate) mod prompt;
pub(crate) mod stay;
pub(crate) mod turn;

pub(crate) use dry_run::DryRun;

use std::path::{Path, PathBuf};

use agentctl_adapters::gateway::Addressee;
use agentctl_fleet::act::launch::{
    Choice, LaunchOptions, LaunchPlan, LaunchRequest, Launcher, check_count, check_folder,
};
use agentctl_fleet::keep::launches::WorktreeOrder;
use agentctl_model::{ErrorKind, Permission};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use self::pairs::Pairs;
use self::stay::StayArgs;
use super::host_args::HostArgs;
use super::trust;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::daemon_process::DaemonProcess;
use crate::link::hosts::{Located, Roster};
use crate::output::Output;
use crate::settings::{Mistake, Settings};
use crate::surroundings::Surroundings;

/// Start an agent on a prompt, and return with its session's own id
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl launch claude-code 'Fix the failing test'\n  \
    agentctl launch codex -p - < prompt.md --permission-mode bypass\n  \
    agentctl launch pi 'Fix it, and ask me' --hold --idle-timeout 2h\n  \
    agentctl launch -p 'Add dark mode' --worktree . --branch dark-mode\n  \
    agentctl launch -p 'Try it' --adapter claude-code --adapter codex --model m\n  \
    agentctl launch --matrix matrix.yaml\n  \
    agentctl launch codex 'Fix it' -- --profile work\n\n\
    Several agents get a working tree each, beside the repository, and form a group;\n\
    at most 100 are launched at once.\n\
    With --host it runs on that machine: folders and files are those there, so --cwd\n\
    is named from / on. Over several hosts agents are spread, or one runs on each.\n\
    The agent runs on when this command has returned: `agentctl logs -f ID`.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    #[command(flatten)]
    pairs: Pairs,
    #[command(flatten)]
    prompt: prompt::Prompt,
    /// Where the agent works [default: here; in a gateway, where that decides]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Instructions to append to the agent's own system prompt
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    system_prompt_append: Option<String>,
    /// What the agent may do without asking
    #[arg(long, value_name = "MODE", value_parser = permission_parser())]
    permission_mode: Option<Permission>,
    /// Make a working tree of this repository for it, on --branch
    #[arg(long, value_name = "REPO", requires = "branch", value_hint = clap::ValueHint::DirPath)]
    worktree: Option<PathBuf>,
    /// The branch of the working tree; made if it does not exist
    #[arg(long, value_name = "NAME", requires = "worktree")]
    branch: Option<String>,
    /// Where a new branch begins [default: what is checked out]
    #[arg(long, value_name = "NAME")]
    base_branch: Option<String>,
    /// Run the hooks and filters that the repository of a working tree has
    #[arg(long)]
    trust: bool,
    /// Run this command once the session's id is known
    #[arg(long, value_name = "CMD")]
    on_create: Option<String>,
    /// Run this command once the agent has ended
    #[arg(long, value_name = "CMD")]
    on_complete: Option<String>,
    /// The gateway, by its address or host [default: the first that is known]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(gateway::known))]
    gateway: Option<String>,
    /// Tell this session of your gateway when the agent has ended
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    callback_session: Option<String>,
    /// Tell this agent of your gateway, or with --callback-session that session of it
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    callback_agent: Option<String>,
    /// A label to remember with the launch, repeatable
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    labels: Vec<(String, String)>,
    /// Put it into this group
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// A variable for the agent, repeatable
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = key_value)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    stay: StayArgs,
    /// Launch side by side what this YAML file lists, at most 100
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["worktree", "agent", "adapter", "model"])]
    matrix: Option<PathBuf>,
    /// Arguments for the agent's program, given to it as they are
    #[arg(last = true, value_name = "ARGS", allow_hyphen_values = true)]
    for_the_agent: Vec<String>,
    /// Launch even where a lock or a live session holds the directory
    #[arg(long)]
    force: bool,
    /// Wait until the turn is over
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// The session object as JSON; for several {group, sessions, failed}
    #[arg(long)]
    json: bool,
    /// Show what would be started, and start nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if args.hosts.are_given() {
        let asked = args.hosts.meant(&Roster::of(surroundings)?, &agentctl_fleet::own_name())?;
        if !asked.is_here() {
            return far::run(args, &asked, surroundings, out);
        }
    }
    let settings = surroundings.settings()?;
    let launcher = surroundings.launcher(&settings)?;
    let plan = args.plan(surroundings, &settings, &launcher)?;
    if args.dry_run {
        return dry_run::show(&plan, args.json, &launcher.fleet, surroundings, out);
    }
    let slot =
        plan.slots.first().ok_or_else(|| Failure::new(ErrorKind::Usage, "there is nothing to launch"))?;
    if let (false, Err(error)) = (plan.is_group(), &slot.order) {
        return Err(error.clone().into());
    }
    launcher.prepare(&plan, surroundings.now(), |WorktreeOrder { repository, branch, base }| {
        trust::consent(repository, (branch, base.as_deref()), args.trust, surroundings, out)
    })?;
    DaemonProcess::wanted(surroundings, out);
    if plan.is_group() {
        return group::launch(plan, args.wait, args.json, &launcher, surroundings, out);
    }
    let what = format!("starting {} ...", slot.adapter);
    let order = slot.order.clone()?;
    let place = gateway::words(&order, args.gateway.is_some(), &launcher.fleet);
    let place = place.or_else(|| turn::on_screen(&order));
    let session = turn::carry_out(order, &plan.words, &what, &launcher, surroundings, out)?;
    let session = Located { found: session, sources: Vec::new(), far: None, as_of: None };
    turn::tell(&session, place.as_deref(), (args.wait, args.json), &launcher.fleet, surroundings, out)
}

impl Args {
    fn plan(
        &self,
        surroundings: &Surroundings,
        settings: &Settings,
        launcher: &Launcher,
    ) -> Result<LaunchPlan, Failure> {
        let Launcher { fleet, caller, defaults, .. } = launcher;
        let matrix =
            self.matrix.as_deref().map(|path| matrix::read(&surroundings.meant(path))).transpose()?;
        let listed = matrix.as_ref();
        let words =
            self.prompt.words(listed.and_then(|matrix| matrix.prompt.as_deref()), caller, surroundings)?;
        let given = self.cwd.as_deref().or(listed.and_then(|matrix| matrix.cwd.as_deref()));
        let choices = match &matrix {
            Some(matrix) => matrix.slots(),
            None => self.pairs.slots(defaults).map_err(|unnamed| {
                settings.invalid(&["adapter"]).map_or(unnamed, |mistake| surroundings.because_of(mistake))
            })?,
        };
        check_count(choices.len()).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
        if let Some(mistake) = invalid_setting(&choices, settings) {
            return Err(surroundings.because_of(mistake));
        }
        let side_by_side = matrix.is_some() || choices.len() > 1;
        // The gateway comes first: a folder on another machine belongs to that machine and is passed on as
        // typed.
        let elsewhere = match choices.as_slice() {
            [choice] => fleet.works_elsewhere(&choice.adapter, self.gateway.as_deref())?,
            _ => false,
        };
        let cwd = if !side_by_side && elsewhere {
            given.map(Path::to_owned).or_else(|| surroundings.cwd.clone()).unwrap_or_default()
        } else {
            folder(given, surroundings)?
        };
        let base = self.base_branch.clone().or_else(|| listed.and_then(|matrix| matrix.base_branch.clone()));
        if side_by_side && self.worktree.is_some() {
            let message = "several agents get a working tree each by themselves";
            return Err(Failure::new(ErrorKind::Usage, message)
                .hint("leave out --worktree and --branch; --cwd names the repository"));
        }
        let worktree =
            self.worktree.as_ref().zip(self.branch.as_ref()).map(|(repository, branch)| WorktreeOrder {
                repository: surroundings.meant(repository),
                branch: branch.clone(),
                base: base.clone(),
            });
        let options = self.options(surroundings);
        let request = LaunchRequest {
            choices,
            side_by_side,
            cwd,
            cwd_is_chosen: given.is_some(),
            worktree,
            base,
            options,
        };
        launcher.plan(&request, words).map_err(|error| Failure::new(ErrorKind::Failed, error.to_string()))
    }

    fn options(&self, surroundings: &Surroundings) -> LaunchOptions {
        let meant = |path: &PathBuf| surroundings.meant(path);
        LaunchOptions {
            group: self.group.clone(),
            permission: self.permission_mode,
            system_prompt: self.system_prompt_append.clone(),
            env: self.env.iter().cloned().collect(),
            labels: self.labels.iter().cloned().collect(),
            spec: self.prompt.spec().map(meant),
            files: self.prompt.files().iter().map(meant).collect(),
            on_create: self.on_create.clone(),
            on_complete: self.on_complete.clone(),
            gateway: self.gateway.clone(),
            callback: Addressee {
                session: self.callback_session.clone(),
                agent: self.callback_agent.clone(),
            },
            stay: (&self.stay).into(),
            args: self.for_the_agent.clone(),
            force: self.force,
        }
    }
}

/// The mistake in the settings that would start something else than the user intended.
fn invalid_setting<'s>(choices: &[Choice], settings: &'s Settings) -> Option<&'s Mistake> {
    choices.iter().find_map(|choice| {
        let binary = match choice.adapter.split_once(':') {
            Some((acp, name)) => format!("{acp}.{name}"),
            None => format!("adapters.{}.binary", choice.adapter),
        };
        // The default model belongs to the default agent.
        let usual = settings.adapter.value.as_ref() == Some(&choice.adapter) && choice.model.is_none();
        settings.invalid(&[&binary]).or_else(|| settings.invalid(&["model"]).filter(|_| usual))
    })
}

/// A folder in which an agent can work.
fn folder(given: Option<&Path>, surroundings: &Surroundings) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) => surroundings.meant(path),
        None => surroundings.cwd.clone().ok_or_else(|| {
            Failure::new(ErrorKind::Usage, "the current folder is gone").hint("name one with --cwd")
        })?,
    };
    check_folder(&path).map_err(|why| Failure::new(ErrorKind::Usage, why))?;
    Ok(path)
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not of the form KEY=VALUE")),
    }
}

pub(super) fn permission_parser() -> impl clap::builder::TypedValueParser<Value = Permission> {
    use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
    let help = |mode: Permission| match mode {
        Permission::Default => "as the agent itself decides",
        Permission::Plan => "look and plan, change nothing",
        Permission::AcceptEdits => "edit files without asking",
        Permission::Bypass => "do everything without asking",
    };
    let values = Permission::ALL.map(|mode| PossibleValue::new(mode.as_str()).help(help(mode)));
    PossibleValuesParser::new(values).map(|word| {
        Permission::ALL.into_iter().find(|mode| mode.as_str() == word).unwrap_or(Permission::Default)
    })
}
