//! `answer_request`: what `agentctl approve`, `deny` and `answer` do.

use std::path::PathBuf;

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_fleet::Purpose;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::act::steer::SteerOptions;
use agentctl_model::Error;
use agentctl_model::event::ActionVerb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::launch_session::start_daemon;
use super::{Card, Request, Told, TypedTool};
use crate::failure::Failure;
use crate::mcp::desk::{Desk, Target};
use crate::mcp::rights::Right;
use crate::mcp::row::SessionRow;

pub(super) struct AnswerRequest;

/// Which request, and what is answered.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Takes {
    /// Full id, unique beginning of one, or exact name of the session; on another machine HOST/ID.
    id: String,
    /// Only a session of this agent.
    adapter: Option<String>,
    /// Only a session that works in this folder.
    cwd: Option<PathBuf>,
    /// The id of the request, as `inbox` or `session_status` showed it on this connection.
    request: String,
    decision: Choice,
    /// The answer to a question, or the reason of a denial.
    message: Option<String>,
}

/// What is decided.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Choice {
    /// Allow it once.
    Approve,
    /// Allow it, and what is like it, for the rest of the session.
    ApproveAlways,
    /// Deny it.
    Deny,
    /// Answer the question with `message`.
    Answer,
}

/// What the agent accepted.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Gives {
    id: String,
    adapter: String,
    request: String,
    decision: Choice,
    /// The session as it is afterwards; `null` when it could not be looked at again.
    session: Option<SessionRow>,
}

impl TypedTool for AnswerRequest {
    const CARD: Card = Card {
        name: "answer_request",
        title: "Answer what a session waits for",
        about: "Approves, denies or answers one pending request of a session, by the request's id. The request must have \
                been shown whole on this connection, by inbox or session_status. A session cannot answer its own.",
        needs: Some(Right::Answer),
        ends_work: false,
    };
    type Takes = Takes;
    type Gives = Gives;

    fn run(desk: &Desk, takes: Takes, request: &Request<'_>) -> Result<Told<Gives>, Error> {
        let message = takes.message.filter(|words| !words.trim().is_empty());
        let decision = match (takes.decision, message) {
            (Choice::Approve, None) => Decision::AllowOnce,
            (Choice::ApproveAlways, None) => Decision::AllowAlways,
            (Choice::Deny, reason) => Decision::Deny { reason },
            (Choice::Answer, Some(words)) => Decision::Text(words),
            (Choice::Answer, None) => return Err(Error::usage("an answer needs a `message`")),
            (Choice::Approve | Choice::ApproveAlways, Some(_)) => {
                return Err(Error::usage("an approval takes no `message`"));
            }
        };
        let surroundings = desk.surroundings();
        let fleet = surroundings.fleet().map_err(Failure::into_error)?;
        let target = Target { id: takes.id, adapter: takes.adapter, cwd: takes.cwd };
        let found = desk.find(&target, Purpose::Act, &fleet)?;
        if found.far.is_none() {
            start_daemon(&surroundings);
        }
        let options =
            SteerOptions { asker: Asker::this_process(desk.rights.allow_self), ..SteerOptions::default() };
        let answer = Answer { request: Some(takes.request.clone()), decision };
        let answered = desk
            .require_shown(&found.id(), &takes.request)
            .and_then(|()| found.answer(&fleet, answer, options).map_err(Failure::into_error));
        let asked = desk.asked(request.client.as_deref());
        asked.tell(
            ActionVerb::Answer,
            Some((&found.found.key.adapter, &found.id())),
            &answered,
            &surroundings,
        );
        let receipt = answered?;
        let data = Gives {
            id: found.id(),
            session: receipt.session.as_ref().map(|now| SessionRow::of(found.id(), now)),
            adapter: found.found.key.adapter,
            request: takes.request,
            decision: takes.decision,
        };
        Ok(Told { data, headline: "the agent accepted the answer".to_owned(), body: String::new() })
    }
}
