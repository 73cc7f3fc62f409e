//! How Copilot is started, resumed and stopped. Pure.

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, Intent, Process, Session, SpawnPlan, StopWay,
};

use super::Copilot;
use crate::control::known_id::known_id;
use crate::control::permission::Modes;
use crate::control::refusal::{no_fork, no_system_prompt};
use crate::control::stdout::{newest_first, words_at};
use crate::control::{Control, on_screen, with_prompt_on_stdin};
use crate::hold::HoldPlan;
use crate::hold::acp::agent::COPILOT;
use crate::hold::acp::plan::AcpCommand;

const NAME: &str = "Copilot";
const PROGRAM: &str = "copilot";
/// Allowing all tools would still deny commands that name a path outside of the directory.
const MODES: Modes = Modes { plan: "--plan", accept_edits: "--allow-tool=write", bypass: "--allow-all" };

/// The arguments that every start shares, after the first ones.
fn arguments(intent: &Intent, first: &[&str]) -> Result<Vec<String>, Error> {
    if intent.system_prompt.is_some() {
        return Err(no_system_prompt(NAME, "the AGENTS.md"));
    }
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    match &intent.conversation {
        Conversation::New => args.push(format!("--session-id={}", intent.fresh_id)),
        // `--session-id` would begin a new session if this one no longer exists.
        Conversation::Stored { id, .. } => args.push(format!("--resume={id}")),
        Conversation::ForkOf { .. } => return Err(no_fork(NAME)),
    }
    if let Some(model) = &intent.model {
        args.push(format!("--model={model}"));
    }
    // A run without a person denies everything that needs approval, also in plan mode.
    args.extend(MODES.of(intent.permission).map(str::to_owned));
    args.extend(intent.more.iter().cloned());
    Ok(args)
}

impl Control for Copilot {
    /// Without `-p` the agent reads the prompt from a stdin that is not a terminal.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let args = arguments(intent, &["--output-format", "json"])?;
        Ok(with_prompt_on_stdin(PROGRAM, args, intent, known_id(intent)))
    }

    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let mut args = arguments(intent, &[])?;
        args.push(format!("--interactive={}", intent.words));
        on_screen(PROGRAM, args, intent, known_id(intent), NAME)
    }

    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let command = AcpCommand {
            title: NAME,
            program: PROGRAM,
            args: &["--acp"],
            env: &[],
            agent: COPILOT,
            instructions: "the AGENTS.md",
        };
        command.hold(intent)
    }

    /// An error after the last reply is the reason for the exit.
    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let last = newest_first(said.stdout)
            .find(|event| event["type"] == "session.error" || event["type"] == "assistant.message")?;
        words_at(&last, "/data/message").filter(|_| last["type"] == "session.error")
    }

    /// The agent records that the turn was aborted and ends its tools within 0.1 s. The notes of its process
    /// remain, as they do after a kill.
    fn stop_way(&self, _session: &Session, _process: &Process) -> StopWay {
        StopWay::Signal(CleanSignal::Terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_after_the_last_reply_is_the_complaint() {
        let complaint = |stdout: &str| Copilot.complaint(FirstWords { stdout, stderr: "" });
        let error = concat!(
            r#"{"type":"session.error","data":{"errorType":"authentication","#,
            r#""message":"Authentication failed (HTTP 401).","statusCode":401}}"#
        );
        let end = r#"{"type":"result","sessionId":"e934c217","exitCode":1}"#;
        let reply = r#"{"type":"assistant.message","data":{"content":"All done","toolRequests":[]}}"#;
        assert_eq!(
            complaint(&format!("{error}\n{end}\n")).as_deref(),
            Some("Authentication failed (HTTP 401).")
        );
        assert_eq!(complaint(&format!("{error}\n{reply}\n{end}\n")), None, "it went on");
        assert_eq!(complaint(end), None);
    }
}
