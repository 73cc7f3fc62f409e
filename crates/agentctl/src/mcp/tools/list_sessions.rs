//! `list_sessions`: what `agentctl list` shows, in few words.

use std::path::PathBuf;

use agentctl_fleet::{ListFilter, Listing, Query, StatusFilter, Wanted};
use agentctl_model::text::counted;
use agentctl_model::text::period::Since;
use agentctl_model::{CoverageKind, Error, HostReport, Session, SourceReport};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Card, Request, Told, TypedTool};
use crate::cli::host_args::full_id;
use crate::link::Link;
use crate::mcp::desk::Desk;
use crate::mcp::row::{SessionRow, line};

const USUAL: usize = 20;
const MOST: usize = 200;

pub(super) struct ListSessions;

/// Which sessions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Takes {
    /// Also stopped sessions of the last 7 days.
    #[serde(default)]
    all: bool,
    /// How far back stopped sessions are shown: 30d, 12h, an RFC 3339 time, or all.
    since: Option<String>,
    /// Only sessions of this agent.
    adapter: Option<String>,
    /// Only this status (running, waiting, idle, stopped, unknown) or outcome (completed, failed, interrupted, died).
    status: Option<String>,
    /// Only sessions launched as this group.
    group: Option<String>,
    /// Only sessions that work in this folder or below.
    cwd: Option<PathBuf>,
    /// Sessions of this machine of the config, `local`, or `all`; without it of the one that the config names, else here.
    host: Option<String>,
    /// Sub-agents as rows of their own.
    #[serde(default)]
    all_agents: bool,
    /// At most this many rows: 20, and never more than 200.
    limit: Option<usize>,
    /// Leave out this many of the first rows, to page on.
    before: Option<usize>,
}

/// The sessions, who waits first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    as_of: Timestamp,
    sessions: Vec<SessionRow>,
    /// How many more there are behind these; `before` pages on.
    left_out: usize,
    /// Sources that could not be heard completely: nothing is known of the sessions that are missing there.
    not_heard: Vec<Unheard>,
}

fn list(
    desk: &Desk,
    link: &Link,
    host: Option<String>,
    query: Query,
) -> Result<Listing<Box<Session>>, Error> {
    if let Some((roster, asked)) = desk.machines(host)? {
        return Ok(roster.list(&asked, query, link));
    }
    let Listing { as_of, sessions, left_out, sources, hosts, strays } = link.list(&query);
    let sessions = sessions.into_iter().map(|surveyed| surveyed.session).collect();
    Ok(Listing { as_of, sessions, left_out, sources, hosts, strays })
}

/// A source, or a whole machine, that could not be heard completely.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unheard {
    host: String,
    /// `null`: the whole machine.
    adapter: Option<String>,
    root: Option<String>,
    #[schemars(with = "String")]
    coverage: CoverageKind,
    error: Option<String>,
}

impl Unheard {
    pub(super) fn among(sources: &[SourceReport], hosts: &[HostReport]) -> Vec<Self> {
        let unheard = hosts.iter().filter(|host| host.coverage == CoverageKind::Failed).map(|host| Self {
            host: host.name.clone(),
            adapter: None,
            root: None,
            coverage: host.coverage,
            error: host.error.clone(),
        });
        let incomplete = sources.iter().filter(|source| source.is_incomplete()).map(|source| Self {
            host: source.host.clone(),
            adapter: Some(source.adapter.clone()),
            root: Some(source.root.clone()),
            coverage: source.coverage,
            error: source.error.clone().or_else(|| source.warnings.first().cloned()),
        });
        unheard.chain(incomplete).collect()
    }
}

impl TypedTool for ListSessions {
    const CARD: Card = Card {
        name: "list_sessions",
        title: "List agent sessions",
        about: "Lists coding-agent sessions, whoever started them: live ones, and with `all` stopped ones too; of this \
                machine, or with `host` of others. Each row says what is true now; those that wait for a person come \
                first.",
        needs: None,
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, _request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let _look = desk.look();
        let link = desk.link()?;
        let since = takes.since.as_deref().map(Since::parse).transpose().map_err(Error::usage)?;
        let statuses = takes.status.as_deref().map(StatusFilter::parse).transpose();
        let statuses: Vec<StatusFilter> = statuses.map_err(Error::usage)?.into_iter().collect();
        let wanted = Wanted::listed(takes.all, since, &statuses);
        let folders = takes.cwd.map(|cwd| desk.surroundings().meant(&cwd));
        let query = Query {
            subagents: takes.all_agents,
            adapters: takes.adapter.into_iter().collect(),
            filter: ListFilter {
                statuses,
                group: takes.group,
                folders: folders.into_iter().collect(),
                ..ListFilter::default()
            },
            ..Query::new(wanted)
        };
        let listing = list(desk, &link, takes.host, query)?;
        let limit = takes.limit.unwrap_or(USUAL).min(MOST);
        let skipped = takes.before.unwrap_or(0).min(listing.sessions.len());
        let page = listing.sessions.iter().skip(skipped).take(limit);
        let page: Vec<(String, &Session)> =
            page.map(|session| (full_id(session, &listing.hosts), &**session)).collect();
        let left_out = listing.sessions.len() - skipped - page.len();
        let not_heard = Unheard::among(&listing.sources, &listing.hosts);
        let more = match left_out {
            0 => String::new(),
            more => format!(", {more} more (page on with before: {})", skipped + page.len()),
        };
        let unheard = match not_heard.len() {
            0 => String::new(),
            unheard => format!("; {} not heard completely", counted(unheard, "source was", "sources were")),
        };
        let headline = format!("{}{more}{unheard}", counted(page.len(), "session", "sessions"));
        let lines: Vec<String> = page.iter().map(|(id, session)| line(id, session)).collect();
        let sessions = page.into_iter().map(|(id, session)| SessionRow::of(id, session)).collect();
        let data = Gives { as_of: listing.as_of, sessions, left_out, not_heard };
        Ok(Told { data, headline, body: lines.join("\n") })
    }
}
