//! What programs asked for: who acts on their behalf tells the daemon, and it becomes an event.

use agentctl_model::event::Action;
use agentctl_model::{Event, EventKind, text};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::Body;
use super::sessions::run_blocking;
use super::{App, answer, json};
use crate::serve::problem::Problem;
use crate::serve::server::Peer;

/// The longest words of a program about itself that are passed on.
const LONGEST: usize = 200;

/// The body of `POST /v1/actions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ActionBody {
    /// The agent of the session.
    adapter: Option<String>,
    /// The session that it was done to; `null` if there is none.
    session_id: Option<String>,
    action: Action,
}

/// That it was told.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ActionTold {
    /// The cursor of the event.
    cursor: String,
}

pub(crate) async fn tell(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<ActionBody>,
) -> Result<Response, Problem> {
    if !matches!(peer, Peer::Unix { .. }) {
        return Err(Problem::forbidden("what was asked for is told on the unix socket alone"));
    }
    let short = |words: String| text::clean_cut(&text::one_line(&words), Some(LONGEST));
    let Action { verb, via, client, by, error } = body.action;
    let action = Action {
        verb,
        via: short(via),
        client: client.map(short),
        by: by.map(short),
        error: error.map(short),
    };
    let event = Event {
        adapter: body.adapter.map(short),
        session_id: body.session_id.map(short),
        action: Some(Box::new(action)),
        ..Event::new(EventKind::ActionDone)
    };
    let told = run_blocking(move || {
        let posted = app.hub.post(event);
        app.on_event(&posted);
        json(&ActionTold { cursor: posted.message.cursor.clone() })
    });
    told.await.map(answer)
}
