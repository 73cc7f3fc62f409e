//! `agentctl adapters`: the known agents, and what can be done with each.

use std::io::Write;

use agentctl_fleet::{AdapterEntry, known_agents};
use agentctl_model::way::Place;
use agentctl_model::{Capability, text};

use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::json;
use crate::render::style::{Paint, Tone};
use crate::render::table::{Cell, Column, Table};
use crate::render::width::wrap;
use crate::surroundings::Surroundings;

/// Show which agents are known and what can be done with their sessions
#[derive(Debug, clap::Args)]
#[command(after_help = "SPOKEN WITH says where send, approve, deny, answer and interrupt reach a\n\
    session: `held` is what `launch --hold` makes, `server` an agent's server that\n\
    somebody else started, `gateway` one in which the session lives. With a NAME,\n\
    how each of them takes what is said to it.")]
pub(crate) struct Args {
    /// Everything about this agent
    #[arg(value_name = "NAME", value_parser = super::adapter_names())]
    name: Option<String>,
    /// The agents as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let settings = surroundings.settings()?;
    let mut entries = known_agents(&settings.acp_agents(), |name| settings.adapter(name).enabled.value);
    entries.retain(|entry| args.name.as_ref().is_none_or(|name| entry.name == *name));
    if args.json {
        json::answer(out, &entries)?;
        return Ok(Exit::Done);
    }
    let (width, paint) = (out.width(), out.paint);
    let lines = match (&args.name, entries.first()) {
        (Some(_), Some(entry)) => card(entry, width, paint),
        _ => table(&entries).lines(width, paint),
    };
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

fn table(entries: &[AdapterEntry]) -> Table {
    let mut table = Table::new(vec![
        Column::whole("NAME"),
        Column::flexible("AGENT", 8).expendable(1),
        Column::whole("PROGRAMS").expendable(3),
        Column::flexible("OBSERVED WITH", 8).expendable(2),
        Column::whole("SESSIONS CAN"),
        Column::whole("SPOKEN WITH"),
    ]);
    for entry in entries {
        let name = Cell::plain(text::one_line(&entry.name));
        let observed = Cell::new(&entry.known_good, Tone::Dim);
        table.row(vec![
            if entry.enabled { name } else { name.and(" (off)", Tone::Dim) },
            Cell::plain(text::one_line(&entry.title)),
            Cell::plain(text::one_line(&entry.programs.join(", "))),
            // What the user named was seen by nobody else.
            if entry.verified || entry.known_good.is_empty() {
                observed
            } else {
                observed.and(" (source only)", Tone::Dim)
            },
            Cell::plain(capabilities(entry)),
            Cell::plain(spoken_with(entry)),
        ]);
    }
    table
}

/// Everything about one agent.
fn card(entry: &AdapterEntry, width: usize, paint: Paint) -> Vec<String> {
    /// Two spaces, the longest label, two spaces.
    const WORDS: usize = 2 + 14 + 2;
    let mut lines = vec![format!(
        "{}  {}",
        paint.strong(&text::one_line(&entry.title)),
        paint.dim(&text::one_line(&entry.name))
    )];
    let mut say = |label: &str, words: &str| {
        let words = wrap(words, width.saturating_sub(WORDS).max(20)).join(&format!("\n{:WORDS$}", ""));
        lines.push(format!("  {}  {words}", paint.dim(&format!("{label:<14}"))));
    };
    if !entry.enabled {
        say("off", "disabled in the settings; its sessions are not read");
    }
    say("programs", &text::one_line(&entry.programs.join(", ")));
    if !entry.known_good.is_empty() {
        let source = if entry.verified { "" } else { " (read in its source only)" };
        say("observed with", &format!("{}{source}", entry.known_good));
    }
    say("sessions can", &capabilities(entry));
    for way in entry.ways {
        say(way.place.as_str(), &format!("{}, over {}", joined(way.commands, |one| one.as_str()), way.over));
        let Some(manners) = &way.manners else { continue };
        for (what, how) in [
            ("a message in mid-turn", manners.mid_turn),
            ("--always for the session", manners.always),
            ("a reason with a denial", manners.reason.words()),
            ("questions", manners.questions),
            ("when the runner dies", manners.without_runner),
        ] {
            say("", &format!("{what}: {how}"));
        }
    }
    lines
}

/// In the table both ways of `--hold` are one.
fn spoken_with(entry: &AdapterEntry) -> String {
    let ways = entry.ways.iter().filter(|way| way.gives(Capability::Send));
    let places = ways.map(|way| if way.place.is_held() { Place::Held } else { way.place });
    joined(&places.collect::<Vec<_>>(), |place| place.as_str())
}

fn capabilities(entry: &AdapterEntry) -> String {
    joined(&entry.capabilities, |capability| capability.as_str())
}

fn joined<T>(all: &[T], name: impl Fn(&T) -> &'static str) -> String {
    all.iter().map(name).collect::<Vec<_>>().join(", ")
}
