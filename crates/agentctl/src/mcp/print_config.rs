//! The lines that add the server to an agent. They are printed, and nothing is written.

use std::path::Path;

use serde_json::{Value, json};

use super::rights::Rights;

/// An agent that takes MCP servers from a config of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    ClaudeCode,
    Codex,
    Opencode,
    Gemini,
    Qwen,
    Copilot,
    Kimi,
}

/// What is added, and where it belongs.
pub(crate) struct Lines {
    pub(crate) text: String,
    pub(crate) place: String,
}

pub(crate) fn lines(client: Client, program: &Path, rights: &Rights) -> Lines {
    let program = program.to_string_lossy().into_owned();
    let mut args = vec!["mcp".to_owned()];
    if !rights.allowed.is_empty() {
        let allowed: Vec<String> = rights.allowed.iter().map(ToString::to_string).collect();
        args.extend(["--allow".to_owned(), allowed.join(",")]);
    }
    if rights.allow_self {
        args.push("--allow-self".to_owned());
    }
    let servers = |server: Value| indented(&json!({"mcpServers": {"agentctl": server}}));
    let usual = || servers(json!({"command": program, "args": args}));
    let (text, place) = match client {
        Client::ClaudeCode => {
            let words = [vec![program.clone()], args.clone()].concat();
            let command: Vec<String> =
                words.iter().map(|word| agentctl_model::text::shell_word(word)).collect();
            let place = format!(
                "a file for `claude --mcp-config FILE`, or .mcp.json; or instead: claude mcp add agentctl -- {}",
                command.join(" ")
            );
            (usual(), place)
        }
        Client::Codex => {
            let text =
                format!("[mcp_servers.agentctl]\ncommand = {}\nargs = {}", json!(program), json!(args));
            (text, "~/.codex/config.toml".to_owned())
        }
        Client::Opencode => {
            let command = [vec![program], args].concat();
            let server = json!({"type": "local", "command": command, "enabled": true});
            (indented(&json!({"mcp": {"agentctl": server}})), "opencode.json".to_owned())
        }
        Client::Gemini => (usual(), "~/.gemini/settings.json".to_owned()),
        Client::Qwen => (usual(), "~/.qwen/settings.json".to_owned()),
        Client::Kimi => (usual(), "~/.kimi/mcp.json".to_owned()),
        Client::Copilot => {
            let server = json!({"type": "local", "command": program, "args": args, "tools": ["*"]});
            (servers(server), "~/.copilot/mcp-config.json".to_owned())
        }
    };
    Lines { text, place }
}

fn indented(value: &Value) -> String {
    format!("{value:#}")
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::mcp::Right;

    #[test]
    fn every_snippet_names_the_program_and_the_rights() {
        let rights = Rights { allowed: vec![Right::Launch, Right::Stop], allow_self: true };
        for client in Client::value_variants() {
            let lines = lines(*client, Path::new("/opt/a b/agentctl"), &rights);
            assert!(lines.text.contains("\"/opt/a b/agentctl\""), "{}", lines.text);
            for word in ["\"mcp\"", "\"launch,stop\"", "\"--allow-self\""] {
                assert!(lines.text.contains(word), "{word}: {}", lines.text);
            }
            if *client == Client::Codex {
                let parsed: toml::Value = toml::from_str(&lines.text).unwrap();
                assert_eq!(parsed["mcp_servers"]["agentctl"]["args"][0].as_str(), Some("mcp"));
            } else {
                serde_json::from_str::<Value>(&lines.text).unwrap();
            }
        }
    }
}
