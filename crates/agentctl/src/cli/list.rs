//! `agentctl list`: the sessions that run, those that wait, and with `-a` those that stopped.

use std::io::Write;
use std::path::PathBuf;

use agentctl_fleet::{Fleet, ListFilter, Listing, Query, Sort, StatusFilter, Wanted};
use agentctl_model::{CoverageKind, Outcome, Road, Session, SourceReport, Status};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap_complete::engine::ArgValueCompleter;

use super::host_args::{self, HostArgs};
use super::{complete, coverage, group, rows, watch, welcome};
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::link::Link;
use crate::link::hosts::Roster;
use crate::output::Output;
use crate::render::json;
use crate::render::sessions::{ListColumn, View, table};
use crate::render::template::Template;
use crate::render::time::Since;
use crate::surroundings::Surroundings;

/// List sessions: those that live, and with -a also stopped ones
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentctl list                      what runs now, who waits first\n  \
    agentctl list -a --since 30d       also what stopped in 30 days\n  \
    agentctl list --status failed      failed ones, stopped or not\n  \
    agentctl list --cwd . --tree       this folder, with sub-agents\n  \
    agentctl list -q --status waiting  only ids of those that wait\n  \
    agentctl list --columns id,age,cwd these columns alone\n  \
    agentctl list --format '{{.id}} {{.status}}'\n  \
    agentctl list --format 'table {{.ID}}\\t{{.Tokens.In}}\\t{{.Prompt}}' --usage\n  \
    agentctl list --json | jq '.sessions[] | {id, status, cwd}'\n\n\
    A template names fields of the session object by their JSON names, in whatever\n\
    case: {{.id}}, {{.tokens.in}}. Beside them may stand json, join, lower, upper\n\
    and truncate, as in {{json .}} and {{.prompt | truncate 40}}. \\t and \\n are a\n\
    tab and a new line; `table` at the beginning lines the columns up under\n\
    headings, and `json` alone is one object a line. What is not known is empty.\n\n\
    AGE is since the session began, ACTIVITY since its last record. Into a pipe\n\
    nothing is cut; COLUMNS says otherwise.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Also stopped sessions of the last 7 days, and idle ones of gateways
    #[arg(short, long)]
    all: bool,
    /// How far back stopped sessions are shown: 30d, 12h, an RFC 3339 time, or `all` (implies --all)
    #[arg(long, value_name = "TIME", value_parser = Since::parse)]
    since: Option<Since>,
    /// At most this many rows
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Only sessions of this agent (repeatable)
    #[arg(long, value_name = "NAME", value_parser = super::adapter_names())]
    adapter: Vec<String>,
    /// Only this status (running, waiting, idle, stopped, unknown) or outcome (completed, failed, interrupted, died); repeatable
    #[arg(long, value_name = "WORD", value_parser = status_words(), hide_possible_values = true)]
    status: Vec<StatusFilter>,
    /// Only sessions launched as this group
    #[arg(long, value_name = "GROUP", add = ArgValueCompleter::new(complete::groups))]
    group: Option<String>,
    /// Only sessions that work in this folder or below
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    cwd: Option<PathBuf>,
    /// Sub-agents and forks under their parents
    #[arg(long)]
    tree: bool,
    /// Sub-agents as rows of their own
    #[arg(long)]
    all_agents: bool,
    /// Tokens (in/out) and cost, even where whole conversations must be read for them
    #[arg(long)]
    usage: bool,
    /// Order of the rows
    #[arg(long, value_name = "BY", value_parser = sorts(), default_value = Sort::default().as_str())]
    sort: Sort,
    /// Only ids, one per line
    #[arg(short, long, conflicts_with_all = ["json", "watch"])]
    quiet: bool,
    /// Only these columns, in this order
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', value_parser = columns(), conflicts_with_all = ["json", "quiet"])]
    columns: Vec<ListColumn>,
    /// Each session as this template says; see below
    #[arg(long, visible_alias = "template", value_name = "TEMPLATE", value_parser = Template::parse, conflicts_with_all = ["json", "quiet", "columns", "watch", "tree"])]
    format: Option<Template>,
    /// Keep the list up to date until Ctrl-C; into a pipe, print what changes
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    hosts: HostArgs,
    /// One JSON object: asOf, host, sessions, sources, hosts
    #[arg(long)]
    json: bool,
    /// Exit with 6 when some source could not be heard completely
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    let link = Link::open(surroundings)?;
    if let Some(roster) = args.hosts.roster(surroundings)? {
        return args.over_hosts(&roster, &link, surroundings, out);
    }
    if let Some(typed) = &args.group {
        group::meant(typed, &link.fleet)?;
    }
    if args.watch {
        return watch::run(args, &link, surroundings, out);
    }
    let query = args.query(surroundings);
    if args.json
        && !out.is_terminal()
        && let Some(written) = link.list_written(&query)
    {
        out.write_all(&written.body)?;
        out.write_all(b"\n")?;
        return Ok(args.end(&written.sources, &link, surroundings, out));
    }
    let listing = link.list(&query);
    args.print(&listing, &link.fleet, surroundings, out)?;
    let exit = args.end(&listing.sources, &link, surroundings, out);
    // The process ends here, so ten thousand rows need not be freed one by one.
    std::mem::forget(listing);
    Ok(exit)
}

/// The values of `--status`. Tables print "done", so it is accepted too.
fn status_words() -> impl TypedValueParser<Value = StatusFilter> {
    let statuses = Status::ALL.map(|status| (status.as_str(), "status"));
    let outcomes = Outcome::ALL.map(|outcome| (outcome.as_str(), "how the last turn ended"));
    let words = statuses.into_iter().chain(outcomes).map(|(word, help)| PossibleValue::new(word).help(help));
    let done = PossibleValue::new("done").help("the same as completed");
    PossibleValuesParser::new(words.chain(std::iter::once(done))).try_map(|word| StatusFilter::parse(&word))
}

/// The values of `--columns`.
fn columns() -> impl TypedValueParser<Value = ListColumn> {
    let words = ListColumn::ALL.map(|column| PossibleValue::new(column.word));
    let words = words.into_iter().chain(std::iter::once(PossibleValue::new("adapter").hide(true)));
    PossibleValuesParser::new(words).try_map(|word| ListColumn::parse(&word))
}

/// The values of `--sort`.
fn sorts() -> impl TypedValueParser<Value = Sort> {
    let words = Sort::ALL.map(|sort| PossibleValue::new(sort.as_str()).help(sort.help()));
    PossibleValuesParser::new(words).try_map(|word| Sort::parse(&word))
}

impl Args {
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    pub(crate) fn strict(&self) -> bool {
        self.strict
    }

    fn wanted(&self) -> Wanted {
        Wanted::listed(self.all, self.since, &self.status)
    }

    fn end(
        &self,
        sources: &[SourceReport],
        link: &Link,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Exit {
        coverage::warn_unread(&self.adapter, &link.fleet, out);
        coverage::warn(sources, surroundings, out);
        coverage::exit(sources, self.strict, surroundings)
    }

    /// The list of this machine and others, or of others alone.
    fn over_hosts(
        &self,
        roster: &Roster,
        link: &Link,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Exit, Failure> {
        let asked = self.hosts.asked(roster, link.fleet.host())?;
        if self.watch {
            return watch::run_over_hosts(self, (roster, &asked), link, surroundings, out);
        }
        let listing = roster.list(&asked, self.query(surroundings), link);
        self.print(&listing, &link.fleet, surroundings, out)?;
        host_args::warn(&listing.hosts, out);
        let local: Vec<SourceReport> =
            listing.sources.iter().filter(|source| source.host == link.fleet.host()).cloned().collect();
        let exit = self.end(&local, link, surroundings, out);
        Ok(exit.or_worse(host_args::exit(&listing.hosts, self.strict)))
    }

    pub(crate) fn query(&self, surroundings: &Surroundings) -> Query {
        let filter = ListFilter {
            statuses: self.status.clone(),
            group: self.group.clone(),
            folders: self.folders(surroundings),
            sort: self.sort,
            limit: self.limit,
        };
        Query {
            usage: self.usage,
            subagents: self.tree || self.all_agents,
            adapters: self.adapter.clone(),
            // Who watches would start it again and again.
            asks_agents: (self.all || self.since.is_some()) && !self.watch,
            filter,
            ..Query::new(self.wanted())
        }
    }

    fn folders(&self, surroundings: &Surroundings) -> Vec<PathBuf> {
        self.cwd.iter().flat_map(|given| surroundings.meant_folders(given)).collect()
    }

    fn print<S: AsRef<Session> + Sync>(
        &self,
        listing: &Listing<S>,
        fleet: &Fleet,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<(), Failure> {
        if self.json {
            return print_json(listing, surroundings, out);
        }
        if let Some(template) = &self.format {
            for line in template.lines(listing.sessions.iter().map(AsRef::as_ref)) {
                writeln!(out, "{line}")?;
            }
            return Ok(());
        }
        if self.quiet {
            for session in listing.sessions.iter().map(AsRef::as_ref) {
                writeln!(
                    out,
                    "{}",
                    agentctl_model::text::one_line(&host_args::full_id(session, &listing.hosts))
                )?;
            }
            return Ok(());
        }
        // A question about particular agents, other machines or the past says nothing about the whole of this machine.
        let is_about_this_machine = self.adapter.is_empty()
            && surroundings.replay.is_none()
            && listing.hosts.iter().all(|host| host.via == Road::Local);
        if is_about_this_machine && listing.sessions.is_empty() && welcome::is_empty_machine(listing) {
            return welcome::print(fleet, surroundings, out);
        }
        for line in self.lines(listing, surroundings, out) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// The list as a person sees it.
    pub(crate) fn lines<S: AsRef<Session>>(
        &self,
        listing: &Listing<S>,
        surroundings: &Surroundings,
        out: &Output,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if listing.sessions.is_empty() {
            let unheard = listing.hosts.iter().any(|host| host.coverage == CoverageKind::Failed);
            lines.push(if unheard { NOT_ALL_HEARD.to_owned() } else { self.nothing() });
        } else {
            let rows = if self.tree { rows::tree(&listing.sessions) } else { rows::flat(&listing.sessions) };
            let view = View {
                now: listing.as_of,
                hosts: &listing.hosts,
                home: surroundings.home.as_deref(),
                usage: self.usage,
                whole: out.is_unbounded(),
                columns: Some(self.columns.as_slice()).filter(|columns| !columns.is_empty()),
            };
            let table = table(&rows, &view);
            let table = if self.watch { table.within_the_screen() } else { table };
            lines = table.lines(out.width(), out.paint);
        }
        if listing.left_out > 0 {
            lines.push(out.paint.dim(&format!("{} more not shown (--limit)", listing.left_out)));
        }
        match listing.strays {
            0 => {}
            1 => lines.push(
                out.paint.dim("1 live agent process belongs to no stored session (see `agentctl doctor`)"),
            ),
            n => lines.push(out.paint.dim(&format!(
                "{n} live agent processes belong to no stored session (see `agentctl doctor`)"
            ))),
        }
        lines
    }

    fn nothing(&self) -> String {
        let narrowed = !self.adapter.is_empty()
            || !self.status.is_empty()
            || self.group.is_some()
            || self.cwd.is_some()
            || self.limit == Some(0);
        let ever = self.since == Some(Since::Ever);
        let words = match (self.wanted() != Wanted::Live, narrowed) {
            (false, false) => "no live sessions; `agentctl list -a` also shows stopped ones",
            (false, true) => "no live session fits; `agentctl list -a` also shows stopped ones",
            (true, false) if ever => "no sessions are stored",
            (true, true) if ever => "no session fits; fewer filters show more",
            (true, false) => "no sessions in this time; `agentctl list --since all` looks further back",
            (true, true) => "no session fits; fewer filters, or `--since all`, show more",
        };
        words.to_owned()
    }
}

/// What is said instead of "no sessions": a machine that was not heard may have some.
const NOT_ALL_HEARD: &str = "no session was heard of, and not every machine was heard";

/// Prints the whole answer on one line, or indented for a person.
fn print_json<S: AsRef<Session> + Sync>(
    listing: &Listing<S>,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<(), Failure> {
    let host = surroundings.host();
    if out.is_terminal() {
        return json::answer(out, &listing.answer(&host));
    }
    listing.write(&host, out)?;
    Ok(out.write_all(b"\n")?)
}
