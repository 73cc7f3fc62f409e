//! `agentctl peek ID`: the last messages of a session.

use std::io::Write;

use agentctl_fleet::{Fleet, Purpose};
use agentctl_model::Entry;

use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::hosts::Located;
use crate::output::Output;
use crate::render::entries::Page;
use crate::render::json;
use crate::surroundings::Surroundings;

/// Show the last messages of a session, tools folded
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentctl peek 5f0c\n  agentctl peek 5f0c -n 3 --json | jq -r .text")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// How many entries
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 20)]
    count: usize,
    /// One JSON object per entry and line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let found = args.target.find(Purpose::Read, &link, surroundings, out)?;
    print_last(&link.fleet, &found, args.count, &mut Reader::new(args.json, surroundings, out), out)?;
    Ok(Exit::Done)
}

/// Prints the last entries that are stored now.
pub(crate) fn print_last(
    fleet: &Fleet,
    session: &Located,
    count: usize,
    reader: &mut Reader<'_>,
    out: &mut Output,
) -> Result<(), Failure> {
    let entries = session.entries(fleet, count)?;
    if entries.is_empty() && count > 0 {
        out.hint("nothing has been said in this session yet");
    }
    entries.iter().try_for_each(|entry| reader.print(entry, out))
}

/// Prints entries one after the other, for a person or as JSON lines.
pub(crate) struct Reader<'a> {
    json: bool,
    page: Page<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(json: bool, surroundings: &'a Surroundings, out: &Output) -> Self {
        let width = out.is_terminal().then(|| out.width());
        Self { json, page: Page { zone: &surroundings.zone, paint: out.paint, width, day: None } }
    }

    /// For a person, marks the entry that is printed next.
    pub(crate) fn point(&self, out: &mut Output) -> Result<(), Failure> {
        if !self.json {
            let mark = out.paint.attention("▶ what was searched for:");
            writeln!(out, "{mark}")?;
        }
        Ok(())
    }

    pub(crate) fn print(&mut self, entry: &Entry, out: &mut Output) -> Result<(), Failure> {
        if self.json {
            return json::line(out, entry);
        }
        for line in self.page.lines(entry) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}
