//! How Kimi Code is started, resumed and stopped. Pure.

use agentctl_model::{
    CleanSignal, Conversation, Error, FirstWords, IdSource, Intent, Permission, Process, Session, SpawnPlan,
    Stdin, StopWay,
};

use super::Kimi;
use super::storage::is_id;
use crate::control::refusal::{no_fork, no_permission_mode, no_system_prompt};
use crate::control::stdout::{newest_first, words_at};
use crate::control::{Control, fits_an_argument};
use crate::hold::HoldPlan;
use crate::hold::acp::agent::KIMI;
use crate::hold::acp::plan::AcpCommand;

const NAME: &str = "Kimi Code";

/// Nothing in the environment of its tools names the agent or the session.
impl Control for Kimi {
    /// A run with a prompt reads no stdin, decides everything by itself (it refuses `--plan`, `--auto` and
    /// `--yolo`), and resumes a session only in the directory where it began.
    fn plan(&self, intent: &Intent) -> Result<SpawnPlan, Error> {
        if intent.system_prompt.is_some() {
            return Err(no_system_prompt(NAME, "the AGENTS.md"));
        }
        if let Some(wanted) = intent.permission.filter(|wanted| *wanted != Permission::Bypass) {
            return Err(no_permission_mode(NAME, wanted, &[Permission::Bypass]));
        }
        let prompt = format!("--prompt={}", intent.words);
        fits_an_argument(&prompt, NAME)?;
        let mut args = vec!["--output-format=stream-json".to_owned()];
        let id = match &intent.conversation {
            // The agent chooses the id and prints it only at the end.
            Conversation::New => IdSource::Seen,
            Conversation::Stored { id, .. } => {
                args.push(format!("--session={id}"));
                IdSource::Known(id.clone())
            }
            // `kimi fork` copies a session without sending a message; continuing in the copy needs a second
            // command.
            Conversation::ForkOf { .. } => return Err(no_fork(NAME)),
        };
        if let Some(model) = &intent.model {
            args.push(format!("--model={model}"));
        }
        args.extend(intent.more.iter().cloned());
        args.push(prompt);
        Ok(SpawnPlan {
            program: "kimi".to_owned(),
            args,
            // An update would restart the agent in a process that agentctl does not know.
            env: [("KIMI_CODE_NO_AUTO_UPDATE".to_owned(), "1".to_owned())].into(),
            cwd: intent.cwd.clone(),
            stdin: Stdin::Nothing,
            id,
        })
    }

    fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let command = AcpCommand {
            title: NAME,
            program: "kimi",
            args: &["acp"],
            env: &[("KIMI_CODE_NO_AUTO_UPDATE", "1")],
            agent: KIMI,
            instructions: "the AGENTS.md",
        };
        command.hold(intent)
    }

    fn terminal(&self, _intent: &Intent) -> Result<SpawnPlan, Error> {
        Err(Error::refused("Kimi Code takes a prompt in its arguments only without its screen")
            .hint("launch it without --terminal, or with --hold to speak with it"))
    }

    /// Only the agent's last line names the session; it identifies a turn that ended before any survey saw
    /// it.
    fn learn_id(&self, said: FirstWords<'_>) -> Option<String> {
        let hint = newest_first(said.stdout).find(|event| event["type"] == "session.resume_hint")?;
        words_at(&hint, "/session_id").filter(|id| is_id(id))
    }

    /// Extracts `error: failed to run prompt: provider.auth_error: 401 no such key`, which stands before a
    /// remark about a log.
    fn complaint(&self, said: FirstWords<'_>) -> Option<String> {
        let line = said.stderr.lines().rev().find_map(|line| line.strip_prefix("error: "))?;
        Some(line.strip_prefix("failed to run prompt: ").unwrap_or(line).trim().to_owned())
            .filter(|words| !words.is_empty())
    }

    /// A run with a prompt ends its tools and records that the turn was cancelled, with exit code 143. In a
    /// terminal the signal ends the process at once and nothing is recorded; an interrupt has the same
    /// effect.
    fn stop_way(&self, _session: &Session, _process: &Process) -> StopWay {
        StopWay::Signal(CleanSignal::Terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = r#"{"role":"meta","type":"system.version","version":"2.1.0"}"#;

    #[test]
    fn the_last_line_names_the_session() {
        let hint = concat!(
            r#"{"role":"meta","type":"session.resume_hint","session_id":"session_42c216d2-ca3c","#,
            r#""command":"kimi -r session_42c216d2-ca3c","content":"To resume"}"#
        );
        let learn = |stdout: &str| Kimi.learn_id(FirstWords { stdout, stderr: "" });
        let said = format!("{VERSION}\n{{\"role\":\"assistant\",\"content\":\"hello\"}}\n{hint}\n");
        assert_eq!(learn(&said).as_deref(), Some("session_42c216d2-ca3c"));
        assert_eq!(learn(VERSION), None);
        assert_eq!(learn(&said[..said.len() - 5]), None, "half a line");
        assert_eq!(learn(&said.replace("session_42c216d2-ca3c", "../x")), None);
    }

    #[test]
    fn the_error_is_the_complaint() {
        let complaint = |stderr: &str| Kimi.complaint(FirstWords { stdout: VERSION, stderr });
        let refused = "error: failed to run prompt: provider.auth_error: 401 no such key\nSee log: /h/logs/kimi-code.log\n";
        assert_eq!(complaint(refused).as_deref(), Some("provider.auth_error: 401 no such key"));
        assert_eq!(complaint("error: Model cannot be empty.\n").as_deref(), Some("Model cannot be empty."));
        assert_eq!(complaint("hi\n"), None);
    }
}
