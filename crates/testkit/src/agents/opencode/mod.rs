//! OpenCode in a [`TestHome`], talking to a fake model.

mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::pty::Pty;
use crate::skip::Skip;

pub use server::Server;

/// The name under which the fake model is configured, as `provider/model`.
pub const MODEL: &str = "fake/fake-model";

/// OpenCode, set up in one home.
pub struct OpenCode {
    executable: PathBuf,
}

impl OpenCode {
    /// Makes the newest pinned OpenCode usable in `home`: it is on the `PATH` as `opencode`, uses the fake model, and sends
    /// nothing to other servers. `permission` is put into its configuration unchanged.
    pub fn settle(home: &mut TestHome, model_url: &str, permission: &Value) -> Result<Self, Skip> {
        Self::settled(agents::opencode()?, home, model_url, permission)
    }

    /// The same for 1.1.65.
    pub fn settle_1_1(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        Self::settled(agents::opencode_1_1()?, home, model_url, &json!("allow"))
    }

    fn settled(
        executable: PathBuf,
        home: &mut TestHome,
        model_url: &str,
        permission: &Value,
    ) -> Result<Self, Skip> {
        home.put_on_path("opencode", &executable);
        let switches = [
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
            "OPENCODE_DISABLE_SHARE",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        ];
        for switch in switches {
            home.set_env(switch, "1");
        }
        let model = |name: &str| {
            json!({"name": name, "limit": {"context": 200_000, "output": 8000},
                   "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}})
        };
        let config = json!({
            "autoupdate": false, "share": "disabled", "model": MODEL, "small_model": MODEL,
            "enabled_providers": ["fake"], "permission": permission,
            "provider": {"fake": {"name": "Fake", "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": format!("{model_url}/v1"), "apiKey": "x"},
                "models": {"fake-model": model("Fake")}}},
        });
        let folder = home.path().join(".config/opencode");
        let write = || {
            fs::create_dir_all(&folder)?;
            fs::write(folder.join("opencode.json"), config.to_string())
        };
        write().map_err(|error| Skip(format!("configure opencode: {error}")))?;
        Ok(Self { executable })
    }

    /// Runs `opencode run` with the prompt on stdin and events as JSON on stdout.
    pub fn run(&self, home: &TestHome, cwd: &Path, prompt: &str, extra: &[&str]) -> Background {
        let mut command = self.command(home, cwd, &["run", "--format", "json", "--title", "a test"]);
        command.args(extra);
        Background::spawn_with_input(home, command, prompt)
    }

    /// Runs `opencode` in a terminal.
    pub fn terminal(&self, home: &TestHome, cwd: &Path, extra: &[&str]) -> Pty {
        Pty::spawn(&self.command(home, cwd, extra))
    }

    /// Starts `opencode serve` on a free port, and returns when it answers.
    pub fn serve(&self, home: &TestHome, cwd: &Path) -> Server {
        Server::start(|port| {
            Background::spawn(home, self.command(home, cwd, &["serve", "--port", &port.to_string()]))
        })
    }

    fn command(&self, home: &TestHome, cwd: &Path, arguments: &[&str]) -> Command {
        let mut command = home.command(&self.executable);
        // A run uses this variable instead of its working directory.
        command.args(arguments).current_dir(cwd).env("PWD", cwd);
        command
    }
}
