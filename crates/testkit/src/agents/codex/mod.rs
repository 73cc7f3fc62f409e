//! Codex in a [`TestHome`], talking to a fake model.

mod client;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::agents;
use crate::background::Background;
use crate::home::TestHome;
use crate::skip::Skip;
use crate::wait::until_seen;

pub use client::AppServer;

/// Codex, set up in one home.
pub struct Codex {
    native: PathBuf,
    /// The Node script that starts it; the old version is pinned without this script.
    wrapper: Option<PathBuf>,
}

impl Codex {
    /// Sets up the pinned version: it is on the `PATH` as `codex`, uses the fake model, and sends nothing to other servers.
    pub fn settle(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let (native, wrapper) = agents::codex()?;
        configure(home, model_url, &native);
        Ok(Self { native, wrapper: Some(wrapper) })
    }

    /// Sets up the old version, which has no thread locks.
    pub fn settle_without_locks(home: &mut TestHome, model_url: &str) -> Result<Self, Skip> {
        let native = agents::codex_without_locks()?;
        configure(home, model_url, &native);
        Ok(Self { native, wrapper: None })
    }

    pub fn executable(&self) -> &Path {
        &self.native
    }

    /// Runs `codex exec --json` with the native program and every command allowed. `extra` comes before the prompt.
    pub fn exec(&self, home: &TestHome, cwd: &Path, extra: &[&str], prompt: &str) -> Background {
        let mut command = home.command(&self.native);
        command.arg("exec").args(extra).args(FLAGS).arg(prompt).current_dir(cwd);
        Background::spawn(home, command)
    }

    /// The same, started through its Node script: the process is the script, and the agent is its child.
    pub fn exec_wrapped(&self, home: &TestHome, cwd: &Path, prompt: &str) -> Background {
        let wrapper = self.wrapper.as_ref().expect("the old version is pinned without its script");
        let mut command = home.command("node");
        command.arg(wrapper).arg("exec").args(FLAGS).arg(prompt).current_dir(cwd);
        Background::spawn(home, command)
    }

    /// Runs `codex exec resume` on a thread.
    pub fn resume(&self, home: &TestHome, cwd: &Path, id: &str, prompt: &str) -> Background {
        let mut command = home.command(&self.native);
        command.args(["exec", "resume"]).args(FLAGS).args([id, prompt]).current_dir(cwd);
        Background::spawn(home, command)
    }

    /// Starts an app-server on a socket of this home.
    pub fn app_server(&self, home: &TestHome) -> AppServer {
        AppServer::start(home, &self.native)
    }

    /// The id of the thread that a run has begun, from its first line of output.
    pub fn thread_id(run: &mut Background) -> String {
        until_seen(Duration::from_mins(3), "the id of the thread", || {
            let stdout = run.stdout();
            let first: Option<Value> = stdout.lines().next().and_then(|line| serde_json::from_str(line).ok());
            let id = first.and_then(|line| Some(line["thread_id"].as_str()?.to_owned()));
            id.ok_or_else(|| format!("stdout: {stdout}\nstderr: {}", run.stderr()))
        })
    }
}

const FLAGS: [&str; 2] = ["--json", "--dangerously-bypass-approvals-and-sandbox"];

fn configure(home: &mut TestHome, model_url: &str, native: &Path) {
    home.put_on_path("codex", native);
    home.set_env("FAKE_KEY", "testkit");
    let settings = format!(
        r#"model = "fake-model"
model_provider = "fake"
check_for_update_on_startup = false

[model_providers.fake]
name = "fake"
base_url = "{model_url}/v1"
wire_api = "responses"
env_key = "FAKE_KEY"
request_max_retries = 0
stream_max_retries = 0
# A model that is told to hang is waited for, also on a machine that is so slow that Codex would give up.
stream_idle_timeout_ms = 86400000

[analytics]
enabled = false
"#
    );
    let folder = home.path().join(".codex");
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
    let path = folder.join("config.toml");
    fs::write(&path, settings).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
}
