//! How Codex is started, resumed and stopped. Making a plan is pure.

use std::collections::BTreeMap;
use std::path::Path;

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, IdSource, Intent, KernelView, Permission, Process, Session,
    SpawnPlan, Stdin, StopWay,
};
use serde_json::Value;

use super::Codex;
use super::processes::{Role, role};
use super::server::held::PrivateAppServer;
use super::server::socket_of;
use super::server::steer::Steered;
use super::storage::{RolloutFile, is_uuid, locks};
use crate::control::refusal::no_copy_on_screen;
use crate::control::{Control, Reached, on_screen, owners, with_prompt_on_stdin};
use crate::hold::HoldPlan;
use crate::{Adapter, Root};

const PROGRAM: &str = "codex";

/// The agent accepts no more characters than this at once. It reports the excess only after it has announced
/// a thread that never begins.
const MOST_WORDS: usize = 1_048_576;

/// The longest possible argument: 128 KiB with its final NUL.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;

/// The arguments that every start shares, after the command. Those of the user precede the positional ones: the id, and
/// the prompt.
fn arguments(intent: &Intent, command: &[&str]) -> Result<Vec<String>, Error> {
    let mut args: Vec<String> = command.iter().map(|&arg| arg.to_owned()).collect();
    // `exec resume` and `exec fork` have no flag for the sandbox; the configuration key works everywhere.
    let mut setting =
        |key: &str, value: &str| args.extend(["-c".to_owned(), format!("{key}={}", toml(value))]);
    match intent.permission {
        None | Some(Permission::Default | Permission::Bypass) => {}
        Some(Permission::Plan) => setting("sandbox_mode", "read-only"),
        Some(Permission::AcceptEdits) => setting("sandbox_mode", "workspace-write"),
    }
    if let Some(more) = &intent.system_prompt {
        setting("developer_instructions", more);
    }
    if intent.permission == Some(Permission::Bypass) {
        args.push("--dangerously-bypass-approvals-and-sandbox".to_owned());
    }
    args.extend(intent.model.iter().map(|model| format!("--model={model}")));
    args.extend(intent.more.iter().cloned());
    if let Some(long) = args.iter().find(|arg| arg.len() > LONGEST_ARGUMENT) {
        let reason = format!(
            "codex takes this as an argument only, which may have {LONGEST_ARGUMENT} bytes: \
             this has {}",
            long.len()
        );
        return Err(Error::refused(reason).hint("put them into AGENTS.md or into the prompt"));
    }
    Ok(args)
}

/// The id of the thread that is continued. A name that matches no thread would silently begin a new one.
fn stored(intent: &Intent) -> Result<Option<String>, Error> {
    match &intent.conversation {
        Conversation::New => Ok(None),
        Conversation::Stored { id, .. } | Conversation::ForkOf { id, .. } if is_uuid(id) => {
            Ok(Some(id.clone()))
        }
        Conversation::Stored { id, .. } | Conversation::ForkOf { id, .. } => {
            Err(Error::refused(format!("{id} is no id of a Codex thread")))
        }
    }
}

impl Control for Codex {
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        self.takes(&intent.words)?;
        let (command, id): (&[&str], _) = match &intent.conversation {
            Conversation::New => (&["exec", "--json"], IdSource::FirstWords),
            Conversation::Stored { id, .. } => (&["exec", "resume", "--json"], IdSource::Known(id.clone())),
            Conversation::ForkOf { .. } => (&["exec", "fork", "--json"], IdSource::FirstWords),
        };
        let mut args = arguments(intent, command)?;
        args.extend(stored(intent)?);
        args.push("-".to_owned());
        Ok(with_prompt_on_stdin(PROGRAM, args, intent, id))
    }

    /// The thread is to live in the process of its screen: the shared server would keep it when the screen is closed.
    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let (command, id): (&[&str], _) = match &intent.conversation {
            Conversation::New => (&["--no-daemon"], IdSource::Seen),
            Conversation::Stored { id, .. } => (&["resume", "--no-daemon"], IdSource::Known(id.clone())),
            Conversation::ForkOf { .. } => return Err(no_copy_on_screen("Codex")),
        };
        let mut args = arguments(intent, command)?;
        args.push("--".to_owned());
        args.extend(stored(intent)?);
        args.push(intent.words.clone());
        on_screen(PROGRAM, args, intent, id, "Codex")
    }

    /// Its own server asks what `codex exec` never asks.
    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        self.takes(&intent.words)?;
        let id = match &intent.conversation {
            Conversation::New | Conversation::ForkOf { .. } => IdSource::FirstWords,
            Conversation::Stored { id, .. } => IdSource::Known(id.clone()),
        };
        let args = std::iter::once("app-server".to_owned()).chain(intent.more.iter().cloned()).collect();
        let spawn = SpawnPlan {
            program: PROGRAM.to_owned(),
            args,
            env: BTreeMap::new(),
            cwd: intent.cwd.clone(),
            stdin: Stdin::Nothing,
            id,
        };
        Ok(HoldPlan::server(spawn, PrivateAppServer::of(intent)))
    }

    /// The first event names the thread.
    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let started = events(said.stdout).find(|event| event["type"] == "thread.started")?;
        started["thread_id"].as_str().filter(|id| is_uuid(id)).map(str::to_owned)
    }

    /// A failed turn gives its reason; an error before it may only announce a retry.
    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let failed =
            |event: &Value| (event["type"] == "turn.failed").then(|| event["error"]["message"].clone());
        let erred = |event: &Value| (event["type"] == "error").then(|| event["message"].clone());
        let words = events(said.stdout).filter_map(|event| failed(&event)).last();
        let words = words.or_else(|| events(said.stdout).filter_map(|event| erred(&event)).last());
        words?.as_str().map(str::to_owned)
    }

    fn stop_way(&self, _session: &Session, process: &Process) -> StopWay {
        match role(&process.head) {
            // The agent records the interruption and ends its commands.
            Role::Run => StopWay::Signal(CleanSignal::Interrupt),
            // A server that others can reach also serves them.
            Role::Server if process.head.option("--listen").is_some() => StopWay::Ask,
            _ => StopWay::Signal(CleanSignal::Terminate),
        }
    }

    /// The owner counts only if it listens on a socket that others can reach.
    fn reach<'s>(&self, root: &Root, kernel: &KernelView, session: &'s Session) -> Reached<'s> {
        let is_server =
            |process: &&Process| role(&process.head) == Role::Server && self.is_ours(root, kernel, process);
        let server = owners(kernel, session).find(is_server);
        let Some(socket) = server.and_then(|server| socket_of(&root.path, server)) else { return Ok(None) };
        Ok(Some(Box::new(Steered::reach(&socket, &session.id)?)))
    }

    fn takes(&self, words: &str) -> Result<(), Error> {
        let count = words.chars().count();
        if count <= MOST_WORDS {
            return Ok(());
        }
        let reason = format!("codex takes {MOST_WORDS} characters at once: this has {count}");
        Err(Error::refused(reason).hint("put the text into a file and name the file in a short prompt"))
    }

    fn can_resume(&self, place: &Path) -> Result<(), Error> {
        if let Some(id) = locks::thread_of(place) {
            return Err(Error::refused(format!(
                "{id} was opened and never used: there is nothing to go on with"
            )));
        }
        match RolloutFile::at(place.to_owned()) {
            Some(rollout) if rollout.archived => Err(Error::refused(format!("{} is archived", rollout.id))
                .hint(format!("`codex unarchive {}` brings it back", rollout.id))),
            _ => Ok(()),
        }
    }
}

/// Parses the complete lines of a run's output as events.
fn events(stdout: &str) -> impl Iterator<Item = Value> {
    let lines = stdout.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// Quotes a text for TOML. JSON uses the same quoting except for one character that TOML requires to be
/// escaped.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
