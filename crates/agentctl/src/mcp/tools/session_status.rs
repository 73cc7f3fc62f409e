//! `session_status`: what `agentctl status` shows.

use agentctl_fleet::Purpose;
use agentctl_model::{Error, Session, text};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Card, Request, Told, TypedTool, Which};
use crate::mcp::desk::{Desk, Target};

/// How much of a prompt or a message is shown; `read_messages` shows them whole.
const CUT: usize = 4_000;

pub(super) struct SessionStatus;

/// The session as it is now.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Gives {
    session: Session,
}

impl TypedTool for SessionStatus {
    const CARD: Card = Card {
        name: "session_status",
        title: "Show one session",
        about: "Shows everything about one session as it is now: status, what it waits for (whole, with the ids of its \
                requests), its last message, tokens, cost, processes and the evidence.",
        needs: None,
        ends_work: false,
    };
    type Takes = Which;
    type Gives = Gives;

    fn run(
        desk: &Desk,
        Which { id, adapter, cwd }: Which,
        _request: &Request<'_>,
    ) -> Result<Told<Gives>, Error> {
        let _look = desk.look();
        let found = desk.find(&Target { id, adapter, cwd }, Purpose::Show, &desk.link()?)?;
        desk.show_requests(&found.id(), &found.found.session);
        let mut session = *found.found.session;
        cut(&mut session.prompt);
        cut(&mut session.last_message);
        if let Some(launch) = &mut session.launch {
            cut(&mut launch.prompt);
        }
        let headline = in_words(&session);
        let body = details(&session);
        Ok(Told { data: Gives { session }, headline, body })
    }
}

fn cut(words: &mut Option<String>) {
    if let Some(words) = words
        && let Some((at, _)) = words.char_indices().nth(CUT)
    {
        words.truncate(at);
        words.push('…');
    }
}

/// The status in our own words.
pub(super) fn in_words(session: &Session) -> String {
    let outcome = session.outcome.map(|outcome| format!(", last turn {}", outcome.as_str()));
    let waits = match session.pending.len() {
        0 => String::new(),
        1 => ", waits for 1 answer".to_owned(),
        several => format!(", waits for {several} answers"),
    };
    format!("{}{}{waits}", session.status.as_str(), outcome.unwrap_or_default())
}

fn details(session: &Session) -> String {
    let mut lines = vec![format!("{} session {}", session.adapter, text::one_line(&session.id))];
    let mut line = |label: &str, words: Option<&str>| {
        lines.extend(words.filter(|words| !words.is_empty()).map(|words| format!("{label}: {words}")));
    };
    line("folder", session.cwd.as_deref());
    line("model", session.model.as_deref());
    line("detail", session.status_detail.as_deref());
    line("prompt", session.prompt.as_deref());
    line("last message", session.last_message.as_deref());
    for pending in &session.pending {
        // What is decided about is shown whole.
        let words = pending.summary.as_deref().map(text::visible).unwrap_or_default();
        let id = pending.id.as_deref().unwrap_or("none");
        lines.push(format!("waits, request {id}: {words}"));
    }
    lines.extend(session.evidence.iter().map(|one| format!("because {}: {}", one.source.as_str(), one.fact)));
    lines.join("\n")
}
