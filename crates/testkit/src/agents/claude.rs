//! Claude Code in a [`TestHome`], talking to a fake model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::pty::Pty;
use crate::skip::Skip;

/// The agent stores an approved key by its last 20 characters, so this one is longer.
pub const KEY: &str = "sk-ant-testkit-0123456789abcdefghijklmnopqrstuvwxyz";

/// Claude Code, set up in one home.
pub struct Claude {
    executable: PathBuf,
}

impl Claude {
    /// Makes Claude Code usable in `home`, for `agentctl` as well as for the methods below: it is on the `PATH` as `claude`,
    /// uses the fake model, asks no first-run questions, and sends nothing to other servers.
    pub fn settle(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let executable = agents::claude()?;
        home.put_on_path("claude", &executable);
        for (name, value) in [("ANTHROPIC_BASE_URL", model_url), ("ANTHROPIC_API_KEY", KEY)] {
            home.set_env(name, value);
        }
        let switches = [
            "DISABLE_TELEMETRY",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            // This allows root to skip permissions, and tests often run as root.
            "IS_SANDBOX",
        ];
        for switch in switches {
            home.set_env(switch, "1");
        }
        edit_settings(home, |settings| {
            settings["hasCompletedOnboarding"] = json!(true);
            settings["customApiKeyResponses"] = json!({"approved": [&KEY[KEY.len() - 20..]], "rejected": []});
        });
        Ok(Self { executable })
    }

    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// Runs `claude -p` with the prompt on stdin and stream-json on stdout. Put a permission mode into `extra`.
    pub fn headless(
        &self,
        home: &TestHome,
        cwd: &Path,
        session_id: &str,
        prompt: &str,
        extra: &[&str],
    ) -> Background {
        let mut command = self.command(home, cwd, session_id, extra);
        command.args(["-p", "--output-format", "stream-json", "--verbose"]);
        Background::spawn_with_input(home, command, prompt)
    }

    /// Runs `claude` in a terminal, with its directory trusted.
    pub fn interactive(&self, home: &TestHome, cwd: &Path, session_id: &str, extra: &[&str]) -> Pty {
        trust(home, cwd);
        Pty::spawn(&self.command(home, cwd, session_id, extra))
    }

    /// The agent's note about a live process, `~/.claude/sessions/<pid>.json`; `None` while it is missing or incomplete.
    pub fn registry(home: &TestHome, pid: u32) -> Option<Value> {
        let path = home.path().join(format!(".claude/sessions/{pid}.json"));
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    fn command(&self, home: &TestHome, cwd: &Path, session_id: &str, extra: &[&str]) -> Command {
        let mut command = home.command(&self.executable);
        command.args(["--session-id", session_id]).args(extra).current_dir(cwd);
        command
    }
}

/// Answers the trust question for `cwd` in advance. Call it before a session starts there.
pub fn trust(home: &TestHome, cwd: &Path) {
    let cwd = fs::canonicalize(cwd).unwrap_or_else(|error| panic!("resolve {}: {error}", cwd.display()));
    edit_settings(home, |settings| {
        settings["projects"][cwd.to_string_lossy().as_ref()] =
            json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
    });
}

fn edit_settings(home: &TestHome, edit: impl FnOnce(&mut Value)) {
    let path = home.path().join(".claude.json");
    let mut settings = match fs::read(&path) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("parse {}: {e}", path.display()))
        }
        Err(_) => json!({}),
    };
    edit(&mut settings);
    fs::write(&path, settings.to_string()).unwrap_or_else(|e| panic!("write {}: {e}", path.display()));
}
