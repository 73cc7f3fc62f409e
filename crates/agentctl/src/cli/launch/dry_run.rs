//! `launch --dry-run`: shows exactly what would be started.

use std::io::Write;
use std::path::Path;

use agentctl_adapters::gateway::Request;
use agentctl_fleet::act::launch::{LaunchPlan, PlannedSlot};
use agentctl_fleet::{Fleet, Preview};
use agentctl_model::{Error, SpawnPlan, Stdin, text};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::surroundings::Surroundings;

/// What `launch --dry-run --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DryRun<'a> {
    group: Option<&'a str>,
    launches: Vec<Planned<'a>>,
    failed: Vec<Unplanned<'a>>,
}

/// One launch: a process that would be started here, or a request to a gateway.
#[derive(Debug, Serialize, JsonSchema)]
struct Planned<'a> {
    slot: &'a str,
    adapter: &'a str,
    /// The working tree that would be made first.
    worktree: Option<PlannedTree<'a>>,
    plan: Option<&'a SpawnPlan>,
    request: Option<PlannedRequest<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlannedTree<'a> {
    repository: &'a Path,
    branch: &'a str,
    base: Option<&'a str>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct PlannedRequest<'a> {
    to: &'a str,
    method: &'a str,
    params: &'a Value,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Unplanned<'a> {
    slot: &'a str,
    error: &'a str,
}

impl<'a> Planned<'a> {
    fn of(slot: &'a PlannedSlot, preview: &'a Preview) -> Self {
        let worktree = slot.order.as_ref().ok().and_then(|order| order.worktree.as_ref());
        let (plan, request) = match preview {
            Preview::Spawn(plan) => (Some(plan), None),
            Preview::Request(Request { to, method, params }) => {
                (None, Some(PlannedRequest { to, method, params }))
            }
        };
        Self {
            slot: &slot.name,
            adapter: &slot.adapter,
            worktree: worktree.map(|tree| PlannedTree {
                repository: &tree.repository,
                branch: &tree.branch,
                base: tree.base.as_deref(),
            }),
            plan,
            request,
        }
    }
}

pub(super) fn show(
    plan: &LaunchPlan,
    as_json: bool,
    fleet: &Fleet,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let (mut planned, mut failed) = (Vec::new(), Vec::new());
    for slot in &plan.slots {
        match self::plan(slot, &plan.words, fleet) {
            Ok(preview) => planned.push((slot, preview)),
            // As in the launch itself, one bad slot does not hide the others.
            Err(Failure::Said(Error { message, .. })) if plan.is_group() => failed.push((slot, message)),
            Err(failure) => return Err(failure),
        }
    }
    let exit = if failed.is_empty() { Exit::Done } else { Exit::Failed };
    if as_json {
        let answer = DryRun {
            group: plan.group.as_deref(),
            launches: planned.iter().map(|(slot, preview)| Planned::of(slot, preview)).collect(),
            failed: failed.iter().map(|(slot, error)| Unplanned { slot: &slot.name, error }).collect(),
        };
        json::answer(out, &answer)?;
        return Ok(exit);
    }
    for (slot, preview) in &planned {
        if plan.is_group() {
            writeln!(out, "{}", out.paint.strong(&slot.name))?;
        }
        match preview {
            Preview::Spawn(spawn) => tell(slot, spawn, plan.words.len(), surroundings, out)?,
            Preview::Request(request) => tell_request(request, out)?,
        }
    }
    for (slot, error) in failed {
        out.error(&format!("{}: {error}", slot.name));
    }
    Ok(exit)
}

fn plan(slot: &PlannedSlot, words: &str, fleet: &Fleet) -> Result<Preview, Failure> {
    let order = slot.order.as_ref().map_err(|error| Failure::from(error.clone()))?;
    Ok(fleet.preview(order, words)?)
}

/// Shows the request that would be sent to the gateway. Its keys are not part of it, and nothing is started.
fn tell_request(request: &Request, out: &mut Output) -> Result<(), Failure> {
    for (label, value) in [
        ("send to", request.to.clone()),
        ("method", request.method.to_owned()),
        ("params", request.params.to_string()),
    ] {
        writeln!(out, "{label:<8} {}", text::one_line(&value))?;
    }
    Ok(())
}

fn tell(
    slot: &PlannedSlot,
    plan: &SpawnPlan,
    size: usize,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let worktree = slot.order.as_ref().ok().and_then(|order| order.worktree.as_ref());
    let mut line = |label: &str, value: String| writeln!(out, "{label:<8} {}", text::one_line(&value));
    let argv = std::iter::once(&plan.program).chain(&plan.args).map(|word| quoted(word));
    line("argv", argv.collect::<Vec<_>>().join(" "))?;
    for (name, value) in &plan.env {
        line("set", format!("{name}={}", quoted(value)))?;
    }
    line("set", "AGENTCTL_LAUNCH_ID=<the id of the launch>".to_owned())?;
    let unset: Vec<&str> =
        agentctl_fleet::all_marks().filter(|mark| surroundings.environ.get(mark).is_some()).collect();
    if !unset.is_empty() {
        line("unset", unset.join(" "))?;
    }
    match worktree {
        Some(tree) => {
            let repository = surroundings.shown(&tree.repository);
            line("cwd", format!("a new working tree of {repository} on branch {}", tree.branch))?;
        }
        None => line("cwd", surroundings.shown(&plan.cwd))?,
    }
    let stdin = match plan.stdin {
        Stdin::Words => format!("the prompt, {size} bytes"),
        Stdin::Nothing => "nothing".to_owned(),
        Stdin::Terminal => "the keys of a detached tmux session, which `agentctl attach` opens".to_owned(),
    };
    line("stdin", stdin)?;
    Ok(())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
