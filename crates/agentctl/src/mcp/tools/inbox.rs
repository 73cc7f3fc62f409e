//! `inbox`: what `agentctl inbox` shows.

use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::inbox::{A_DAY, InboxItem, InboxKind};
use agentctl_model::text::period::Since;
use agentctl_model::{Error, Pending, text};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list_sessions::Unheard;
use super::{Card, Request, Told, TypedTool};
use crate::cli::host_args::full_id;
use crate::failure::Failure;
use crate::mcp::desk::Desk;
use crate::mcp::row::{SessionRow, line};

const USUAL: usize = 20;
const MOST: usize = 200;

pub(super) struct ShowInbox;

/// What of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// How far back failures of stopped sessions count: 1d.
    since: Option<String>,
    /// Only sessions of this agent.
    adapter: Option<String>,
    /// What waits on this machine of the config, `local`, or `all`; without it on the one that the config names, else here.
    host: Option<String>,
    /// At most this many items: 20, and never more than 200.
    limit: Option<usize>,
    /// Leave out this many of the first, to page on.
    before: Option<usize>,
}

/// What waits for a person, longest first.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gives {
    as_of: Timestamp,
    items: Vec<Item>,
    /// How many more there are behind these.
    left_out: usize,
    /// Sources that could not be heard completely.
    not_heard: Vec<Unheard>,
}

/// One thing that waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    kind: InboxKind,
    since: Option<Timestamp>,
    /// Why it failed, for failures.
    summary: Option<String>,
    /// The requests of the session, whole: `answer_request` takes their ids.
    pending: Vec<Pending>,
    /// Where it can be answered, where no tool can.
    only_in: Option<String>,
    session: SessionRow,
}

impl TypedTool for ShowInbox {
    const CARD: Card = Card {
        name: "inbox",
        title: "What waits for a person",
        about: "Lists what waits for a person over all agents, longest first: approvals, questions, limits, failures. \
                Requests are shown whole, with the id by which they are answered.",
        needs: None,
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, _request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let _look = desk.look();
        let surroundings = desk.surroundings();
        let fleet = surroundings.fleet().map_err(Failure::into_error)?;
        let marks = Marks::of(surroundings.store().map_err(Failure::into_error)?);
        let since = takes.since.as_deref().map(Since::parse).transpose().map_err(Error::usage)?;
        let (since, adapters) = (since.unwrap_or(A_DAY), takes.adapter.into_iter().collect::<Vec<_>>());
        let here = || fleet.inbox(since, adapters.clone(), &marks, surroundings.now());
        let inbox = match desk.machines(takes.host)? {
            None => here(),
            Some((roster, asked)) => roster.inbox(&asked, here, (since, &adapters), &surroundings),
        };
        let limit = takes.limit.unwrap_or(USUAL).min(MOST);
        let skipped = takes.before.unwrap_or(0).min(inbox.items.len());
        let page: Vec<&InboxItem> = inbox.items.iter().skip(skipped).take(limit).collect();
        let left_out = inbox.items.len() - skipped - page.len();
        let id = |item: &InboxItem| full_id(&item.session, &inbox.hosts);
        for item in &page {
            desk.show_requests(&id(item), &item.session);
        }
        let headline = match page.len() {
            0 => "nothing waits for a person".to_owned(),
            1 => "1 item".to_owned(),
            several => format!("{several} items, longest wait first"),
        };
        let body = page.iter().map(|item| paragraph(&id(item), item)).collect::<Vec<_>>().join("\n\n");
        let items = page.into_iter().map(|item| Item {
            kind: item.kind,
            since: item.since,
            summary: item.summary.clone().filter(|_| item.kind == InboxKind::Failure),
            pending: item.session.pending.clone(),
            only_in: item.only_in.clone(),
            session: SessionRow::of(id(item), &item.session),
        });
        let not_heard = Unheard::among(&inbox.sources, &inbox.hosts);
        let items: Vec<Item> = items.collect();
        let data = Gives { as_of: inbox.as_of, items, left_out, not_heard };
        Ok(Told { data, headline, body })
    }
}

/// What is decided about is shown whole.
fn paragraph(id: &str, item: &InboxItem) -> String {
    let mut lines = vec![format!("{}: {}", item.kind.as_str(), line(id, &item.session))];
    if item.kind == InboxKind::Failure {
        lines.extend(item.summary.as_deref().map(text::visible));
    }
    for pending in &item.session.pending {
        let id = pending.id.as_deref().unwrap_or("none");
        let words = pending.summary.as_deref().map(text::visible).unwrap_or_default();
        lines.push(format!("request {id}: {words}"));
    }
    lines.join("\n")
}
