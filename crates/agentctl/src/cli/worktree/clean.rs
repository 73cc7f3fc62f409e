//! `agentctl worktree clean`: removes trees that nothing would be lost with, and names what keeps the others.

use std::io::Write;
use std::path::{Path, PathBuf};

use agentctl_fleet::worktree::{self, Cleaning, LossKind, Wish, WorktreeError};
use agentctl_fleet::{Question, Wanted};
use agentctl_model::{SourceReport, text};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::heard;
use crate::exit_codes::Exit;
use crate::failure::Failure;
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
    #[arg(value_name = "PATH", required_unless_present = "all", conflicts_with = "all", value_hint = clap::ValueHint::DirPath)]
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
    /// One JSON object: dryRun, worktrees, sources
    #[arg(long)]
    json: bool,
}

/// What `worktree clean --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cleaned {
    dry_run: bool,
    worktrees: Vec<Cleaning>,
    /// Trees about which nothing could be said.
    failed: Vec<Refusal>,
    sources: Vec<SourceReport>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Refusal {
    path: String,
    error: String,
}

/// How many files or commits are named before the rest is only counted.
const NAMED: usize = 5;

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let repository = surroundings.repository(args.repo.as_ref());
    let paths = if args.all {
        worktree::linked(&repository)?
    } else {
        args.paths.iter().map(|path| surroundings.meant(path)).collect()
    };
    let survey = surroundings.fleet()?.survey(&Question::new(Wanted::Live));
    let (locks, now) = (surroundings.locks()?, surroundings.now());
    let wish = Wish { force: args.force, delete_branch: args.delete_branch, dry_run: args.dry_run };
    let (mut worktrees, mut failed) = (Vec::new(), Vec::new());
    for path in &paths {
        let holders = locks.holders(&survey, path, now)?;
        match worktree::clean(path, Some(&repository), &holders, wish) {
            Ok(cleaning) => worktrees.push(cleaning),
            // One bad name among several must not hide what became of the others.
            Err(error) if paths.len() > 1 && !matches!(error, WorktreeError::NoGit(_)) => {
                failed.push(Refusal { path: path.to_string_lossy().into_owned(), error: error.to_string() });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let kept = worktrees.iter().any(|cleaning| !cleaning.removed);
    let exit = match (failed.is_empty(), kept) {
        (false, _) => Exit::Failed,
        (true, true) => Exit::Refused,
        (true, false) => Exit::Done,
    };
    let cleaned = Cleaned { dry_run: args.dry_run, worktrees, failed, sources: survey.sources };
    if args.json {
        json::answer(out, &cleaned)?;
        return Ok(exit);
    }
    cleaned.print(surroundings, out)?;
    heard::warn(&cleaned.sources, surroundings, out);
    Ok(exit)
}

impl Cleaned {
    fn print(&self, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
        if self.worktrees.is_empty() && self.failed.is_empty() {
            writeln!(out, "no working trees were added to this repository")?;
        }
        for cleaning in &self.worktrees {
            self.print_one(cleaning, surroundings, out)?;
        }
        for Refusal { error, .. } in &self.failed {
            out.error(error);
        }
        let forcible = |cleaning: &Cleaning| {
            !cleaning.removed && !cleaning.losses.iter().any(|loss| loss.kind == LossKind::InUse)
        };
        if self.worktrees.iter().any(forcible) {
            out.hint("--force removes what is kept here, and what is named is lost");
        }
        Ok(())
    }

    fn print_one(
        &self,
        cleaning: &Cleaning,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let (word, tone) = match (cleaning.removed, self.dry_run) {
            (true, false) => ("removed", Tone::Good),
            (true, true) => ("would remove", Tone::Good),
            (false, false) => ("kept", Tone::Attention),
            (false, true) => ("would keep", Tone::Attention),
        };
        let path = surroundings.shown(Path::new(&cleaning.path));
        writeln!(out, "{} {path}", out.paint.apply(tone, word))?;
        if let Some(branch) = &cleaning.branch {
            let fate = match (cleaning.branch_deleted, self.dry_run) {
                (true, true) => " would be deleted too",
                (true, false) => " deleted too",
                (false, _) if cleaning.removed => " stays",
                (false, _) => "",
            };
            writeln!(out, "  {}", out.paint.dim(&format!("branch {}{fate}", text::one_line(branch))))?;
        }
        for loss in &cleaning.losses {
            let lost = if cleaning.removed { "lost: " } else { "" };
            writeln!(out, "  {lost}{}", loss.summary)?;
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
