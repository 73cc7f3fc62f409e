//! `session/list`: the survey, page by page.

use std::path::PathBuf;

use agentctl_fleet::{ListFilter, Query, Since, Sort, Wanted};
use agentctl_model::{Error, Session, text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Office;
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
    let link = Link::open(&office.surroundings()).map_err(Failure::into_error)?;
    let filter = ListFilter {
        folders: request.cwd.into_iter().collect(),
        sort: Sort::Updated,
        ..ListFilter::default()
    };
    let listing = link.list(&Query { filter, ..Query::new(Wanted::All { since: Since::Ever }) });
    let page = listing.sessions.iter().skip(start).take(PAGE);
    let sessions: Vec<Value> = page.map(|surveyed| row(&surveyed.session)).collect();
    let next = start + sessions.len();
    let cursor = (next < listing.sessions.len()).then(|| next.to_string());
    Ok(json!({"sessions": sessions, "nextCursor": cursor}))
}

fn row(session: &Session) -> Value {
    let title = session.name.as_deref().or(session.prompt.as_deref());
    let title = title.map(|title| text::one_line(title).chars().take(TITLE).collect::<String>());
    json!({
        "sessionId": session.id,
        // The protocol wants a folder for every session.
        "cwd": session.cwd.as_deref().filter(|cwd| cwd.starts_with('/')).unwrap_or("/"),
        "title": title,
        "updatedAt": session.updated_at,
        "_meta": {"agentctl": {
            "adapter": session.adapter, "host": session.host, "status": session.status, "outcome": session.outcome,
        }},
    })
}
