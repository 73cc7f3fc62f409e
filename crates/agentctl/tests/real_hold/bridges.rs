//! Codex and Claude Code through their ACP bridges, and agents that the user names in config.toml: one session, one row, under
//! the name of the adapter that reads it.

use std::fs;

use agentctl_testkit::agents::bridges;
use agentctl_testkit::{NodeAgent, Skip, TestHome};
use serde_json::{Value, json};

use crate::manner::Agent;
use crate::steer::Scene;
use crate::{Held, Stage, rounds, servers, wait_for};

/// What all of them have in common.
static OVER_ACP: Agent = Agent { name: "acp", ..servers::CODEX };

/// One agent that is started over ACP.
struct Bridge {
    stage: Stage,
    /// The adapter that reads its sessions.
    native: &'static str,
    /// The directive of a command for which it asks.
    asks: fn(&str) -> String,
    /// Further arguments of a launch.
    more: &'static [&'static str],
    /// How a message in the middle of a turn is taken; `None` where the agent has no queue.
    mid_turn: Option<&'static str>,
}

fn bash(command: &str) -> String {
    format!("[[bash:{command}]]")
}

impl Bridge {
    /// Everything that a person does with it.
    fn is_steered(&self) {
        let held = self.stage.hold("[[text:one]] first", self.more);
        held.idle("one");
        assert_eq!(held.send("[[text:two]] second"), "now");
        held.idle("two");
        self.is_one_row(&held);
        self.hears_in_mid_turn(&held);
        self.asks(&held);
        assert_eq!(held.send("[[hang:stream]] in a stream"), "now");
        self.stage.scene.model.wait_turn("[[hang:stream]] in a stream", 0);
        let done = held.done("interrupt", &[]);
        assert_eq!((&done["interrupted"], &done["stillQueued"]), (&true.into(), &0.into()), "{done:#}");
        held.becomes("the end of the turn that was cut short", |seen| {
            seen["status"] == "idle" && seen["outcome"] == "interrupted"
        });

        let stopped = held.done("stop", &[]);
        assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
        self.stage.scene.wait_for_silence();
        let after = self.stage.scene.status(&held.id);
        assert_eq!(
            (&after["status"], &after["meta"]["via"]),
            (&"stopped".into(), &self.stage.scene.adapter.into()),
            "{after:#}"
        );

        // Over ACP again, under the same id.
        let resumed = held.done("resume", &["--adapter", self.stage.scene.adapter, "[[text:ten]] again"]);
        assert_eq!(
            (&resumed["id"], &resumed["adapter"], &resumed["meta"]["via"]),
            (&held.id.as_str().into(), &self.native.into(), &self.stage.scene.adapter.into()),
            "{resumed:#}"
        );
        held.idle("ten");
        assert_eq!(held.send("[[text:eleven]] and again"), "now");
        held.idle("eleven");
        self.is_one_row(&held);
        let _ = held.done("stop", &[]);
        self.stage.scene.wait_for_silence();
        assert_eq!(self.stage.scene.status(&held.id)["status"], "stopped");
    }

    /// The row is the native one and says how it was started, whoever asks for it.
    fn is_one_row(&self, held: &Held<'_>) {
        for more in [&[][..], &["--adapter", self.native], &["--adapter", self.stage.scene.adapter], &["-a"]]
        {
            let list = self.stage.scene.agentctl(&[&["list", "--json"], more].concat()).ok().json();
            let rows: Vec<&Value> = list["sessions"].as_array().unwrap().iter().collect();
            // Gemini leaves an empty session of each process behind.
            let rows: Vec<&&Value> = rows.iter().filter(|row| row["id"] == held.id.as_str()).collect();
            let [row] = rows[..] else { panic!("{more:?}: {list:#}") };
            assert_eq!(
                (&row["adapter"], &row["meta"]["via"], &row["status"]),
                (&self.native.into(), &self.stage.scene.adapter.into(), &"idle".into()),
                "{more:?}: {row:#}"
            );
            let sources = list["sources"].as_array().unwrap();
            let over_acp = |source: &&Value| source["adapter"].as_str().unwrap().starts_with("acp:");
            assert_eq!(sources.iter().filter(over_acp).count(), 0, "{more:?}: {sources:#?}");
        }
        let other = if self.native == "codex" { "claude-code" } else { "codex" };
        let list = self.stage.scene.agentctl(&["list", "--json", "--adapter", other]).ok().json();
        assert_eq!(list["sessions"], json!([]));
    }

    fn hears_in_mid_turn(&self, held: &Held<'_>) {
        let Some(mid_turn) = self.mid_turn else { return };
        assert_eq!(held.send("[[hang:third]] third"), "now");
        self.stage.scene.model.wait_turn("[[hang:third]] third", 0);
        assert_eq!(held.send("[[text:four]] fourth"), mid_turn);
        self.stage.scene.model.open("third");
        self.stage.scene.model.wait_turn("[[text:four]] fourth", 0);
        held.idle("four");
    }

    /// One permission given, one denied.
    fn asks(&self, held: &Held<'_>) {
        let ask = |command: &str, after: &str| {
            assert_eq!(held.send(&format!("{} {after}", (self.asks)(command))), "now");
            let pending = held.asked("approval");
            assert!(pending["summary"].as_str().unwrap_or_default().contains(command), "{pending:#}");
            pending
        };
        let pending = ask("touch allowed", "[[text:five]]");
        assert!(!held.exists("allowed"));
        let taken = held.done("approve", &["--request", pending["id"].as_str().unwrap()]);
        assert_eq!(taken["decision"], "allow-once", "{taken:#}");
        wait_for(held, "allowed");
        held.idle("five");
        let second = ask("touch denied", "[[text:six]]");
        assert_ne!(second["id"], pending["id"], "no id names two requests");
        held.refused("approve", &["--request", pending["id"].as_str().unwrap()]);
        let _ = held.done("deny", &[]);
        held.becomes("the end of the turn", |seen| seen["status"] == "idle");
        assert!(!held.exists("denied"));
    }
}

#[test]
fn codex_is_held_through_its_bridge() {
    let settle = |home: &mut TestHome, url: &str| {
        bridges::codex_acp(home, url)?;
        let path = home.path().join(".codex/config.toml");
        let settings = fs::read_to_string(&path).unwrap();
        let asking = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
        fs::write(&path, format!("{asking}{settings}")).unwrap();
        Ok(())
    };
    let Some(scene) = Scene::with_model(rounds::model(), "acp:codex-acp", settle) else { return };
    let asks = |command: &str| {
        let tool =
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "may I?"});
        format!("[[tool:exec_command|{tool}]]")
    };
    // In its usual mode it never asks, because its sandbox decides.
    let more = &["--permission-mode", "plan"];
    Bridge { stage: Stage::alone(&OVER_ACP, scene), native: "codex", asks, more, mid_turn: Some("queued") }
        .is_steered();
}

#[test]
fn claude_code_is_held_through_its_bridge() {
    let Some(scene) = Scene::with_model(rounds::model(), "acp:claude-agent-acp", bridges::claude_agent_acp)
    else {
        return;
    };
    Bridge {
        stage: Stage::alone(&OVER_ACP, scene),
        native: "claude-code",
        asks: bash,
        more: &[],
        mid_turn: Some("queued"),
    }
    .is_steered();
}

/// Names an agent in config.toml.
fn configure(home: &TestHome, section: &str) {
    let folder = home.agentctl_home();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), section).unwrap();
}

/// The command is another name of a program that is known.
#[test]
fn a_named_kimi_is_kimi() {
    let settle = |home: &mut TestHome, url: &str| -> Result<(), Skip> {
        NodeAgent::kimi(home, url)?;
        configure(home, "[acp.mine]\ncommand = [\"kimi\", \"acp\"]\n");
        Ok(())
    };
    let Some(scene) = Scene::with_model(rounds::model(), "acp:mine", settle) else { return };
    Bridge { stage: Stage::alone(&OVER_ACP, scene), native: "kimi", asks: bash, more: &[], mid_turn: None }
        .is_steered();
}

/// Nothing in the settings says what this is; the agent itself does.
#[test]
fn a_wrapped_kimi_says_that_it_is_kimi() {
    let settle = |home: &mut TestHome, url: &str| -> Result<(), Skip> {
        NodeAgent::kimi(home, url)?;
        configure(home, "[acp.wrapped]\ncommand = [\"sh\", \"-c\", \"exec kimi acp\"]\n");
        Ok(())
    };
    let Some(scene) = Scene::with_model(rounds::model(), "acp:wrapped", settle) else { return };
    let stage = Stage::alone(&OVER_ACP, scene);
    let held = stage.hold("[[text:one]] first", &[]);
    let idle = held.idle("one");
    assert_eq!((&idle["adapter"], &idle["meta"]["via"]), (&"kimi".into(), &"acp:wrapped".into()), "{idle:#}");
    let list = stage.run(&["list", "--json"]).ok().json();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list:#}");
    assert_eq!(held.send("[[text:two]] second"), "now");
    held.idle("two");
    held.stop("completed");
}
