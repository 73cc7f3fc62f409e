//! `agentctl man`: the manual, generated from the same text as `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentctl_model::ErrorKind;
use clap_mangen::Man;
use jiff::Timestamp;

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::surroundings::Surroundings;

/// Print the man page, or write one page per command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentctl man | man -l -\n  agentctl man --dir ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write agentctl.1 and a page for each command into this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let date = date(surroundings);
    let mut command = super::command();
    command.build();
    let Some(dir) = &args.dir else {
        out.write_all(&page(command, &date)?)?;
        return Ok(Exit::Done);
    };
    fs::create_dir_all(dir).and_then(|()| write_all(command, &date, dir)).map_err(|error| {
        Failure::new(ErrorKind::Failed, format!("cannot write man pages to {}: {error}", dir.display()))
    })?;
    Ok(Exit::Done)
}

/// The date of the page. Packagers set it, so that builds are reproducible.
fn date(surroundings: &Surroundings) -> String {
    let said = surroundings.environ.text("SOURCE_DATE_EPOCH").and_then(|seconds| seconds.parse().ok());
    let day = said.and_then(|seconds| Timestamp::from_second(seconds).ok());
    day.unwrap_or_else(|| surroundings.now()).strftime("%Y-%m-%d").to_string()
}

/// Writes a page for the command and one for each of its subcommands.
fn write_all(command: clap::Command, date: &str, dir: &Path) -> io::Result<()> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    for below in below.cloned().collect::<Vec<_>>() {
        write_all(below, date, dir)?;
    }
    let name = format!("{}.1", name(&command));
    agentctl_files::write_anew(&dir.join(name), &page(command, date)?)
}

/// The name of a page, such as `agentctl-worktree-clean`.
fn name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: clap::Command, date: &str) -> io::Result<Vec<u8>> {
    let title = name(&command);
    let man = Man::new(command)
        .title(title.to_uppercase())
        .section("1")
        .date(date)
        .source(concat!("agentctl ", env!("CARGO_PKG_VERSION")))
        .manual("agentctl manual");
    let mut written = Vec::new();
    man.render(&mut written)?;
    Ok(tidied(&String::from_utf8_lossy(&written)).into_bytes())
}

/// Removes what formatters complain about: trailing blanks, and breaks beside the space between paragraphs.
fn tidied(page: &str) -> String {
    let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
    // An empty line is such a space too.
    let spaced = |index: Option<usize>| {
        index.and_then(|index| lines.get(index)).is_some_and(|line| matches!(*line, "" | ".sp"))
    };
    let keeps = |index: &usize| {
        lines[*index] != ".br" || !(spaced(index.checked_sub(1)) || spaced(index.checked_add(1)))
    };
    let kept = (0..lines.len()).filter(keeps).map(|index| lines[index]);
    kept.flat_map(|line| [line, "\n"]).collect()
}
