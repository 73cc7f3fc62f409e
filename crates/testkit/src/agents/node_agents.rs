//! Copilot, Qwen Code, Gemini CLI and Kimi Code in a [`TestHome`], talking to a fake model.
//!
//! All of them run in Node. All but Kimi Code accept an id for a new session, and run themselves again in a child of the
//! process that is started here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::pty::Pty;
use crate::skip::Skip;

/// Copilot masks the key wherever it appears in its output, so the key must not occur in other text.
const KEY: &str = "key-0123456789-odd";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Copilot,
    Qwen,
    Gemini,
    Kimi,
}

/// One of the agents, set up in one home.
pub struct NodeAgent {
    kind: Kind,
    program: PathBuf,
}

impl NodeAgent {
    pub fn copilot(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let installed = agents::install("copilot")?;
        let base = format!("{model_url}/v1");
        for (name, value) in [
            ("COPILOT_PROVIDER_BASE_URL", base.as_str()),
            ("COPILOT_PROVIDER_API_KEY", KEY),
            ("COPILOT_MODEL", "fake-model"),
            ("COPILOT_OFFLINE", "true"),
            ("COPILOT_AUTO_UPDATE", "false"),
        ] {
            home.set_env(name, value);
        }
        // It unpacks itself before its first start, and all homes share the result.
        home.set_env("COPILOT_CACHE_HOME", installed.join("unpacked"));
        Ok(Self::moved_in(Kind::Copilot, home, &installed))
    }

    pub fn qwen(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let installed = agents::install("qwen")?;
        let base = format!("{model_url}/v1");
        for (name, value) in
            [("OPENAI_BASE_URL", base.as_str()), ("OPENAI_API_KEY", KEY), ("OPENAI_MODEL", "fake-model")]
        {
            home.set_env(name, value);
        }
        let settings = json!({
            "general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false}, "security": {"auth": {"selectedType": "openai"}},
        });
        write(&home.path().join(".qwen/settings.json"), &settings.to_string());
        Ok(Self::moved_in(Kind::Qwen, home, &installed))
    }

    pub fn gemini(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let installed = agents::install("gemini")?;
        home.set_env("GEMINI_API_KEY", KEY);
        home.set_env("GOOGLE_GEMINI_BASE_URL", model_url);
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "general": {"enableAutoUpdate": false}, "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false},
        });
        write(&home.path().join(".gemini/settings.json"), &settings.to_string());
        Ok(Self::moved_in(Kind::Gemini, home, &installed))
    }

    pub fn kimi(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let installed = agents::install("kimi")?;
        home.set_env("KIMI_CODE_NO_AUTO_UPDATE", "1");
        let config = format!(
            "default_model = \"fake\"\ntelemetry = false\n\n\
             [providers.fake]\ntype = \"openai\"\nbase_url = \"{model_url}/v1\"\napi_key = \"{KEY}\"\n\n\
             [models.fake]\nprovider = \"fake\"\nmodel = \"fake-model\"\nmax_context_size = 100000\n"
        );
        write(&home.path().join(".kimi-code/config.toml"), &config);
        Ok(Self::moved_in(Kind::Kimi, home, &installed))
    }

    fn moved_in(kind: Kind, home: &TestHome, installed: &Path) -> Self {
        let name = match kind {
            Kind::Copilot => "copilot",
            Kind::Qwen => "qwen",
            Kind::Gemini => "gemini",
            Kind::Kimi => "kimi",
        };
        let program = installed.join("node_modules/.bin").join(name);
        home.put_on_path(name, &program);
        if let Some(node) = agents::own_node(installed) {
            home.put_on_path("node", &node);
        }
        Self { kind, program }
    }

    /// Runs a new headless session with this id, which may use every tool.
    pub fn headless(&self, home: &TestHome, cwd: &Path, id: &str, prompt: &str) -> Background {
        Background::spawn(home, self.run(home, cwd, &["--session-id", id], prompt))
    }

    /// The same, with an id that the agent chooses.
    pub fn nameless(&self, home: &TestHome, cwd: &Path, prompt: &str) -> Background {
        Background::spawn(home, self.run(home, cwd, &[], prompt))
    }

    /// Resumes a session with a further prompt.
    pub fn resumed(&self, home: &TestHome, cwd: &Path, id: &str, prompt: &str) -> Background {
        let flag = match self.kind {
            Kind::Copilot => "--resume",
            Kind::Qwen | Kind::Gemini => "-r",
            Kind::Kimi => "-S",
        };
        Background::spawn(home, self.run(home, cwd, &[flag, id], prompt))
    }

    /// Runs the agent in a terminal, at its empty prompt.
    pub fn interactive(&self, home: &TestHome, cwd: &Path) -> Pty {
        let mut command = home.command(&self.program);
        command.current_dir(cwd);
        Pty::spawn(&command)
    }

    fn run(&self, home: &TestHome, cwd: &Path, session: &[&str], prompt: &str) -> Command {
        let mut command = home.command(&self.program);
        command.current_dir(cwd);
        match self.kind {
            Kind::Copilot => {
                let all = ["--output-format", "json", "--allow-all-tools", "--allow-all-paths"];
                command.args(["-p", prompt]).args(all)
            }
            Kind::Qwen => command.args([prompt, "-o", "stream-json", "--yolo"]),
            Kind::Gemini => command.args(["-p", prompt, "-o", "stream-json", "--approval-mode", "yolo"]),
            Kind::Kimi => command.args(["-p", prompt, "--output-format", "stream-json"]),
        };
        command.args(session);
        command
    }
}

fn write(path: &Path, text: &str) {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}
