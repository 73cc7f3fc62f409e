//! `agentctl group diff GROUP`: what each slot has changed, as a patch or as git's table.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::Slot;
use agentctl_fleet::worktree::Form;
use agentctl_model::{ErrorKind, text};

use super::{Name, over_hosts};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::width::{cut_path, measure};
use crate::render::{json, patch};
use crate::surroundings::Surroundings;

/// Print what each slot of a group has done in its working tree, committed or not
#[derive(Debug, clap::Args)]
#[command(after_help = "Each slot is compared with the commit at which its branch left its base; new\n\
    files count. Into a pipe the patch is exact, so that `git apply` can take it.")]
pub(crate) struct Args {
    #[command(flatten)]
    name: Name,
    /// Only this slot, as `group show` names it (repeatable)
    #[arg(long, value_name = "SLOT")]
    slot: Vec<String>,
    /// A line for each file instead of the patch
    #[arg(long)]
    stat: bool,
    /// One JSON object: group, slots
    #[arg(long)]
    json: bool,
}

/// git draws its bars as wide as it may. In a pipe the longest name is complete, and no line is longer than
/// this.
const WIDEST: usize = 500;

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    if let Some(asked) = args.name.asked(false, surroundings)? {
        if asked.local {
            let failure =
                Failure::new(ErrorKind::Usage, "patches are of this machine or of others, not of both");
            return Err(failure.hint("name the other machines with --host, or leave it out"));
        }
        return over_hosts::diff(&asked, &args.name.group, (&args.slot, args.stat), args.json, out);
    }
    let (group, _) = args.name.find(&surroundings.fleet()?, false)?;
    let slots = group.chosen(&args.slot).map_err(|unknown| {
        let message = format!("group {} has no slot `{}`", group.name, text::one_line(&unknown.slot));
        Failure::new(ErrorKind::NotFound, message).hint(format!("it has {}", unknown.known.join(", ")))
    })?;
    let form = if args.stat { Form::Stat(out.width().min(WIDEST)) } else { Form::Patch };
    if args.json {
        let (diff, all) = group.diff_of(&slots, form);
        json::answer(out, &diff)?;
        return Ok(if all { Exit::Done } else { Exit::Failed });
    }
    let mut exit = Exit::Done;
    for (index, slot) in slots.into_iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        title(slot, surroundings, out)?;
        match slot.diff(form) {
            Ok(Some(diff)) if diff.is_empty() => writeln!(out, "{}", out.paint.dim("# nothing was changed"))?,
            Ok(Some(diff)) => patch::print(&diff, out)?,
            Ok(None) => writeln!(out, "{}", out.paint.dim(&format!("# {}", slot.why_no_diff())))?,
            Err(error) => {
                exit = Exit::Failed;
                out.error(&error.to_string());
            }
        }
    }
    Ok(exit)
}

/// Names the slot of the following patch. Text before a patch is not part of it, so the output can still be
/// applied.
fn title(slot: &Slot, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let tree = slot.record.made.as_ref().map(|made| surroundings.shown(Path::new(&made.path)));
    let name = text::one_line(&slot.name);
    let room = out.width().saturating_sub(measure(&name) + "#  in ".len());
    let tree = tree.map(|tree| format!(" in {}", cut_path(&tree, room))).unwrap_or_default();
    Ok(writeln!(out, "{}", out.paint.strong(&format!("# {name}{tree}")))?)
}
