//! `session/list`: the survey, page by page.

use std::path::PathBuf;

use agentctl_fleet::{ListFilter, Query, Since, Sort, Wanted};
use agentctl_model::{Error, Session, text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Office;
use crate::cli::host_args::full_id;
use crate::failure::Failure;
use crate::link::Link;

const PAGE: usize = 100;
/// How much of a prompt is a title.
const TITLE: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub(super) struct ListRequest {
    cwd: Option<PathBuf>,
    cursor: Option<String>,
}

pub(super) fn list(office: &Office, request: ListRequest) -> Result<Value, Error> {
    let start: usize = match request.cursor.as_deref() {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| Error::usage("this cursor is not one of ours"))?,
    };
    let surroundings = office.surroundings();
    let link = Link::open(&surroundings).map_err(Failure::into_error)?;
    let filter = ListFilter {
        folders: request.cwd.into_iter().collect(),
        sort: Sort::Updated,
        ..ListFilter::default()
    };
    let query = Query { filter, ..Query::new(Wanted::All { since: Since::Ever }) };
    let roster = office.hosts.roster(&surroundings).map_err(Failure::into_error)?;
    let (rows, total) = if let Some(roster) = roster {
        let asked = office.hosts.asked(&roster, &agentctl_fleet::own_name()).map_err(Failure::into_error)?;
        let listing = roster.list(&asked, query, &link);
        let page = listing.sessions.iter().skip(start).take(PAGE);
        let page: Vec<Value> = page.map(|session| row(&full_id(session, &listing.hosts), session)).collect();
        (page, listing.sessions.len())
    } else {
        let listing = link.list(&query);
        let page = listing.sessions.iter().skip(start).take(PAGE);
        (page.map(|found| row(&found.session.id, &found.session)).collect(), listing.sessions.len())
    };
    let next = start + rows.len();
    let cursor = (next < total).then(|| next.to_string());
    Ok(json!({"sessions": rows, "nextCursor": cursor}))
}

fn row(id: &str, session: &Session) -> Value {
    let title = session.name.as_deref().or(session.prompt.as_deref());
    let title = title.map(|title| text::one_line(title).chars().take(TITLE).collect::<String>());
    json!({
        "sessionId": id,
        // The protocol wants a folder for every session.
        "cwd": session.cwd.as_deref().filter(|cwd| cwd.starts_with('/')).unwrap_or("/"),
        "title": title,
        "updatedAt": session.updated_at,
        "_meta": {"agentctl": {
            "adapter": session.adapter, "host": session.host, "status": session.status, "outcome": session.outcome,
        }},
    })
}
