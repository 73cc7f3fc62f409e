//! `agentctl worktree`: git working trees beside a repository, one for each agent.

mod clean;
mod list;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::worktree::{self, NewTree};
use agentctl_model::{ErrorKind, text};
use serde_json::json;

use super::host_args::HostArgs;
use super::trust;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::RosterHost;
use crate::output::Output;
use crate::render::json as writer;
use crate::surroundings::Surroundings;

/// How long git of another machine may take beyond its timeout.
const GIT: Duration = Duration::from_mins(5);

/// List, create and clean git working trees, so that agents do not get in each other's way
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl worktree create . --branch try/login\n  \
    agentctl worktree list\n  \
    agentctl worktree list /home/dev/api --host box\n  \
    agentctl worktree clean --all --dry-run\n\n\
    On another machine (--host) its git does it, in folders named from / on.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    List(list::Args),
    Create(CreateArgs),
    Clean(clean::Args),
}

/// Make a working tree beside the repository, named after both
#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// The repository, or any folder in it
    #[arg(value_name = "REPO", value_hint = clap::ValueHint::DirPath)]
    repository: PathBuf,
    /// The branch to check out; made if there is none of this name
    #[arg(long, value_name = "NAME")]
    branch: String,
    /// Where a new branch begins [default: what is checked out in REPO]
    #[arg(long, value_name = "NAME")]
    base_branch: Option<String>,
    /// Run the hooks and filters that the repository has of its own
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// As JSON: path, branch, createdBranch
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    match &args.command {
        Command::List(args) => list::run(args, surroundings, out),
        Command::Create(args) => create(args, surroundings, out),
        Command::Clean(args) => clean::run(args, surroundings, out),
    }
}

fn create(args: &CreateArgs, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let base = args.base_branch.as_deref();
    if let Some(far) = args.hosts.one(surroundings)? {
        let body = json!({
            "repository": args.repository, "branch": args.branch, "baseBranch": base, "trust": args.trust,
        });
        let made: NewTree = far.done(("POST", "/v1/worktrees"), &body, GIT)?;
        return created(args, &made, &far.name.to_string(), out);
    }
    let repository = surroundings.meant(&args.repository);
    trust::consent(&repository, (&args.branch, base), args.trust, surroundings, out)?;
    let made = worktree::create(&repository, &args.branch, base, &Marks::of(surroundings.store()?))?;
    if args.json {
        writer::answer(out, &NewTree::from(made))?;
        return Ok(Exit::Done);
    }
    // A script uses the path directly: `cd "$(agentctl worktree create …)"`.
    if !out.is_terminal() {
        writeln!(out, "{}", made.path.display())?;
        return Ok(Exit::Done);
    }
    writeln!(out, "{}", surroundings.shown(&made.path))?;
    let new = if made.created_branch { "new branch" } else { "branch" };
    writeln!(out, "{}", out.paint.dim(&format!("  {new} {}, at {}", made.branch, short(&made.commit))))?;
    Ok(Exit::Done)
}

/// Tells of a tree that was made on another machine.
fn created(args: &CreateArgs, made: &NewTree, host: &str, out: &mut Output) -> Result<Exit, Failure> {
    if args.json {
        writer::answer(out, made)?;
    } else if out.is_terminal() {
        writeln!(out, "{host}:{}", text::one_line(&made.path))?;
        writeln!(out, "{}", out.paint.dim(&format!("  branch {}", text::one_line(&made.branch))))?;
    } else {
        writeln!(out, "{}", text::one_line(&made.path))?;
    }
    Ok(Exit::Done)
}

/// A folder of this machine as a person writes it; one of another machine as it stands there.
fn shown(path: &str, far: Option<&RosterHost>, surroundings: &Surroundings) -> String {
    match far {
        None => surroundings.shown(Path::new(path)),
        Some(far) => format!("{}:{}", far.name, text::one_line(path)),
    }
}

/// The folder that was given for another machine, which must name it.
fn there(given: Option<&PathBuf>) -> Result<String, Failure> {
    let given = given.map(|path| path.to_string_lossy().into_owned());
    given.ok_or_else(|| {
        Failure::new(ErrorKind::Usage, "which repository of that machine is not said")
            .hint("name it from / on")
    })
}

fn short(commit: &str) -> &str {
    commit.get(..9).unwrap_or(commit)
}

impl Surroundings {
    /// The repository of a worktree command: the given folder, or else the current one.
    fn repository(&self, given: Option<&PathBuf>) -> PathBuf {
        self.meant(given.map_or(Path::new("."), PathBuf::as_path))
    }
}
