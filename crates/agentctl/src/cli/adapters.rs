//! `agentctl adapters`: the known agents, and what can be done with each.

use std::io::Write;

use agentctl_fleet::known_agents;
use agentctl_hosts::Ask;
use agentctl_model::way::Reason;
use agentctl_model::{ErrorKind, text};
use serde::Deserialize;
use serde_json::Value;

use super::host_args::HostArgs;
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
    #[command(flatten)]
    hosts: HostArgs,
    /// The agents as JSON
    #[arg(long)]
    json: bool,
}

/// An agent as the JSON tells it, here or on another machine.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    title: String,
    programs: Vec<String>,
    known_good: String,
    capabilities: Vec<String>,
    ways: Vec<Way>,
    verified: bool,
    enabled: bool,
}

/// Where its sessions can be spoken with.
#[derive(Debug, Deserialize)]
struct Way {
    place: String,
    over: String,
    commands: Vec<String>,
    manners: Option<Manners>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manners {
    mid_turn: String,
    always: String,
    reason: Reason,
    questions: String,
    without_runner: String,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let told: Value = if let Some(far) = args.hosts.one(surroundings)? {
        far.read(Ask::get("/v1/adapters")).map_err(|why| far.refused(why))?
    } else {
        let settings = surroundings.settings()?;
        serde_json::to_value(known_agents(&settings.acp_agents(), |name| {
            settings.adapter(name).enabled.value
        }))
        .map_err(|error| unread(&error))?
    };
    let Value::Array(mut all) = told else { return Err(unread(&"it is no list")) };
    all.retain(|entry| args.name.as_ref().is_none_or(|name| entry["name"] == name.as_str()));
    if args.json {
        json::answer(out, &all)?;
        return Ok(Exit::Done);
    }
    let entries: Vec<Entry> = serde_json::from_value(Value::Array(all)).map_err(|error| unread(&error))?;
    let (width, paint) = (out.width(), out.paint);
    let lines = match (&args.name, entries.first()) {
        (Some(_), Some(entry)) => card(entry, width, paint),
        (Some(name), None) => {
            return Err(Failure::new(ErrorKind::NotFound, format!("no agent is called `{name}` there")));
        }
        _ => table(&entries).lines(width, paint),
    };
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(Exit::Done)
}

fn unread(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorKind::Failed, format!("the agents cannot be read: {why}"))
        .hint("the versions there and here may be too far apart")
}

fn table(entries: &[Entry]) -> Table {
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
        let observed = Cell::new(text::one_line(&entry.known_good), Tone::Dim);
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
            Cell::plain(joined(&entry.capabilities)),
            Cell::plain(spoken_with(entry)),
        ]);
    }
    table
}

/// Everything about one agent.
fn card(entry: &Entry, width: usize, paint: Paint) -> Vec<String> {
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
        say("observed with", &format!("{}{source}", text::one_line(&entry.known_good)));
    }
    say("sessions can", &joined(&entry.capabilities));
    for way in &entry.ways {
        let over = text::one_line(&way.over);
        say(&place(way), &format!("{}, over {over}", joined(&way.commands)));
        let Some(manners) = &way.manners else { continue };
        for (what, how) in [
            ("a message in mid-turn", manners.mid_turn.as_str()),
            ("--always for the session", &manners.always),
            ("a reason with a denial", manners.reason.words()),
            ("questions", &manners.questions),
            ("when the runner dies", &manners.without_runner),
        ] {
            say("", &format!("{what}: {}", text::one_line(how)));
        }
    }
    lines
}

fn place(way: &Way) -> String {
    text::one_line(&way.place).replace('-', " ")
}

/// In the table both ways of `--hold` are one.
fn spoken_with(entry: &Entry) -> String {
    let ways = entry.ways.iter().filter(|way| way.commands.iter().any(|command| command == "send"));
    let places: Vec<String> =
        ways.map(|way| if way.place == "private-server" { "held".to_owned() } else { place(way) }).collect();
    joined(&places)
}

fn joined(all: &[String]) -> String {
    text::one_line(&all.join(", "))
}
