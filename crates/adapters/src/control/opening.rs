//! The agents' own commands that open a stored session in a terminal. They are data for a person to run: nothing is
//! started here.

use std::path::{Path, PathBuf};

use crate::Card;

/// How to open a session with the agent's own program, in the session's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub argv: Vec<String>,
    /// The variable that names the config root, for a caller whose own environment names another one.
    pub root_variable: Option<(&'static str, PathBuf)>,
}

impl Opening {
    /// `None` for an id that the program would take for something else: ids come from storage.
    pub(crate) fn by_id(card: &Card, id: &str, root: &Path) -> Option<Self> {
        let home = card.home.filter(|_| !card.opened_by.is_empty())?;
        let plain = !id.is_empty() && !id.starts_with('-') && !id.contains(char::is_control);
        let argv = card.opened_by.iter().map(|word| word.replace("ID", id)).collect();
        plain.then(|| Self { argv, root_variable: Some(home.variable_for(root)) })
    }

    /// Opens the session by its file, which is found under every root.
    pub(crate) fn by_file(program: &str, file: &Path) -> Option<Self> {
        let file = file.to_str().filter(|file| file.starts_with('/'))?;
        let argv = [program, "--session", file].map(str::to_owned).to_vec();
        Some(Self { argv, root_variable: None })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Root, registry};

    /// The whole table, as a person would type it.
    #[test]
    fn every_agent_is_opened_with_its_own_words() {
        let mut lines = Vec::new();
        for adapter in registry() {
            let opening = adapter.opening(&Root::at("/r/.agent"), "5f0c-id", "/r/store/file.jsonl".as_ref());
            let words = opening.map(|opening| {
                let variable =
                    opening.root_variable.map(|(name, root)| format!("{name}={} ", root.display()));
                variable.unwrap_or_default() + &opening.argv.join(" ")
            });
            lines.push(format!("{}: {}", adapter.card().name, words.unwrap_or_else(|| "-".to_owned())));
        }
        assert_eq!(
            lines,
            [
                "claude-code: CLAUDE_CONFIG_DIR=/r/.agent claude --resume 5f0c-id",
                "codex: CODEX_HOME=/r/.agent codex resume 5f0c-id",
                "pi: pi --session /r/store/file.jsonl",
                "pi-rust: pi-rust --session /r/store/file.jsonl",
                "opencode: XDG_DATA_HOME=/r opencode --session 5f0c-id",
                "openclaw: -",
                "slate: -",
                "copilot: COPILOT_HOME=/r/.agent copilot --resume=5f0c-id",
                "qwen: QWEN_HOME=/r/.agent qwen --resume 5f0c-id",
                "gemini: GEMINI_CLI_HOME=/r gemini --resume 5f0c-id",
                "kimi: KIMI_CODE_HOME=/r/.agent kimi --session=5f0c-id",
            ]
        );
    }

    #[test]
    fn an_id_that_looks_like_a_flag_opens_nothing() {
        for id in ["", "-p", "--dangerously-skip-permissions", "a\nb", "a\u{1b}[2J"] {
            for adapter in registry() {
                let opening = adapter.opening(&Root::at("/r"), id, "relative".as_ref());
                assert_eq!(opening, None, "{} {id:?}", adapter.card().name);
            }
        }
    }
}
