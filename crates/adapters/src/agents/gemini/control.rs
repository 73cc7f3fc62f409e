//! How Gemini CLI is started, resumed and stopped.

use std::path::Path;

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, Intent, Process, Session, SpawnPlan, StopWay,
};
use jiff::{SignedDuration, Timestamp};

use super::storage::minute;
use super::{Gemini, no_file};
use crate::control::known_id::known_id;
use crate::control::permission::Modes;
use crate::control::refusal::{fits_stdin, no_fork, no_system_prompt, nothing_stored};
use crate::control::stdout::{newest_first, words_at};
use crate::control::{Control, flag_with, on_screen, with_prompt_on_stdin};
use crate::hold::HoldPlan;
use crate::hold::acp::agent::GEMINI;
use crate::hold::acp::plan::AcpCommand;

const NAME: &str = "Gemini CLI";
const PROGRAM: &str = "gemini";
const MODES: Modes = Modes { plan: "plan", accept_edits: "auto_edit", bypass: "yolo" };

/// This gives one process instead of two, of which the outer one would swallow every signal.
const ONE_PROCESS: (&str, &str) = ("GEMINI_CLI_NO_RELAUNCH", "true");

/// The arguments that every start shares, after the first ones.
fn arguments(intent: &Intent, first: &[&str]) -> Result<Vec<String>, Error> {
    if intent.system_prompt.is_some() {
        return Err(no_system_prompt(NAME, "the GEMINI.md"));
    }
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    let mut option = |flag: &str, value: &str| args.extend(flag_with(flag, value));
    match &intent.conversation {
        Conversation::New => option("--session-id", &intent.fresh_id),
        Conversation::Stored { id, .. } => option("-r", id),
        Conversation::ForkOf { .. } => return Err(no_fork(NAME)),
    }
    // A run without a person does not offer the model any tools that need approval.
    if let Some(mode) = MODES.of(intent.permission) {
        option("--approval-mode", mode);
    }
    if let Some(model) = &intent.model {
        args.push(format!("--model={model}"));
    }
    args.extend(intent.more.iter().cloned());
    Ok(args)
}

fn in_one_process(plan: SpawnPlan) -> SpawnPlan {
    let (name, value) = ONE_PROCESS;
    SpawnPlan { env: [(name.to_owned(), value.to_owned())].into(), ..plan }
}

impl Control for Gemini {
    /// Without `-p` the agent reads the prompt from a stdin that is not a terminal. In a folder that it does
    /// not trust it exits with its own message; only the user can grant that trust.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        fits_stdin(&intent.words, NAME)?;
        let args = arguments(intent, &["-o", "stream-json"])?;
        Ok(in_one_process(with_prompt_on_stdin(PROGRAM, args, intent, known_id(intent))))
    }

    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let mut args = arguments(intent, &[])?;
        args.push(format!("--prompt-interactive={}", intent.words));
        on_screen(PROGRAM, args, intent, known_id(intent), NAME).map(in_one_process)
    }

    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let command = AcpCommand {
            title: NAME,
            program: PROGRAM,
            args: &["--acp"],
            env: &[ONE_PROCESS],
            agent: GEMINI,
            instructions: "the GEMINI.md",
        };
        command.hold(intent)
    }

    /// Before it looks a session up, it opens a file that is named after the present minute and the id. If the session
    /// already has that file, this ends its history there, so the minute must be over.
    fn hold_not_before(&self, conversation: &Conversation) -> Option<Timestamp> {
        let Conversation::Stored { id, place } = conversation else { return None };
        let entries = agentctl_files::entries(place.parent()?).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let newest = names.filter_map(|name| minute(&name, id)).max()?;
        newest.checked_add(SignedDuration::from_mins(1)).ok()
    }

    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let result = newest_first(said.stdout).find(|event| event["type"] == "result")?;
        words_at(&result, "/error/message").filter(|_| result["status"] == "error")
    }

    /// The agent exits within 0.1 s with code 0, appends nothing, and leaves every tool running, as it does
    /// on an interrupt.
    fn stop_way(&self, _session: &Session, _process: &Process) -> StopWay {
        StopWay::Signal(CleanSignal::Terminate)
    }

    fn can_resume(&self, place: &Path) -> Result<(), Error> {
        if place == no_file() { Err(nothing_stored(NAME)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_is_an_error_is_the_complaint() {
        let complaint = |stdout: &str| Gemini.complaint(FirstWords { stdout, stderr: "" });
        let refused = concat!(
            r#"{"type":"init","session_id":"88063061","model":"auto"}"#,
            "\n",
            r#"{"type":"result","status":"error","error":{"type":"unknown","message":"[API Error: 401]"},"stats":{}}"#,
            "\n",
        );
        assert_eq!(complaint(refused).as_deref(), Some("[API Error: 401]"));
        assert_eq!(complaint(r#"{"type":"result","status":"success","stats":{}}"#), None);
        assert_eq!(complaint(""), None);
    }
}
