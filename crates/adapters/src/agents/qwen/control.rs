//! How Qwen Code is started, resumed and stopped. Pure.

use std::path::Path;

use agentctl_model::{
    Conversation, Error, FirstWords, IdSource, Intent, Process, Session, SpawnPlan, StopWay,
};

use super::processes::is_headless;
use super::{Qwen, is_transcript};
use crate::control::permission::Modes;
use crate::control::refusal::{fits_stdin, no_copy_on_screen, nothing_stored};
use crate::control::stdout::{in_order, newest_first, words_at};
use crate::control::{Control, flag_with, interrupt_without_a_terminal, on_screen, with_prompt_on_stdin};
use crate::hold::HoldPlan;
use crate::hold::acp::agent::QWEN;
use crate::hold::acp::plan::AcpCommand;

const NAME: &str = "Qwen Code";
const PROGRAM: &str = "qwen";
const MODES: Modes = Modes { plan: "plan", accept_edits: "auto-edit", bypass: "yolo" };

/// The arguments that every start shares, after the first ones, and the id if it is known before.
fn arguments(intent: &Intent, first: &[&str]) -> (Vec<String>, Option<IdSource>) {
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    let mut option = |flag: &str, value: &str| args.extend(flag_with(flag, value));
    let id = match &intent.conversation {
        Conversation::New => {
            option("--session-id", &intent.fresh_id);
            Some(IdSource::Known(intent.fresh_id.clone()))
        }
        Conversation::Stored { id, .. } => {
            option("-r", id);
            Some(IdSource::Known(id.clone()))
        }
        // The agent accepts no id for a session that begins as a fork.
        Conversation::ForkOf { id, .. } => {
            option("-r", id);
            None
        }
    };
    // A run without a person denies tools that need approval.
    if let Some(mode) = MODES.of(intent.permission) {
        option("--approval-mode", mode);
    }
    if matches!(intent.conversation, Conversation::ForkOf { .. }) {
        args.push("--fork-session".to_owned());
    }
    if let Some(model) = &intent.model {
        args.push(format!("--model={model}"));
    }
    if let Some(more) = &intent.system_prompt {
        args.push(format!("--append-system-prompt={more}"));
    }
    args.extend(intent.more.iter().cloned());
    (args, id)
}

impl Control for Qwen {
    /// Without a prompt in its arguments the agent reads the prompt from a stdin that is not a terminal, and
    /// appends two line breaks to it.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        fits_stdin(&intent.words, NAME)?;
        let (args, id) = arguments(intent, &["-o", "stream-json"]);
        Ok(with_prompt_on_stdin(PROGRAM, args, intent, id.unwrap_or(IdSource::FirstWords)))
    }

    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let (mut args, id) = arguments(intent, &[]);
        args.push(format!("--prompt-interactive={}", intent.words));
        let id = id.ok_or_else(|| no_copy_on_screen(NAME))?;
        on_screen(PROGRAM, args, intent, id, NAME)
    }

    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let command = AcpCommand {
            title: NAME,
            program: PROGRAM,
            args: &["--acp"],
            env: &[],
            agent: QWEN,
            instructions: "the QWEN.md",
        };
        command.hold(intent)
    }

    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let init =
            in_order(said.stdout).find(|event| event["type"] == "system" && event["subtype"] == "init")?;
        words_at(&init, "/session_id")
    }

    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let result = newest_first(said.stdout).find(|event| event["type"] == "result")?;
        words_at(&result, "/error/message").filter(|_| result["is_error"] == true)
    }

    /// Both signals end its tools and record that they were cancelled; during a tool call an interrupt takes
    /// 0.3 s and a termination 3 s.
    fn stop_way(&self, _session: &Session, process: &Process) -> StopWay {
        interrupt_without_a_terminal(is_headless(&process.head))
    }

    fn can_resume(&self, place: &Path) -> Result<(), Error> {
        if is_transcript(place) { Ok(()) } else { Err(nothing_stored(NAME)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &str = r#"{"type":"system","subtype":"init","uuid":"u","session_id":"35465f95","cwd":"/w"}"#;

    #[test]
    fn a_fork_says_its_id_first() {
        let learn = |stdout: &str| Qwen.learn_id(FirstWords { stdout, stderr: "Ripgrep not available" });
        assert_eq!(learn(&format!("{INIT}\n")).as_deref(), Some("35465f95"));
        assert_eq!(learn(&INIT[..60]), None);
    }

    #[test]
    fn a_result_that_is_an_error_is_the_complaint() {
        let complaint = |stdout: &str| Qwen.complaint(FirstWords { stdout, stderr: "" });
        let result = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"[API Error: 401 no key]"}}"#;
        assert_eq!(complaint(&format!("{INIT}\n{result}\n")).as_deref(), Some("[API Error: 401 no key]"));
        assert_eq!(
            complaint(r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#),
            None
        );
    }
}
