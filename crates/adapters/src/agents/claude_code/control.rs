//! How Claude Code is started, resumed and stopped. Pure.

use std::collections::BTreeMap;

use agentctl_model::{
    Conversation, Error, FirstWords, IdSource, Intent, Process, Session, SpawnPlan, Stdin, StopWay,
};
use serde_json::Value;

use super::ClaudeCode;
use super::processes::is_headless;
use super::protocol::StreamJson;
use crate::control::known_id::known_id;
use crate::control::permission::Modes;
use crate::control::stdout::newest_first;
use crate::control::{
    Control, flag_with, interrupt_without_a_terminal, on_screen, then_words, with_prompt_on_stdin,
};
use crate::hold::HoldPlan;

const PROGRAM: &str = "claude";
const MODES: Modes = Modes { plan: "plan", accept_edits: "acceptEdits", bypass: "bypassPermissions" };

/// A run with its prompt, and a held session.
const HEADLESS: [&str; 4] = ["-p", "--output-format", "stream-json", "--verbose"];

/// The arguments that every start shares, after the first ones.
fn arguments(intent: &Intent, first: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    let mut option = |flag: &str, value: &str| args.extend(flag_with(flag, value));
    match &intent.conversation {
        Conversation::New => option("--session-id", &intent.fresh_id),
        Conversation::Stored { id, .. } => option("--resume", id),
        Conversation::ForkOf { id, .. } => {
            option("--resume", id);
            option("--session-id", &intent.fresh_id);
        }
    }
    if let Some(model) = &intent.model {
        option("--model", model);
    }
    if let Some(mode) = MODES.of(intent.permission) {
        option("--permission-mode", mode);
    }
    if let Some(more) = &intent.system_prompt {
        option("--append-system-prompt", more);
    }
    if matches!(intent.conversation, Conversation::ForkOf { .. }) {
        args.push("--fork-session".to_owned());
    }
    args.extend(intent.more.iter().cloned());
    args
}

impl Control for ClaudeCode {
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let args = arguments(intent, &HEADLESS);
        Ok(with_prompt_on_stdin(PROGRAM, args, intent, known_id(intent)))
    }

    /// Without the flag for permission requests, which its help does not list, every tool that needs one is refused. The
    /// variable makes it report whether it works.
    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let two_way =
            ["--input-format", "stream-json", "--permission-prompt-tool", "stdio", "--replay-user-messages"];
        let id = known_id(intent);
        let IdSource::Known(session) = &id else {
            return Err(Error::refused("Claude Code is held under an id that is known before"));
        };
        let protocol = StreamJson::new(session.clone(), intent.fresh_id.clone());
        let mut spawn = with_prompt_on_stdin(
            PROGRAM,
            arguments(intent, &[&HEADLESS[..], &two_way].concat()),
            intent,
            id.clone(),
        );
        spawn.env.insert("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".to_owned(), "1".to_owned());
        Ok(HoldPlan::line(spawn, protocol))
    }

    /// In a directory that it does not trust the agent asks first.
    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let args = then_words(arguments(intent, &[]), intent);
        on_screen(PROGRAM, args, intent, known_id(intent), "Claude Code")
    }

    /// Whatever its subtype, the last `result` event describes the error.
    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let result = newest_first(said.stdout).find(|event| event["type"] == "result")?;
        let words = result["result"].as_str().filter(|_| result["is_error"] == true)?;
        Some(words.to_owned())
    }

    /// A background job restarts after it is killed; only the agent's own command ends it for good.
    fn stop_way(&self, session: &Session, process: &Process) -> StopWay {
        let job = session.meta.get("jobId").and_then(Value::as_str);
        // A value read from a file must not become a flag of the command.
        if let Some(job) = job.filter(|job| !job.starts_with('-')) {
            return StopWay::Run(SpawnPlan {
                program: PROGRAM.to_owned(),
                args: vec!["stop".to_owned(), job.to_owned()],
                env: BTreeMap::new(),
                cwd: session.cwd.clone().unwrap_or_else(|| "/".to_owned()).into(),
                stdin: Stdin::Nothing,
                id: IdSource::Known(session.id.clone()),
            });
        }
        // A headless run records an interrupt as an interruption.
        interrupt_without_a_terminal(is_headless(&process.head))
    }
}
