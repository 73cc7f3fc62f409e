//! Pi in a [`TestHome`], talking to a fake model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::skip::Skip;

/// The model that `settle` configures, as Pi's flag takes it.
pub const MODEL: &str = "fake/fake-1";

/// Pi, set up in one home.
pub struct Pi {
    executable: PathBuf,
}

impl Pi {
    /// Makes the current Pi usable in `home`: it is on the `PATH` as `pi`, with the Node that it needs, and uses the fake
    /// model.
    pub fn settle(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        Self::settle_version(home, model_url, agents::pi()?)
    }

    /// The same for the last version under Pi's old name.
    pub fn settle_old(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        Self::settle_version(home, model_url, agents::pi_old()?)
    }

    fn settle_version(home: &mut TestHome, model_url: &str, executable: PathBuf) -> Result<Self, Skip> {
        home.put_on_path("pi", &executable);
        home.put_on_path("node", &agents::pi_node()?);
        for (name, value) in [("PI_OFFLINE", "1"), ("PI_SKIP_VERSION_CHECK", "1"), ("PI_TELEMETRY", "0")] {
            home.set_env(name, value);
        }
        write_models(home, model_url);
        Ok(Self { executable })
    }

    /// Runs `pi -p --mode json` with the prompt on stdin.
    pub fn headless(&self, home: &TestHome, cwd: &Path, prompt: &str, extra: &[&str]) -> Background {
        let mut command = self.command(home, cwd, extra);
        command.args(["-p", "--mode", "json"]);
        Background::spawn_with_input(home, command, prompt)
    }

    /// The command `pi` with these arguments, not yet started.
    pub fn command(&self, home: &TestHome, cwd: &Path, extra: &[&str]) -> Command {
        let mut command = home.command(&self.executable);
        command.args(["--model", MODEL]).args(extra).current_dir(cwd);
        command
    }

    /// The id that a run in JSON mode has printed; `None` until then.
    pub fn announced_id(run: &Background) -> Option<String> {
        let stdout = run.stdout();
        let header: Value = serde_json::from_str(stdout.lines().next()?).ok()?;
        Some(header["id"].as_str()?.to_owned()).filter(|_| header["type"] == "session")
    }
}

/// The fake model in the file that Pi and Pi Rust share.
pub(crate) fn write_models(home: &TestHome, model_url: &str) {
    let folder = home.path().join(".pi/agent");
    fs::create_dir_all(&folder).expect("create Pi's folder");
    let cost = json!({"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75});
    let model = json!({"id": "fake-1", "contextWindow": 128_000, "maxTokens": 4096, "cost": cost});
    let provider = json!({"baseUrl": format!("{model_url}/v1"), "apiKey": "k", "api": "openai-completions",
                          "models": [model]});
    let models = json!({"providers": {"fake": provider}});
    fs::write(folder.join("models.json"), models.to_string()).expect("write Pi's models");
}
