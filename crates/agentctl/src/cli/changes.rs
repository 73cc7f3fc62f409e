//! `agentctl changes ID`: what a session has changed in its working tree.

use std::io::Write;

use agentctl_fleet::Purpose;
use agentctl_model::{ErrorKind, text};

use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::Output;
use crate::render::{json, patch};
use crate::surroundings::Surroundings;

/// Show what a session has changed in its working tree, committed or not
#[derive(Debug, clap::Args)]
#[command(after_help = "A session that was launched into a working tree of its own is compared with\n\
    where its branch began, any other with the last commit; new files count. What\n\
    others changed in the same tree is shown too. Into a pipe the patch is exact.\n\nExamples:\n  \
    agentctl changes 5f0c\n  \
    agentctl changes 5f0c --stat")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// A line for each file instead of the patch
    #[arg(long)]
    stat: bool,
    /// One JSON object: cwd, since, diff, files, truncated, error
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let located = args.target.find(Purpose::Read, &link, surroundings, out)?;
    let changes = located.changes(&link.fleet)?;
    if args.json {
        json::answer(out, &changes)?;
        return Ok(if changes.error.is_none() { Exit::Done } else { Exit::Failed });
    }
    let Some(diff) = &changes.diff else {
        let why = changes.error.as_deref().unwrap_or("there is nothing to compare");
        return Err(Failure::new(ErrorKind::Failed, why));
    };
    if diff.is_empty() {
        writeln!(out, "{}", out.paint.dim("nothing was changed"))?;
    } else if args.stat {
        for file in &changes.files {
            let (added, removed) = (format!("+{}", file.added), format!("-{}", file.removed));
            writeln!(out, "{added:>7} {removed:>7}  {}", text::one_line(&file.path))?;
        }
    } else {
        patch::print(diff.as_bytes(), out)?;
    }
    if changes.truncated {
        out.warn("the patch is longer than what is shown; `git diff` there shows all of it");
    }
    Ok(Exit::Done)
}
