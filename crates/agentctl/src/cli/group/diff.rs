//! `agentctl group diff GROUP`: what each slot has done, as a patch or as git's table of it.

use std::io::Write;
use std::path::Path;

use agentctl_fleet::Slot;
use agentctl_fleet::worktree::Form;
use agentctl_model::text;
use schemars::JsonSchema;
use serde::Serialize;

use super::Name;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::render::style::Tone;
use crate::render::width::{cut_path, measure};
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

/// What `group diff --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Diffs {
    group: String,
    slots: Vec<Entry>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    slot: String,
    worktree: Option<String>,
    branch: Option<String>,
    /// `null` where there is nothing to compare, which `error` may say more about.
    diff: Option<String>,
    error: Option<String>,
}

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let (group, _) = args.name.find(&surroundings.fleet()?, false)?;
    if let Some(unknown) = args.slot.iter().find(|name| !group.slots.iter().any(|slot| slot.name == **name)) {
        let names: Vec<&str> = group.slots.iter().map(|slot| slot.name.as_str()).collect();
        let message = format!("group {} has no slot `{}`", group.name, text::one_line(unknown));
        return Err(Failure::new(Exit::NotFound, message).hint(format!("it has {}", names.join(", "))));
    }
    let form = if args.stat { Form::Stat(out.width()) } else { Form::Patch };
    let wanted = |slot: &&Slot| args.slot.is_empty() || args.slot.contains(&slot.name);
    let (mut entries, mut exit) = (Vec::new(), Exit::Done);
    for (index, slot) in group.slots.iter().filter(wanted).enumerate() {
        let diff = slot.diff(form);
        exit = if diff.is_err() { Exit::Failed } else { exit };
        if args.json {
            entries.push(entry(slot, diff));
            continue;
        }
        if index > 0 {
            writeln!(out)?;
        }
        title(slot, surroundings, out)?;
        match diff {
            Ok(Some(diff)) if diff.is_empty() => writeln!(out, "{}", out.paint.dim("# nothing was changed"))?,
            Ok(Some(diff)) => print(&diff, out)?,
            Ok(None) => writeln!(out, "{}", out.paint.dim(&format!("# {}", nothing(slot))))?,
            Err(error) => out.error(&error.to_string()),
        }
    }
    if args.json {
        json::answer(out, &Diffs { group: group.name, slots: entries })?;
    }
    Ok(exit)
}

fn entry(slot: &Slot, diff: Result<Option<Vec<u8>>, impl ToString>) -> Entry {
    let made = slot.record.made.as_ref();
    let (diff, error) = match diff {
        Ok(Some(diff)) => (Some(String::from_utf8_lossy(&diff).into_owned()), None),
        Ok(None) => (None, Some(nothing(slot).to_owned())),
        Err(error) => (None, Some(error.to_string())),
    };
    Entry {
        slot: slot.name.clone(),
        worktree: made.map(|made| made.path.to_string_lossy().into_owned()),
        branch: slot.branch().map(str::to_owned),
        diff,
        error,
    }
}

fn nothing(slot: &Slot) -> &'static str {
    match &slot.record.made {
        Some(_) => "its working tree and its branch are gone",
        None => "it has no working tree of its own",
    }
}

/// Which slot the following patch is of. What stands before a patch is none of it, so the whole can still be applied.
fn title(slot: &Slot, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    let tree = slot.record.made.as_ref().map(|made| surroundings.shown(Path::new(&made.path)));
    let name = text::one_line(&slot.name);
    let room = out.width().saturating_sub(measure(&name) + "#  in ".len());
    let tree = tree.map(|tree| format!(" in {}", cut_path(&tree, room))).unwrap_or_default();
    Ok(writeln!(out, "{}", out.paint.strong(&format!("# {name}{tree}")))?)
}

/// On a terminal coloured and without control characters; elsewhere byte for byte.
fn print(diff: &[u8], out: &mut Output) -> Result<(), Failure> {
    if !out.is_terminal() {
        return Ok(out.write_all(diff)?);
    }
    for line in String::from_utf8_lossy(diff).lines() {
        let tone = match line.as_bytes().first() {
            _ if line.starts_with("+++ ") || line.starts_with("--- ") => Tone::Strong,
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            Some(b'@') => Tone::Dim,
            Some(b'd') => Tone::Strong,
            _ => Tone::Plain,
        };
        writeln!(out, "{}", out.paint.apply(tone, &text::clean(line)))?;
    }
    Ok(())
}
