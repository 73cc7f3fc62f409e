//! The bridges that speak ACP for agents that do not speak it themselves, in a [`TestHome`].

use std::fs;

use crate::agents;
use crate::agents::claude::Claude;
use crate::agents::codex::Codex;
use crate::home::TestHome;
use crate::skip::Skip;

/// Codex and its bridge, which is on the `PATH` as `codex-acp` and starts a Codex of its own.
pub fn codex_acp(home: &mut TestHome, model_url: &str) -> Result<(), Skip> {
    Codex::settle(home, model_url)?;
    bridge(home, "codex-acp")
}

/// Claude Code and its bridge, which is on the `PATH` as `claude-agent-acp` and starts a Claude Code of its own.
pub fn claude_agent_acp(home: &mut TestHome, model_url: &str) -> Result<(), Skip> {
    Claude::settle(home, model_url)?;
    bridge(home, "claude-agent-acp")
}

fn bridge(home: &TestHome, name: &str) -> Result<(), Skip> {
    let installed = agents::install(name)?;
    let program = installed.join("node_modules/.bin").join(name);
    fs::canonicalize(&program).map_err(|error| Skip(format!("{}: {error}", program.display())))?;
    home.put_on_path(name, &program);
    if let Some(node) = agents::own_node(&installed) {
        home.put_on_path("node", &node);
    }
    Ok(())
}
