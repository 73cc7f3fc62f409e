//! `agentctl usage`: what sessions have spent, in tokens and in dollars.

pub(crate) mod over_hosts;

use std::io::Write;
use std::path::{Path, PathBuf};

use agentctl_fleet::{Since, UsageAnswer, UsageQuery, moment, zone_of};
use agentctl_model::usage::{Basis, By, Total, UsageRow};
use agentctl_model::{CoverageKind, ErrorKind, HostReport, Road, text};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use jiff::tz::TimeZone;

use super::coverage;
use super::host_args::{self, HostArgs};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::output::Output;
use crate::render::sessions::short_ids;
use crate::render::style::Tone;
use crate::render::table::{Cell, Column, Table};
use crate::render::{json, path};
use crate::surroundings::Surroundings;

/// How wide a bar is at most.
const BAR: usize = 16;

/// Count tokens and cost by day, week, month, model, agent, folder or session
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl usage                     every day, all agents\n  \
    agentctl usage --by model --since 30d\n  \
    agentctl usage --by cwd --since 2026-11-01 --until 2026-11-15\n  \
    agentctl usage --by session --adapter codex --json | jq .total\n\n\
    Every model call counts once, at its own time, in the session that made it: not\n\
    again in forks, resumed copies and replays. A cost is the agent's own figure,\n\
    else by [prices] of the config, else by the table that comes with agentctl, at\n\
    the date of the call. What has no price is counted in tokens and named below.\n\
    A day begins at midnight of --tz, by default that of this machine. Worktrees\n\
    count for their repository. docs/usage.md says how each agent is counted.\n\n\
    Of several machines (--host) all calls are counted together, at the prices here.")]
pub(crate) struct Args {
    /// What the rows are about
    #[arg(long, value_name = "WHAT", value_parser = words(), default_value = By::Day.as_str())]
    by: By,
    /// From this moment on: a day, 30d, 12h, an RFC 3339 time, or `all` [default: all]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Up to this moment: the end of a day, 12h (ago), or an RFC 3339 time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The time zone of days, weeks and months: Europe/Berlin, UTC, +02:00
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true, value_parser = |text: &str| zone_of(text))]
    tz: Option<TimeZone>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Only sessions that work in this folder or below
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: rows, total, unpriced, sources, hosts
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

/// The values of `--by`.
fn words() -> impl TypedValueParser<Value = By> {
    let words = By::ALL.map(|by| PossibleValue::new(by.as_str()));
    PossibleValuesParser::new(words).try_map(|word| By::parse(&word).ok_or("no such rows"))
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    let query = args.query(surroundings)?;
    let answer = asked(&query, &args.hosts, &link, surroundings)?;
    if args.json {
        json::answer(out, &answer)?;
    } else {
        print(&answer, surroundings, out)?;
    }
    coverage::warn_unread(&args.adapter, &link.fleet, out);
    host_args::warn(&answer.hosts, out);
    coverage::warn(&answer.sources, surroundings, out);
    let exit = coverage::exit(&answer.sources, args.strict, surroundings);
    Ok(exit.or_worse(host_args::exit(&answer.hosts, args.strict)))
}

/// What was spent, on this machine or over those that are asked.
pub(crate) fn asked(
    query: &UsageQuery,
    hosts: &HostArgs,
    link: &Link,
    surroundings: &Surroundings,
) -> Result<UsageAnswer, Failure> {
    Ok(match hosts.roster(surroundings)? {
        None => link.usage(query),
        Some(roster) => {
            let asked = hosts.asked(&roster, link.fleet.host())?;
            over_hosts::usage(&roster, &asked, query, &link.fleet, surroundings)
        }
    })
}

impl Args {
    fn query(&self, surroundings: &Surroundings) -> Result<UsageQuery, Failure> {
        let zone = self.tz.clone().unwrap_or_else(|| surroundings.zone.clone());
        let wrong = |words: String| Failure::new(ErrorKind::Usage, words);
        let since =
            self.since.as_deref().map(|text| moment(text, &zone, false).map_err(wrong)).transpose()?;
        let until = self.until.as_deref().map(|text| moment(text, &zone, true).map_err(wrong)).transpose()?;
        Ok(UsageQuery {
            by: self.by,
            since: since.unwrap_or(Since::Ever),
            until: until.and_then(|until| until.start(surroundings.now())),
            adapters: self.adapter.clone(),
            folders: self.cwd.iter().flat_map(|given| surroundings.meant_folders(given)).collect(),
            zone,
        })
    }
}

fn print(answer: &UsageAnswer, surroundings: &Surroundings, out: &mut Output) -> Result<(), Failure> {
    if answer.rows.is_empty() {
        let unheard = answer.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
        let words = if unheard {
            "nothing was heard to be spent, and not every machine was heard"
        } else {
            "nothing was spent in this time"
        };
        writeln!(out, "{words}")?;
        return Ok(());
    }
    let table = table(answer, out.is_terminal(), surroundings.home.as_deref());
    for line in table.lines(out.width(), out.paint) {
        writeln!(out, "{line}")?;
    }
    if !answer.unpriced.is_empty() {
        let names: Vec<String> = answer.unpriced.iter().map(|name| text::one_line(name)).collect();
        let words = format!(
            "no price is known for: {}; `[prices.\"MODEL\"]` in the config sets one",
            names.join(", ")
        );
        writeln!(out, "{}", out.paint.dim(&words))?;
    }
    Ok(())
}

/// The rows with their total; with `bars` each row is also drawn.
pub(crate) fn table(answer: &UsageAnswer, bars: bool, home: Option<&Path>) -> Table {
    let most = answer.rows.iter().map(|row| measure(row, &answer.total)).fold(0.0, f64::max);
    let mut table = Table::new(columns(answer.by, bars));
    let keys = keys(answer, home);
    for (row, key) in answer.rows.iter().zip(keys) {
        let mut cells = vec![key];
        cells.extend(figures(&row.total));
        if bars {
            cells.push(Cell::new(bar(measure(row, &answer.total), most), Tone::Good));
        }
        table.row(cells);
    }
    let mut total = vec![Cell::new("total", Tone::Strong)];
    total.extend(figures(&answer.total));
    if bars {
        total.push(Cell::plain(""));
    }
    table.row(total);
    table
}

fn columns(by: By, bars: bool) -> Vec<Column> {
    let key = match by {
        By::Day => Column::whole("DAY"),
        By::Week => Column::whole("WEEK"),
        By::Month => Column::whole("MONTH"),
        By::Model => Column::flexible("MODEL", 16),
        By::Adapter => Column::whole("AGENT"),
        By::Cwd => Column::flexible("FOLDER", 16).keep_end(),
        By::Session => Column::flexible("SESSION", 16),
    };
    let mut columns = vec![
        key,
        Column::whole("IN"),
        Column::whole("OUT"),
        Column::whole("CACHE READ").expendable(2),
        Column::whole("CACHE WRITE").expendable(3),
        Column::whole("COST"),
        Column::whole("SESSIONS").expendable(4),
    ];
    if bars {
        columns.push(Column::whole("").expendable(5));
    }
    columns
}

fn keys(answer: &UsageAnswer, home: Option<&Path>) -> Vec<Cell> {
    let unknown = || Cell::new("unknown", Tone::Dim);
    if answer.by == By::Session {
        let ids = short_ids(answer.rows.iter().map(|row| row.key.as_deref().unwrap_or_default()));
        // A session of another machine is spoken of as HOST/ID.
        let prefix = |row: &UsageRow| {
            let is_far =
                |host: &&HostReport| host.via != Road::Local && Some(&host.name) == row.host.as_ref();
            answer.hosts.iter().find(is_far).map(|host| format!("{}/", host.name)).unwrap_or_default()
        };
        let named = |(row, id): (&UsageRow, &str)| {
            let name = row.name.as_deref().map(text::one_line).unwrap_or_default();
            Cell::plain(format!("{}{}", prefix(row), text::one_line(id))).and(format!(" {name}"), Tone::Dim)
        };
        return answer.rows.iter().zip(ids).map(named).collect();
    }
    let shown = |row: &UsageRow| match (&row.key, answer.by) {
        (Some(folder), By::Cwd) => Cell::plain(path::shown(folder, home)),
        (Some(key), _) => Cell::plain(text::one_line(key)),
        (None, _) => unknown(),
    };
    answer.rows.iter().map(shown).collect()
}

fn figures(total: &Total) -> Vec<Cell> {
    let count = |count: Option<u64>| {
        count.map_or_else(|| Cell::new("-", Tone::Dim), |count| Cell::plain(grouped(count)))
    };
    let cost = match (total.cost, total.cost_basis) {
        (None, _) => Cell::new("-", Tone::Dim),
        // The agent's own figures are facts, the others are estimates.
        (Some(dollars), Some(Basis::Agent)) => Cell::plain(format!("${dollars:.2}")),
        (Some(dollars), _) => Cell::plain(format!("~${dollars:.2}")),
    };
    let tokens = &total.tokens;
    vec![
        count(tokens.input),
        count(tokens.output),
        count(tokens.cache_read),
        count(tokens.cache_write),
        cost,
        Cell::new(total.sessions.to_string(), Tone::Dim),
    ]
}

/// A number that people can read: 12,345,678.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// What a bar shows: dollars, or tokens where nothing has a price.
#[expect(clippy::cast_precision_loss, reason = "a bar has a few columns")]
fn measure(row: &UsageRow, all: &Total) -> f64 {
    if all.cost.is_some() { row.total.cost.unwrap_or(0.0) } else { row.total.tokens.sum() as f64 }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "between 0 and the width of a bar"
)]
fn bar(value: f64, most: f64) -> String {
    let parts = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if most <= 0.0 || value <= 0.0 {
        return String::new();
    }
    let eighths = ((value / most * (BAR * 8) as f64).round() as usize).clamp(1, BAR * 8);
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(parts[eighths % 8]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bars_are_read_at_a_glance() {
        let shown = [0, 7, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "1,234,567"]);
        assert_eq!(bar(0.0, 1.0), "");
        assert_eq!(bar(1.0, 1.0).chars().count(), BAR);
        assert_eq!(bar(0.000_1, 1.0), "▏", "what was spent is seen");
        assert_eq!(bar(0.5, 1.0), "█".repeat(BAR / 2));
    }
}
