//! The agents that speak ACP: those that are known by name, and those that the user names.

use std::collections::BTreeMap;
use std::time::Duration;

use agentctl_model::{Error, Intent};

use crate::hold::HoldPlan;
use crate::hold::acp::agent::{
    Agent, CLAUDE_AGENT_ACP, CODEX_ACP, COPILOT, GEMINI, KIMI, OPENCODE, PI_RUST, QWEN, UNKNOWN,
};
use crate::hold::acp::plan::AcpCommand;

/// What every name of such an adapter begins with.
pub const PREFIX: &str = "acp:";

/// How long an agent may take to open a session: fourteen seconds were seen on a busy machine.
pub const OPENING_TIMEOUT: Duration = Duration::from_mins(2);

/// The longest name that a user can give.
const LONGEST_NAME: usize = 64;

/// What agentctl knows of an agent that speaks ACP.
#[derive(Debug)]
struct Known {
    /// With its prefix.
    name: &'static str,
    title: &'static str,
    command: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The adapter that reads the same sessions.
    native: &'static str,
    /// The name by which the agent itself answers.
    answers_as: &'static str,
    agent: Agent,
    /// Versions with which it was seen to work.
    versions: &'static str,
    /// The flag that names the folder of its sessions, if it keeps none without it.
    store_flag: Option<&'static str>,
}

/// Programs that run another one, which is then named by a later word.
const STARTERS: &[&str] = &["npx", "npm", "pnpm", "yarn", "bunx", "bun", "uvx", "node", "env"];

static KNOWN: &[Known] = &[
    Known {
        name: "acp:claude-agent-acp",
        title: "Claude Code over ACP",
        command: &["claude-agent-acp"],
        env: &[],
        native: "claude-code",
        answers_as: "@agentclientprotocol/claude-agent-acp",
        agent: CLAUDE_AGENT_ACP,
        versions: "0.99.0",
        store_flag: None,
    },
    Known {
        name: "acp:codex-acp",
        title: "Codex over ACP",
        command: &["codex-acp"],
        env: &[],
        native: "codex",
        answers_as: "@agentclientprotocol/codex-acp",
        agent: CODEX_ACP,
        versions: "2.6.0",
        store_flag: None,
    },
    Known {
        name: "acp:copilot",
        title: "Copilot over ACP",
        command: &["copilot", "--acp"],
        env: &[],
        native: "copilot",
        answers_as: "Copilot",
        agent: COPILOT,
        versions: "1.0.102",
        store_flag: None,
    },
    Known {
        name: "acp:gemini",
        title: "Gemini CLI over ACP",
        command: &["gemini", "--acp"],
        env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
        native: "gemini",
        answers_as: "gemini-cli",
        agent: GEMINI,
        versions: "0.61.0",
        store_flag: None,
    },
    Known {
        name: "acp:kimi",
        title: "Kimi Code over ACP",
        command: &["kimi", "acp"],
        env: &[("KIMI_CODE_NO_AUTO_UPDATE", "1")],
        native: "kimi",
        answers_as: "Kimi Code CLI",
        agent: KIMI,
        versions: "2.1.0",
        store_flag: None,
    },
    Known {
        name: "acp:opencode",
        title: "OpenCode over ACP",
        command: &["opencode", "acp"],
        env: &[],
        native: "opencode",
        answers_as: "OpenCode",
        agent: OPENCODE,
        versions: "1.18.33",
        store_flag: None,
    },
    Known {
        name: "acp:pi-rust",
        title: "Pi Rust over ACP",
        command: &["pi-rust", "--acp"],
        env: &[],
        native: "pi-rust",
        answers_as: "pi-agent",
        agent: PI_RUST,
        versions: "0.8.0",
        store_flag: Some("--session-dir"),
    },
    Known {
        name: "acp:qwen",
        title: "Qwen Code over ACP",
        command: &["qwen", "--acp"],
        env: &[],
        native: "qwen",
        answers_as: "qwen-code",
        agent: QWEN,
        versions: "0.24.4",
        store_flag: None,
    },
];

/// One agent that speaks ACP over its standard input and output.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    /// With its prefix: `acp:NAME`.
    pub name: String,
    pub title: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The adapter that reads the same sessions, as far as the name and the command say.
    pub native: Option<&'static str>,
    /// How long it may take to open a session.
    pub opening_timeout: Duration,
    /// The user's file names it.
    pub is_configured: bool,
    /// Versions with which it was seen to work; empty if it never was.
    pub known_good: &'static str,
    store_flag: Option<&'static str>,
    agent: Agent,
}

impl AcpAgent {
    fn built_in(known: &'static Known) -> Self {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            name: known.name.to_owned(),
            title: known.title.to_owned(),
            command: known.command.iter().map(|&word| word.to_owned()).collect(),
            env: known.env.iter().map(own).collect(),
            native: Some(known.native),
            opening_timeout: OPENING_TIMEOUT,
            is_configured: false,
            known_good: known.versions,
            store_flag: known.store_flag,
            agent: known.agent,
        }
    }

    /// An agent of which nothing is known.
    fn unknown() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            command: Vec::new(),
            env: BTreeMap::new(),
            native: None,
            opening_timeout: OPENING_TIMEOUT,
            is_configured: true,
            known_good: "",
            store_flag: None,
            agent: UNKNOWN,
        }
    }

    /// An agent that the user's file names. The name of a known one means that one, started in another way; and a
    /// command that starts a known one means it too.
    pub fn configured(name: &str, command: Vec<String>, env: BTreeMap<String, String>) -> Self {
        let known = by_name(name).or_else(|| by_command(&command));
        let mut agent = known.map_or_else(Self::unknown, Self::built_in);
        if by_name(name).is_none() {
            agent.title = format!("{name} over ACP");
        }
        agent.env.extend(env);
        Self { name: format!("{PREFIX}{name}"), command, is_configured: true, ..agent }
    }

    /// How it is started to be held. The words go over the line.
    pub fn hold(&self, intent: &Intent) -> Result<HoldPlan, Error> {
        let store = intent.store.as_deref().and_then(std::path::Path::to_str);
        let store = self.store_flag.zip(store).map(|(flag, store)| [flag, store]);
        let args = self.command.iter().skip(1).map(String::as_str);
        let args: Vec<&str> = args.chain(store.into_iter().flatten()).collect();
        let env: Vec<(&str, &str)> =
            self.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let command = AcpCommand {
            title: &self.name,
            program: self.program(),
            args: &args,
            env: &env,
            agent: self.agent,
            instructions: "the file of instructions",
        };
        command.hold(intent)
    }

    pub fn program(&self) -> &str {
        self.command.first().map(String::as_str).unwrap_or_default()
    }
}

/// The agents that need no configuration.
pub fn built_in() -> Vec<AcpAgent> {
    KNOWN.iter().map(AcpAgent::built_in).collect()
}

/// The names and titles of the agents that need no configuration.
pub fn built_in_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|known| (known.name, known.title))
}

/// The adapter that reads the sessions of an agent that calls itself so.
pub fn native_of(answers_as: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.answers_as == answers_as).map(|known| known.native)
}

/// Checks a name that a user gives, without its prefix.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
        return Err(format!(
            "`{name}` is no name for an agent, expected letters, digits, `-` and `_`, at most {LONGEST_NAME}"
        ));
    }
    Ok(())
}

/// Whether this is the name of such an adapter, known or not.
pub fn is_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|name| check_name(name).is_ok())
}

fn by_name(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.strip_prefix(PREFIX) == Some(name))
}

/// The known agent whose program a command starts: its first word, or the word that a starter runs. A package may carry
/// its scope and its version.
fn by_command(command: &[String]) -> Option<&'static Known> {
    let base = |word: &str| {
        let last = word.rsplit('/').next().unwrap_or(word);
        last.split('@').next().unwrap_or(last).to_owned()
    };
    let starter = command.first().map(|word| base(word)).filter(|word| STARTERS.contains(&word.as_str()));
    let mut words = command.iter().skip(usize::from(starter.is_some()));
    let word = words.find(|word| {
        let is_variable = starter.is_some() && word.contains('=');
        !word.starts_with('-') && !is_variable
    })?;
    let word = base(word);
    KNOWN.iter().find(|known| known.command.first() == Some(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(name: &str, command: &[&str]) -> Option<&'static str> {
        let command = command.iter().map(|&word| word.to_owned()).collect();
        AcpAgent::configured(name, command, BTreeMap::new()).native
    }

    #[test]
    fn a_known_agent_is_known_by_its_name_and_by_its_command() {
        assert_eq!(native("codex-acp", &["/opt/bridge"]), Some("codex"));
        assert_eq!(native("mine", &["/usr/bin/gemini", "--acp"]), Some("gemini"));
        assert_eq!(native("mine", &["npx", "-y", "@agentclientprotocol/codex-acp@2.6.0"]), Some("codex"));
        assert_eq!(native("mine", &["env", "A=b", "kimi", "acp"]), Some("kimi"));
        assert_eq!(native("goose", &["goose", "acp", "--provider", "gemini"]), None);
        assert_eq!(native("mine", &["sh", "-c", "exec gemini --acp"]), None, "it says so itself");
    }

    #[test]
    fn names_are_plain() {
        for name in ["", "a b", "x:y", "a.b", "a/b", "é"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert!(
            check_name("goose-2_x").is_ok() && is_name("acp:goose") && !is_name("goose") && !is_name("acp:")
        );
    }

    #[test]
    fn every_native_adapter_exists() {
        let natives: Vec<&str> = crate::registry().iter().map(|adapter| adapter.card().name).collect();
        for known in KNOWN {
            assert!(natives.contains(&known.native), "{}", known.name);
            assert!(is_name(known.name));
        }
    }
}
