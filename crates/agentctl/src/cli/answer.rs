//! `agentctl approve ID`, `deny ID`, `answer ID TEXT`: answers a pending request of a session, where its
//! agent offers a way in.

use agentctl_adapters::Answer;
use agentctl_adapters::hold::Decision;
use agentctl_fleet::Purpose;
use agentctl_fleet::act::steer::answered;
use agentctl_model::{PendingKind, text};
use clap::builder::NonEmptyStringValueParser;

use super::send::{self, Steering};
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::request;
use crate::surroundings::Surroundings;

/// Approve what a session waits for, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "`agentctl inbox` shows what waits. Elsewhere the refusal says where to answer.")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    options: AnswerOptions,
    /// Allow what is like it too, for the rest of this session
    #[arg(long)]
    always: bool,
}

/// Deny what a session waits for, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "`agentctl inbox` shows what waits. Elsewhere the refusal says where to answer.\n\
    A reason goes with the denial where the agent has a place for it, else as the\n\
    next message.")]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    options: AnswerOptions,
    /// Why, for the agent
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    message: Option<String>,
}

/// Answer the question that a session waits with, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentctl answer 5f0c 'the second one'")]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    options: AnswerOptions,
    /// The answer, as you would type it
    #[arg(value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    text: String,
}

#[derive(Debug, clap::Args)]
struct AnswerOptions {
    #[command(flatten)]
    target: Target,
    /// Which request, by its id, where several wait
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    request: Option<String>,
    #[command(flatten)]
    steering: Steering,
    /// As JSON: id, adapter, request, decision, message, answered, session
    #[arg(long)]
    json: bool,
}

pub(crate) fn approve(
    args: &ApproveArgs,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    let decision = if args.always { Decision::AllowAlways } else { Decision::AllowOnce };
    args.options.give(decision, "the approval", surroundings, out)
}

pub(crate) fn deny(args: &DenyArgs, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    args.options.give(Decision::Deny { reason: args.message.clone() }, "the denial", surroundings, out)
}

pub(crate) fn answer(
    args: &AnswerArgs,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    args.options.give(Decision::Text(args.text.clone()), "the answer", surroundings, out)
}

impl AnswerOptions {
    fn give(
        &self,
        decision: Decision,
        noun: &str,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Exit, Failure> {
        let fleet = surroundings.fleet()?;
        let target = self.target.find(Purpose::Act, &fleet, surroundings, out)?;
        let answer = Answer { request: self.request.clone(), decision };
        let pending = answered(&target.found.session, &answer)?;
        let request = pending.and_then(|pending| pending.summary.as_deref());
        let shown = request.map(|request| request::lines(request, 2, out.width())).unwrap_or_default();
        if !self.json && !shown.is_empty() {
            let id = text::one_line(&target.id());
            let is_question = pending.is_some_and(|pending| pending.kind == PendingKind::Question);
            let asks = if is_question { "asks:" } else { "asks for approval:" };
            let about = format!("{} session {id} {asks}", text::one_line(&target.found.key.adapter));
            out.beside(std::iter::once(about).chain(shown.iter().cloned()));
        }
        let receipt = target.answer(&fleet, answer, self.steering.options())?;
        let to = if shown.is_empty() { "" } else { " of" };
        let what: Vec<String> = std::iter::once(format!("accepted {noun}{to}")).chain(shown).collect();
        send::tell(&target, &what.join("\n"), self.json, &receipt, receipt.session.as_ref(), out)
    }
}
