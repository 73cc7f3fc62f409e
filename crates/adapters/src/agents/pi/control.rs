//! How Pi is started, resumed and stopped. Pure.
//!
//! Pi accepts the id of a new session since 0.76. Older versions exit at once with their own error message
//! about the flag, which a launch then reports; they can still be stopped and resumed.

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, Intent, Permission, Process, Session, SpawnPlan, StopWay,
};

use super::Pi;
use super::protocol::Rpc;
use crate::control::known_id::known_id;
use crate::control::refusal::{named_by_path, names_no_file, no_permission_mode};
use crate::control::stdout::{newest_first, words_at};
use crate::control::{Control, looks_like_a_flag, on_screen, then_words, with_prompt_on_stdin};
use crate::hold::HoldPlan;

impl Pi {
    /// The arguments that a run with its prompt and a held session share, after the first ones.
    fn arguments(&self, intent: &Intent, first: &[&str]) -> Result<Vec<String>, Error> {
        // Pi never requests approval: it allows everything by default, and has no mode between that and no
        // tools at all.
        if let Some(wanted @ (Permission::Plan | Permission::AcceptEdits)) = intent.permission {
            return Err(no_permission_mode("Pi", wanted, &[Permission::Default, Permission::Bypass]));
        }
        let given = [("model", &intent.model), ("system prompt", &intent.system_prompt)];
        if let Some(why) = given.iter().find_map(|(what, value)| self.misfit(what, value.as_deref()?)) {
            return Err(Error::refused(why));
        }
        let mut args: Vec<String> = first.iter().map(|&arg| arg.to_owned()).collect();
        let mut option = |flag: &str, value: &str| args.extend([flag.to_owned(), value.to_owned()]);
        match &intent.conversation {
            Conversation::New => option("--session-id", &intent.fresh_id),
            // The session is named by its file, because in another directory an id means another session, and
            // Pi would silently begin that one.
            Conversation::Stored { place, .. } => option("--session", named_by_path(place)?),
            Conversation::ForkOf { place, .. } => {
                option("--fork", named_by_path(place)?);
                option("--session-id", &intent.fresh_id);
            }
        }
        if let Some(model) = &intent.model {
            option("--model", model);
        }
        if let Some(more) = &intent.system_prompt {
            option("--append-system-prompt", more);
        }
        args.extend(intent.more.iter().cloned());
        Ok(args)
    }
}

impl Control for Pi {
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        Ok(with_prompt_on_stdin(
            "pi",
            self.arguments(intent, &["-p", "--mode", "json"])?,
            intent,
            known_id(intent),
        ))
    }

    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let args = self.arguments(intent, &["--mode", "rpc"])?;
        let spawn = with_prompt_on_stdin("pi", args, intent, known_id(intent));
        Ok(HoldPlan::line(spawn, Rpc::new()))
    }

    fn terminal(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        names_no_file(&intent.words, "Pi")?;
        let args = then_words(self.arguments(intent, &[])?, intent);
        on_screen("pi", args, intent, known_id(intent), "Pi")
    }

    /// Pi does not understand `--model=VALUE`, and recognises some of its flags at any position among the
    /// arguments.
    fn misfit(&self, what: &str, value: &str) -> Option<String> {
        looks_like_a_flag(value).then(|| format!("Pi would take the {what} `{value}` for one of its flags"))
    }

    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        complaint(said.stdout)
    }

    /// An interrupt would end Pi at once and leave its tools running.
    fn stop_way(&self, _session: &Session, _process: &Process) -> StopWay {
        StopWay::Signal(CleanSignal::Terminate)
    }
}

/// With events on its stdout Pi always exits with 0; the agent's last message shows whether the turn failed.
pub(crate) fn complaint(stdout: &str) -> Option<String> {
    let last = newest_first(stdout)
        .find(|event| event["type"] == "message_end" && event["message"]["role"] == "assistant")?;
    words_at(&last, "/message/errorMessage").filter(|_| last["message"]["stopReason"] == "error")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_says_how_it_went() {
        let refused = concat!(
            r#"{"type":"session","version":3,"id":"71073fe4","cwd":"/w"}"#,
            "\n",
            r#"{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#,
            "\n",
            r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"error","#,
            r#""errorMessage":"401: {\"message\":\"no key\"}"}}"#,
            "\n",
            r#"{"type":"agent_settled","aborted":false}"#,
            "\n",
        );
        assert_eq!(complaint(refused).as_deref(), Some(r#"401: {"message":"no key"}"#));
        // Pi retried successfully.
        let healed = format!(
            "{refused}{}\n",
            r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"stop"}}"#
        );
        assert_eq!(complaint(&healed), None);
        assert_eq!(complaint("No API key found for openai.\n"), None, "that is said on stderr");
    }
}
