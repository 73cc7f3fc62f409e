//! How Pi Rust is started, resumed and stopped according to its source (0.8.0); never tried with the real
//! agent. Pure.
//!
//! Its crate names the program `pi`, like Pi itself, which would misunderstand these flags. So the plan uses
//! the name under which people install it beside Pi; a user with another name sets it in the settings.
//! Nothing is written into its folder beforehand: the id is in the header that it prints before it calls the
//! model.

use agentctl_model::{
    Conversation, Error, FirstWords, IdSource, Intent, Process, Session, SpawnPlan, StopWay,
};

use super::PiRust;
use crate::agents::pi;
use crate::control::permission::Modes;
use crate::control::refusal::{named_by_path, names_no_file, no_fork};
use crate::control::stdout::{in_order, words_at};
use crate::control::{Control, interrupt_without_a_terminal, on_screen, then_words, with_prompt_on_stdin};

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
        Conversation::New => None,
        Conversation::Stored { id, place } => {
            args.extend(["--session".to_owned(), named_by_path(place)?.to_owned()]);
            Some(IdSource::Known(id.clone()))
        }
        Conversation::ForkOf { .. } => return Err(no_fork(NAME)),
    };
    if let Some(model) = &intent.model {
        args.push(format!("--model={model}"));
    }
    // A run without a person denies everything that needs approval.
    args.extend(MODES.of(intent.permission).map(str::to_owned));
    if let Some(more) = &intent.system_prompt {
        args.push(format!("--append-system-prompt={more}"));
    }
    args.extend(intent.more.iter().cloned());
    Ok((args, id))
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

    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let header = in_order(said.stdout).find(|event| event["type"] == "session")?;
        words_at(&header, "/id")
    }

    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        pi::complaint(said.stdout)
    }

    /// In a run without a terminal an interrupt ends the turn; the effect of other signals is not known.
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
