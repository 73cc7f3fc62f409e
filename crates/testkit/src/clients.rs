//! Clients of MCP and ACP that others wrote, as `tests/tools/clients` pins them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::home::TestHome;
use crate::skip::Skip;
use crate::{agents, cache, tools};

/// The clients that run on Node.
pub struct Clients {
    modules: PathBuf,
    node: PathBuf,
}

impl Clients {
    /// Installs them, unless that was done before.
    pub fn call() -> Result<Self, Skip> {
        let pinned = folder();
        let pins = fs::read(pinned.join("package-lock.json")).expect("read the pins of the clients");
        let installed = cache::kept("clients", &pins, |stage| {
            agents::npm_ci(&pinned, stage)?;
            // The old inspector reads its version from a file that only its whole package has.
            let beside = stage.join("node_modules/@modelcontextprotocol/package.json");
            fs::write(beside, r#"{"name": "inspector", "version": "0.21.2"}"#)
                .context("name the old inspector")
        });
        let installed = installed.map_err(|error| Skip(format!("no clients: {error:#}")))?;
        Ok(Self { modules: installed.join("node_modules"), node: agents::pi_node()? })
    }

    /// The command line of the MCP inspector, which begins without a handshake where the server offers that.
    pub fn inspector(&self, home: &TestHome) -> Command {
        let mut command =
            self.script(home, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        command.arg("--cli").env("MCP_INSPECTOR_SECRET_STORE", "memory");
        command
    }

    /// The last one of the old era.
    pub fn old_inspector(&self, home: &TestHome) -> Command {
        self.script(home, "@modelcontextprotocol/inspector-cli/build/index.js")
    }

    /// The conformance suite of MCP for servers, against an HTTP address.
    pub fn conformance(&self, home: &TestHome) -> Command {
        let mut command = self.script(home, "@modelcontextprotocol/conformance/dist/index.js");
        command.arg("server");
        command
    }

    /// A server on stdio behind an HTTP address, which it prints; see `mcp_bridge.mjs`.
    pub fn bridge(&self, home: &TestHome, program: &Path, arguments: &[&str]) -> Command {
        let mut command = home.command(&self.node);
        command.arg(folder().join("mcp_bridge.mjs")).arg(program).args(arguments);
        command
    }

    /// An editor on ACP, driven by lines of JSON; see `acp_client.mjs`.
    pub fn editor(&self, home: &TestHome, program: &Path, arguments: &[&str]) -> Command {
        let mut command = home.command(&self.node);
        command.arg(folder().join("acp_client.mjs"));
        command.arg(self.modules.join("@agentclientprotocol/sdk/dist/v1/stable/acp.js"));
        command.arg(program).args(arguments);
        command
    }

    fn script(&self, home: &TestHome, path: &str) -> Command {
        let mut command = home.command(&self.node);
        command.arg(self.modules.join(path));
        command
    }
}

/// The MCP client of Python; see `mcp_client.py`.
pub fn python_mcp(home: &TestHome) -> Result<Command, Skip> {
    let installed = tools::python("clients-python", &folder().join("requirements.txt"));
    let installed = installed.map_err(|error| Skip(format!("no MCP client of Python: {error:#}")))?;
    let mut command = home.command(installed.join("bin/python"));
    command.arg(folder().join("mcp_client.py")).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    Ok(command)
}

fn folder() -> PathBuf {
    tools::folder().join("clients")
}
