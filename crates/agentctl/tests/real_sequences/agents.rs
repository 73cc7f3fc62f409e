//! The agents, each set up so that it asks before it runs a command.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentctl_testkit::agents::{self, pi};
use agentctl_testkit::{Claude, Codex, NodeAgent, OpenCode, Pi, Skip, TestHome};
use serde_json::{Value, json};

/// One agent, and how it differs from the others.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "agents differ in each of them")]
pub(crate) struct Agent {
    pub(crate) adapter: &'static str,
    pub(crate) settle: fn(&mut TestHome, &str) -> Result<(), Skip>,
    pub(crate) model_name: Option<&'static str>,
    /// The directive of a command for which it asks.
    pub(crate) asks: fn(&str) -> String,
    /// Its own server outlives the runner.
    pub(crate) is_served: bool,
    /// It takes a message in the middle of a turn; elsewhere the sender waits.
    pub(crate) queues: bool,
    /// A denial without a reason ends the turn, and what is queued is read with the next message.
    pub(crate) denial_ends: bool,
    /// It offers to allow a command for the session.
    pub(crate) has_always: bool,
    /// How many sequences a short run plays: fewer where a start takes long.
    pub(crate) few: u64,
}

const PLAIN: Agent = Agent {
    adapter: "",
    settle: |_, _| Ok(()),
    model_name: None,
    asks: |command| format!("[[bash:{command}]]"),
    is_served: false,
    queues: false,
    denial_ends: false,
    has_always: false,
    few: 1,
};

pub(crate) const CLAUDE: Agent = Agent {
    adapter: "claude-code",
    settle: |home, url| Claude::settle(home, url).map(drop),
    queues: true,
    has_always: true,
    few: 2,
    ..PLAIN
};

pub(crate) const CODEX: Agent = Agent {
    adapter: "codex",
    settle: |home, url| {
        Codex::settle(home, url)?;
        let path = home.path().join(".codex/config.toml");
        let settings = fs::read_to_string(&path).unwrap();
        let asking = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
        fs::write(&path, format!("{asking}{settings}")).unwrap();
        Ok(())
    },
    asks: |command| {
        let tool = json!({"cmd": command, "sandbox_permissions": "require_escalated",
                          "justification": "may I?", "yield_time_ms": 60_000});
        format!("[[tool:exec_command|{tool}]]")
    },
    is_served: true,
    queues: true,
    has_always: true,
    few: 2,
    ..PLAIN
};

pub(crate) const OPENCODE: Agent = Agent {
    adapter: "opencode",
    settle: |home, url| {
        let asking = json!({"*": "ask", "bash": {"*": "ask"}});
        OpenCode::settle(home, url, &asking).map(drop)
    },
    is_served: true,
    queues: true,
    denial_ends: true,
    has_always: true,
    ..PLAIN
};

pub(crate) const PI: Agent =
    Agent { adapter: "pi", settle: settle_pi, model_name: Some(pi::MODEL), queues: true, few: 2, ..PLAIN };

pub(crate) const GEMINI: Agent = Agent {
    adapter: "gemini",
    settle: |home, url| NodeAgent::gemini(home, url).map(drop),
    has_always: true,
    ..PLAIN
};

pub(crate) const QWEN: Agent = Agent { adapter: "qwen", settle: settle_qwen, ..PLAIN };

pub(crate) const COPILOT: Agent =
    Agent { adapter: "copilot", settle: |home, url| NodeAgent::copilot(home, url).map(drop), ..PLAIN };

pub(crate) const KIMI: Agent = Agent {
    adapter: "kimi",
    settle: |home, url| NodeAgent::kimi(home, url).map(drop),
    has_always: true,
    few: 2,
    ..PLAIN
};

/// Its own default mode asks a model whether to ask.
fn settle_qwen(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    NodeAgent::qwen(home, url)?;
    let path = home.path().join(".qwen/settings.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["tools"] = json!({"approvalMode": "default"});
    fs::write(path, settings.to_string()).unwrap();
    Ok(())
}

/// Stock Pi never asks; an extension does, for every command.
const GATE: &str = r#"export default function (pi) {
  pi.on("tool_call", async (event, ctx) => {
    const choice = await ctx.ui.select("Allow " + (event.input.command ?? "this") + "?", ["Allow", "Block"]);
    return choice === "Allow" ? undefined : { block: true, reason: "blocked" };
  });
}
"#;

/// Puts Pi on the path in a tree of links in which it finds the package that loads extensions. The bundle is pinned
/// without that package, and the old Pi has it.
fn settle_pi(home: &mut TestHome, url: &str) -> Result<(), Skip> {
    Pi::settle(home, url)?;
    let (script, old) = (agents::pi()?, agents::pi_old()?);
    let package = script.ancestors().find(|path| path.ends_with("pi-coding-agent")).expect("Pi's package");
    let modules = old.ancestors().find(|path| path.ends_with("node_modules")).expect("its packages");
    let tree = home.path().join("tree/node_modules");
    fs::create_dir_all(&tree).unwrap();
    symlink(modules.join("jiti"), tree.join("jiti")).unwrap();
    symlink(package, tree.join("pi")).unwrap();
    let script = tree.join("pi").join(script.strip_prefix(package).unwrap());
    let wrapper = home.path().join("pi.sh");
    let text = format!(
        "#!/bin/sh\nexec node --preserve-symlinks --preserve-symlinks-main '{}' \"$@\"\n",
        script.display()
    );
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    home.put_on_path("pi", &wrapper);
    let extensions = home.path().join(".pi/agent/extensions");
    fs::create_dir_all(&extensions).unwrap();
    fs::write(extensions.join("gate.js"), GATE).unwrap();
    Ok(())
}
