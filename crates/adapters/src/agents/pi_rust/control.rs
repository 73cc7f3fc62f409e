//! How Pi Rust is started, resumed, held and stopped. Pure.
//!
//! Its crate names the program `pi`, like Pi itself, which would misunderstand these flags. So the plan uses
//! the name under which people install it beside Pi; a user with another name sets it in the settings.
//! The id of a new session is in the header that it prints before it calls the model.

use agentctl_model::{
    Conversation, Error, FirstWords, IdSource, Intent, Permission, Process, Session, SpawnPlan, StopWay,
};

use super::PiRust;
use crate::agents::pi;
use crate::control::permission::Modes;
use crate::control::refusal::{named_by_path, names_no_file, no_fork, no_permission_mode};
use crate::control::stdout::{in_order, words_at};
use crate::control::{Control, interrupt_without_a_terminal, on_screen, then_words, with_prompt_on_stdin};
use crate::hold::HoldPlan;
use crate::hold::acp::agent::PI_RUST;
use crate::hold::acp::plan::AcpCommand;

const PROGRAM: &str = "pi-rust";
const NAME: &str = "Pi Rust";
const MODES: Modes =
    Modes { plan: "--plan-mode", accept_edits: "--approval-mode=write", bypass: "--approval-mode=yolo" };

/// The arguments that every start shares, after the first ones, and the id of a stored session.
fn arguments(intent: &Intent, first: &[&str]) -> Result<(Vec<String>, Option<IdSource>), Error> {
    // Text from stdin is treated like an argument, and an argument of this form names a file.
    names_no_file(&intent.words, NAME)?;
    let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
    let id = match &intent.conversation {
        Conversation::New => {
            args.extend(kept(intent)?);
            None
        }
        Conversation::Stored { id, place } => {
            args.extend(["--session".to_owned(), named_by_path(place)?.to_owned()]);
            Some(IdSource::Known(id.clone()))
        }
        Conversation::ForkOf { .. } => return Err(no_fork(NAME)),
    };
    // A run without a person denies everything that needs approval.
    args.extend(MODES.of(intent.permission).map(str::to_owned));
    args.extend(model_and_instructions(intent));
    args.extend(intent.more.iter().cloned());
    Ok((args, id))
}

/// Without this a run with one prompt, and every session over ACP, is kept in memory only.
fn kept(intent: &Intent) -> Result<[String; 2], Error> {
    let unknown = || Error::refused("where Pi Rust keeps its sessions is not known").hint("set HOME");
    let store = intent.store.as_deref().ok_or_else(unknown)?;
    Ok(["--session-dir".to_owned(), named_by_path(store)?.to_owned()])
}

fn model_and_instructions(intent: &Intent) -> impl Iterator<Item = String> {
    let model = intent.model.as_ref().map(|model| format!("--model={model}"));
    let instructions = intent.system_prompt.as_ref().map(|more| format!("--append-system-prompt={more}"));
    model.into_iter().chain(instructions)
}

/// The environment of its tools contains nothing about the session.
impl Control for PiRust {
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let (args, id) = arguments(intent, &["-p", "--mode", "json"])?;
        Ok(with_prompt_on_stdin(PROGRAM, args, intent, id.unwrap_or(IdSource::FirstWords)))
    }

    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        let (args, id) = arguments(intent, &[])?;
        let args = then_words(args, intent);
        on_screen(PROGRAM, args, intent, id.unwrap_or(IdSource::Seen), NAME)
    }

    /// Over ACP it looks at none of the flags for permissions: it asks before each tool that could change something.
    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        if let Some(wanted) = intent.permission.filter(|wanted| *wanted != Permission::Default) {
            return Err(no_permission_mode("a held Pi Rust", wanted, &[Permission::Default]));
        }
        let args: Vec<String> = ["--acp".to_owned()]
            .into_iter()
            .chain(kept(intent)?)
            .chain(model_and_instructions(intent))
            .collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let command = AcpCommand {
            title: NAME,
            program: PROGRAM,
            args: &args,
            env: &[],
            agent: PI_RUST,
            instructions: "",
        };
        command.hold(&Intent { model: None, system_prompt: None, ..intent.clone() })
    }

    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let header = in_order(said.stdout).find(|event| event["type"] == "session")?;
        words_at(&header, "/id")
    }

    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        pi::complaint(said.stdout)
    }

    /// In a run without a terminal an interrupt ends the turn with its tools; every other signal kills it and leaves them.
    fn stop_way(&self, _session: &Session, process: &Process) -> StopWay {
        interrupt_without_a_terminal(pi::is_headless(&process.head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_in_the_header_once_its_line_is_whole() {
        let header = r#"{"type":"session","version":3,"id":"3f0c1a52-7a64","cwd":"/w","provider":"p"}"#;
        let learn = |stdout: &str| PiRust.learn_id(FirstWords { stdout, stderr: "" });
        assert_eq!(
            learn(&format!("{header}\n{{\"type\":\"agent_start\"}}\n")).as_deref(),
            Some("3f0c1a52-7a64")
        );
        assert_eq!(learn(&header[..40]), None);
        assert_eq!(learn(r#"{"type":"agent_start","sessionId":"other"}"#), None);
    }
}
