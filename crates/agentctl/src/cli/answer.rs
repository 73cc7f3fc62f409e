//! `agentctl approve ID`, `deny ID`, `answer ID TEXT`: what a session waits for is given, where its agent offers a way in.

use agentctl_adapters::Answer;
use agentctl_model::{Surveyed, text};
use clap::builder::NonEmptyStringValueParser;

use super::send;
use super::target::Target;
use crate::exit_codes::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::render::width::cut_end;
use crate::surroundings::Surroundings;

/// Approve what a session waits for, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "`agentctl inbox` shows what waits. Elsewhere the refusal says where to answer.")]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    asked: Asked,
}

/// Deny what a session waits for, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "`agentctl inbox` shows what waits. Elsewhere the refusal says where to answer.")]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    asked: Asked,
}

/// Answer the question that a session waits with, where its agent offers a way in
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentctl answer 5f0c 'the second one'")]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    asked: Asked,
    /// The answer, as you would type it
    #[arg(value_name = "TEXT", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    text: String,
}

#[derive(Debug, clap::Args)]
struct Asked {
    #[command(flatten)]
    target: Target,
    /// As JSON: id, adapter, accepted, session
    #[arg(long)]
    json: bool,
}

pub(crate) fn approve(
    args: &ApproveArgs,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    args.asked.give(Answer::Approve, "the approval", surroundings, out)
}

pub(crate) fn deny(args: &DenyArgs, surroundings: &Surroundings, out: &mut Output) -> Result<Exit, Failure> {
    args.asked.give(Answer::Deny, "the denial", surroundings, out)
}

pub(crate) fn answer(
    args: &AnswerArgs,
    surroundings: &Surroundings,
    out: &mut Output,
) -> Result<Exit, Failure> {
    args.asked.give(Answer::Text(args.text.clone()), "the answer", surroundings, out)
}

impl Asked {
    fn give(
        &self,
        answer: Answer,
        noun: &str,
        surroundings: &Surroundings,
        out: &mut Output,
    ) -> Result<Exit, Failure> {
        let fleet = surroundings.fleet()?;
        let (target, _) = self.target.find(&fleet, surroundings, out)?;
        fleet.answer(&target, answer)?;
        let line = format!("accepted {noun}{}", question(&target));
        let what = cut_end(&line, out.width().saturating_sub(target.key.adapter.len() + 1));
        send::tell(&target, &what, self.json, &fleet, out)
    }
}

/// What it waited for, in its own words.
fn question(target: &Surveyed) -> String {
    let summary = target.session.pending.first().and_then(|pending| pending.summary.as_deref());
    summary.map(|summary| format!(" to {}", text::one_line(summary))).unwrap_or_default()
}
