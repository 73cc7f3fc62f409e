//! `agentctl timeline`: who worked, waited and rested when, from recorded times only.

pub(crate) mod over_hosts;

use std::io::Write;
use std::path::PathBuf;

use agentctl_fleet::{Purpose, TimelineQuery, moment};
use agentctl_model::timeline::Timeline;
use agentctl_model::{CoverageKind, ErrorKind};
use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::host_args::{self, HostArgs};
use super::target::{NarrowingArgs, Targets};
use super::{complete, coverage};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::{Link, SessionFinder};
use crate::output::Output;
use crate::render::json;
use crate::render::timeline::{svg, terminal};
use crate::render::width::DEFAULT_COLUMNS;
use crate::surroundings::Surroundings;

/// Show who worked, waited and rested when
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl timeline                    every session of the last 24 hours\n  \
    agentctl timeline --since 7d --adapter codex\n  \
    agentctl timeline 5f0c box/91aa      these two, on two machines\n  \
    agentctl timeline --svg day.svg      a picture for a browser\n  \
    agentctl timeline --json | jq '.lanes[].spans'\n\n\
    Every bar begins and ends with a recorded time. What nobody recorded is unknown\n\
    and is drawn hatched. Idle is shown where an agent recorded the end of its turn,\n\
    approvals where the agent records them, and while they last.\n\
    docs/timeline.md says what each agent records.")]
pub(crate) struct Args {
    /// Only these sessions: full ids, unique beginnings, or exact names
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::sessions))]
    ids: Vec<String>,
    /// How far back: a day, 24h, 7d, an RFC 3339 time, or `all` [default: 24h]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    #[command(flatten)]
    narrowed: NarrowingArgs,
    #[command(flatten)]
    hosts: HostArgs,
    /// Write a picture to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// One JSON object: window, lanes, sources, hosts
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let query = args.query(&link, surroundings)?;
    let Args { ids, narrowed, hosts, svg, json, strict, .. } = args;
    let mut exit = Exit::Done;
    let answer = if ids.is_empty() {
        asked(&query, &hosts, &link, surroundings)?
    } else {
        let found = Targets::of(ids, narrowed, hosts).find(Purpose::Read, &link, surroundings, out)?;
        exit = found.exit();
        over_hosts::timeline_of(&found.sessions, query.since, &link.fleet, surroundings)?
    };
    if json {
        json::answer(out, &answer)?;
    } else if let Some(file) = svg {
        let picture = svg::picture(&answer, &surroundings.zone);
        if file.as_os_str() == "-" {
            out.write_all(picture.as_bytes())?;
        } else {
            let file = surroundings.meant(&file);
            let failed =
                |error| Failure::new(ErrorKind::Failed, format!("{}: {error}", surroundings.shown(&file)));
            agentctl_files::write_anew(&file, picture.as_bytes()).map_err(failed)?;
            writeln!(out, "{}", surroundings.shown(&file))?;
        }
    } else {
        print(&answer, surroundings, out)?;
    }
    coverage::warn_unread(&query.adapters, link.fleet(), out);
    host_args::warn(&answer.hosts, out);
    coverage::warn(&answer.sources, surroundings, out);
    exit = exit.or_worse(coverage::exit(&answer.sources, strict, surroundings));
    Ok(exit.or_worse(host_args::exit(&answer.hosts, strict)))
}

/// Everything that fits, on this machine or over those that are asked.
pub(crate) fn asked(
    query: &TimelineQuery,
    hosts: &HostArgs,
    link: &Link,
    surroundings: &Surroundings,
) -> Result<Timeline, Failure> {
    Ok(match hosts.roster(surroundings)? {
        None => link.fleet.whole_timeline(query),
        Some(roster) => {
            let asked = hosts.asked(&roster, link.fleet.host())?;
            over_hosts::timeline(&roster, &asked, query, &link.fleet, surroundings)
        }
    })
}

impl Args {
    fn query(&self, link: &Link, surroundings: &Surroundings) -> Result<TimelineQuery, Failure> {
        let wrong = |words: String| Failure::new(ErrorKind::Usage, words);
        let since = self.since.as_deref().map(|text| moment(text, &surroundings.zone, false).map_err(wrong));
        Ok(TimelineQuery {
            since: since.transpose()?.unwrap_or(TimelineQuery::WINDOW),
            ids: Vec::new(),
            adapters: self.narrowed.adapter().map(str::to_owned).into_iter().collect(),
            root: self.narrowed.root(&link.fleet, surroundings)?,
            folders: self
                .narrowed
                .typed_cwd()
                .into_iter()
                .flat_map(|cwd| surroundings.meant_folders(cwd))
                .collect(),
        })
    }
}

fn print(answer: &Timeline, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    if answer.lanes.iter().all(|lane| lane.spans.is_empty()) {
        let unheard = answer.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
        let words = if unheard {
            "nothing was heard to have happened in this time, and not every machine was heard"
        } else {
            "nothing is recorded of this time"
        };
        writeln!(out, "{words}")?;
        out.hint("`agentctl timeline --since 7d` looks further back");
        return Ok(());
    }
    let width = if out.is_unbounded() { DEFAULT_COLUMNS } else { out.width() };
    for line in terminal::lines(answer, width, &surroundings.zone, out.paint) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
