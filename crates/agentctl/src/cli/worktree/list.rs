//! `agentctl worktree list`: each working tree, its state, and the sessions in it.

use std::io::Write;
use std::path::PathBuf;

use agentctl_daemon::joined;
use agentctl_fleet::worktree::{HeldTree, TreeState, Trees, Worktree};
use agentctl_hosts::Ask;
use agentctl_model::text;
use agentctl_model::{DirectoryHolder, LockType};

use super::super::coverage;
use super::super::host_args::HostArgs;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::hosts::{RosterHost, Unanswered, understood};
use crate::output::Output;
use crate::render::json;
use crate::render::sessions::short_ids;
use crate::render::style::{self, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::surroundings::Surroundings;

/// List the working trees of a repository with their state and the sessions in them
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The repository, or any folder in it [default: where you are]
    #[arg(value_name = "REPO", value_hint = clap::ValueHint::DirPath)]
    repository: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: worktrees, sources
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let far = args.hosts.one(surroundings)?;
    let far = far.as_deref();
    let trees = match far {
        None => {
            let repository = surroundings.repository(args.repository.as_ref());
            surroundings.fleet()?.worktrees(&repository, &surroundings.locks()?, surroundings.now())?
        }
        Some(far) => {
            let repository = super::there(args.repository.as_ref())?;
            let target = format!("/v1/worktrees?{}", joined(&[("repository", repository)]));
            let asked = far.ask(Ask::get(&target), super::GIT).map_err(Unanswered::Road);
            let mut trees: Trees =
                asked.and_then(|answer| understood(&answer)).map_err(|why| far.refused(why))?;
            far.name_sources(&mut trees.sources);
            trees
        }
    };
    if args.json {
        json::answer(out, &trees)?;
        return Ok(Exit::Done);
    }
    for line in table(&trees.worktrees, far, surroundings).lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    for HeldTree { tree, .. } in &trees.worktrees {
        if let Some(error) = &tree.error {
            let path = super::shown(&tree.path, far, surroundings);
            out.warn(&format!("{path}: {}", text::one_line(error)));
        }
    }
    coverage::warn(&trees.sources, surroundings, out);
    Ok(Exit::Done)
}

fn table(trees: &[HeldTree], far: Option<&RosterHost>, surroundings: &Surroundings) -> Table {
    let mut table = Table::new(vec![
        Column::flexible("PATH", 20).keep_end(),
        Column::flexible("BRANCH", 10),
        Column::whole("STATE"),
        Column::flexible("USED BY", 12),
    ]);
    for HeldTree { tree, holders } in trees {
        let branch = match (&tree.branch, &tree.head) {
            (Some(branch), _) => Cell::plain(text::one_line(branch)),
            (None, Some(head)) => Cell::new(format!("at {}", super::short(head)), Tone::Dim),
            (None, None) => Cell::default(),
        };
        let state = Cell::new(state(tree), tone(tree.state));
        let state = if tree.locked { state.and(", locked", Tone::Attention) } else { state };
        table.row(vec![
            Cell::plain(super::shown(&tree.path, far, surroundings)),
            branch,
            if tree.main { state.and(" (main)", Tone::Dim) } else { state },
            users(holders),
        ]);
    }
    table
}

fn state(tree: &Worktree) -> String {
    let parts = [(tree.changed, "changed"), (tree.untracked, "new"), (tree.unpushed, "ahead")];
    let counted =
        parts.iter().filter_map(|(count, word)| count.filter(|n| *n > 0).map(|n| format!("{n} {word}")));
    let words: Vec<String> = counted.collect();
    match tree.state {
        TreeState::Missing => "missing".to_owned(),
        TreeState::Bare => "bare".to_owned(),
        TreeState::Unknown => "unknown".to_owned(),
        _ if words.is_empty() => "clean".to_owned(),
        _ => words.join(", "),
    }
}

fn tone(state: TreeState) -> Tone {
    match state {
        TreeState::Clean | TreeState::Bare => Tone::Dim,
        TreeState::Dirty | TreeState::Ahead | TreeState::Missing | TreeState::Unknown => Tone::Attention,
    }
}

fn users(holders: &[DirectoryHolder]) -> Cell {
    let mut cell = Cell::default();
    for (index, holder) in holders.iter().enumerate() {
        let gap = if index == 0 { "" } else { ", " };
        cell = match (&holder.session_id, holder.status) {
            (Some(id), Some(status)) if holder.lock_type == LockType::Auto => {
                let look = style::look(status, None);
                let id = short_ids(std::iter::once(id.as_str())).remove(0).to_owned();
                cell.and(format!("{gap}{} ", look.glyph), look.tone).and(text::one_line(&id), Tone::Plain)
            }
            _ => {
                let by = holder.by.as_deref().map_or_else(|| "somebody".to_owned(), text::one_line);
                cell.and(format!("{gap}locked by {by}"), Tone::Attention)
            }
        };
    }
    cell
}
