//! `agentctl worktree clean`: removes working trees with which nothing would be lost, and reports what keeps
//! the others.

use std::io::Write;
use std::path::PathBuf;

use agentctl_fleet::worktree::{CleanOptions, Cleaned, Cleaning, FailedTree, LossKind, WorktreeSelection};
use agentctl_model::{ErrorKind, text};

use super::super::coverage;
use super::super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::RosterHost;
use crate::output::Output;
use crate::render::json;
use crate::render::style::Tone;
use crate::render::width::cut_end;
use crate::surroundings::Surroundings;

/// Remove working trees, unless something would be lost or somebody is there
#[derive(Debug, clap::Args)]
#[command(after_help = "Kept are trees with changed or untracked files, with commits that neither a\n\
    remote nor the base branch has, locked ones, and those in which a session lives;\n\
    each with what would be lost. --force removes them all the same, but never from\n\
    under a live process: stop that first.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// The working trees
    #[arg(value_name = "PATH", required_unless_present = "all", value_hint = clap::ValueHint::DirPath)]
    paths: Vec<PathBuf>,
    /// All trees that were added to the repository
    #[arg(long)]
    all: bool,
    /// The repository, or any folder in it [default: where you are]
    #[arg(long, value_name = "REPO", value_hint = clap::ValueHint::DirPath)]
    repo: Option<PathBuf>,
    /// Remove it whatever is lost
    #[arg(long)]
    force: bool,
    /// Delete the branch of a removed tree too
    #[arg(long)]
    delete_branch: bool,
    /// Only say what would be done and lost
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: dryRun, worktrees, sources
    #[arg(long)]
    json: bool,
}

/// How many files or commits are named before the rest is only counted.
const NAMED: usize = 5;

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if let (true, Some(path)) = (args.all, args.paths.first()) {
        let failure =
            Failure::new(ErrorKind::Usage, "--all takes no PATH: it means every tree of one repository");
        let path = text::one_line(&path.to_string_lossy());
        return Err(failure.hint(format!("`agentctl worktree clean --all --repo {path}` says of which one")));
    }
    let far = args.hosts.one(surroundings)?;
    let far = far.as_deref();
    let cleaned = match far {
        Some(far) => there(args, far)?,
        None => here(args, surroundings)?,
    };
    let kept = cleaned.worktrees.iter().any(|cleaning| !cleaning.removed);
    let exit = match (cleaned.failed.is_empty(), kept) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Refused,
        (true, false) => Exit::Done,
    };
    if args.json {
        json::answer(out, &cleaned)?;
        return Ok(exit);
    }
    print(&cleaned, far, surroundings, out)?;
    coverage::warn(&cleaned.sources, surroundings, out);
    Ok(exit)
}

/// The same on another machine, where folders are named from / on.
fn there(args: &Args, far: &RosterHost) -> Result<Cleaned, Failure> {
    // Any folder in the repository names it, and a working tree is one.
    let repository = super::there(args.repo.as_ref().or(args.paths.first()))?;
    let body = serde_json::json!({
        "repository": repository, "paths": args.paths, "all": args.all, "force": args.force,
        "deleteBranch": args.delete_branch, "dryRun": args.dry_run,
    });
    let mut cleaned: Cleaned = far.done(("POST", "/v1/worktrees/clean"), &body, super::GIT)?;
    far.name_sources(&mut cleaned.sources);
    Ok(cleaned)
}

fn here(args: &Args, surroundings: &Surroundings) -> Result<Cleaned, Failure> {
    let repository = surroundings.repository(args.repo.as_ref());
    let which = if args.all {
        WorktreeSelection::All
    } else {
        WorktreeSelection::These(args.paths.iter().map(|path| surroundings.meant(path)).collect())
    };
    let options =
        CleanOptions { force: args.force, delete_branch: args.delete_branch, dry_run: args.dry_run };
    let (locks, now) = (surroundings.locks()?, surroundings.now());
    Ok(surroundings.fleet()?.clean_worktrees(&repository, which, options, &locks, now)?)
}

fn print(
    cleaned: &Cleaned,
    far: Option<&RosterHost>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    if cleaned.worktrees.is_empty() && cleaned.failed.is_empty() {
        writeln!(out, "no working trees were added to this repository")?;
    }
    for cleaning in &cleaned.worktrees {
        let path = super::shown(&cleaning.path, far, surroundings);
        print_one(cleaning, &path, cleaned.dry_run, out)?;
    }
    for FailedTree { error, .. } in &cleaned.failed {
        out.error(error);
    }
    let forcible = |cleaning: &Cleaning| {
        !cleaning.removed && !cleaning.losses.iter().any(|loss| loss.kind == LossKind::InUse)
    };
    if cleaned.worktrees.iter().any(forcible) {
        out.hint("--force removes what is kept here, and what is named is lost");
    }
    Ok(())
}

fn print_one(cleaning: &Cleaning, path: &str, dry_run: bool, out: &mut Output) -> Result<(), Failure> {
    let (word, tone) = match (cleaning.removed, dry_run) {
        (true, false) => ("removed", Tone::Good),
        (true, true) => ("would remove", Tone::Good),
        (false, false) => ("kept", Tone::Attention),
        (false, true) => ("would keep", Tone::Attention),
    };
    writeln!(out, "{} {path}", out.paint.apply(tone, word))?;
    if let Some(branch) = &cleaning.branch {
        let fate = match (cleaning.branch_deleted, dry_run) {
            (true, true) => " would be deleted too",
            (true, false) => " deleted too",
            (false, _) if cleaning.removed => " stays",
            (false, _) => "",
        };
        writeln!(out, "  {}", out.paint.dim(&format!("branch {}{fate}", text::one_line(branch))))?;
    }
    for loss in &cleaning.losses {
        let lost = if cleaning.removed { "lost: " } else { "" };
        writeln!(out, "  {lost}{}", text::one_line(&loss.summary))?;
        named(&loss.items, out)?;
    }
    if cleaning.removed && !cleaning.ignored.is_empty() {
        let also = format!("with it, ignored files: {}", cleaning.ignored.join(", "));
        let line = cut_end(&text::one_line(&also), out.width().saturating_sub(2));
        writeln!(out, "  {}", out.paint.dim(&line))?;
    }
    if let Some(note) = &cleaning.note {
        out.warn(note);
    }
    Ok(())
}

fn named(items: &[String], out: &mut Output) -> Result<(), Failure> {
    let room = out.width().saturating_sub(4);
    for item in items.iter().take(NAMED) {
        let line = cut_end(&text::one_line(item), room);
        writeln!(out, "    {}", out.paint.dim(&line))?;
    }
    if items.len() > NAMED {
        writeln!(out, "    {}", out.paint.dim(&format!("and {} more", items.len() - NAMED)))?;
    }
    Ok(())
}
