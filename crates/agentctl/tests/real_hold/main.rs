//! Real agents that are held: launched, spoken to, answered, interrupted, stopped and resumed, each through its own
//! two-way protocol.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

mod acp;
mod api;
mod bridges;
mod claude;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
mod pi;
mod rounds;
#[path = "../steer/mod.rs"]
mod steer;

use std::time::Duration;

use agentctl_testkit::{Background, Output, until, until_seen};
use serde_json::{Value, json};
use steer::{ENDLESS, Scene};

pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// One held session, reached through the command line.
pub(crate) struct Held<'s> {
    pub(crate) scene: &'s Scene,
    pub(crate) id: String,
}

impl<'s> Held<'s> {
    pub(crate) fn launch(scene: &'s Scene, prompt: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["launch", scene.adapter, "-p", prompt, "--hold", "--json"];
        arguments.extend(scene.model_name.into_iter().flat_map(|model| ["--model", model]));
        arguments.extend(more);
        let launched = scene.agentctl(&arguments).ok().json();
        assert!(
            matches!(launched["status"].as_str(), Some("running" | "waiting" | "idle")),
            "the first turn was seen: {launched:#}"
        );
        Self { scene, id: launched["id"].as_str().unwrap().to_owned() }
    }

    /// A command about this session.
    pub(crate) fn run(&self, verb: &str, more: &[&str]) -> Output {
        self.scene.agentctl(&[&[verb, &self.id], more].concat())
    }

    #[track_caller]
    pub(crate) fn done(&self, verb: &str, more: &[&str]) -> Value {
        self.run(verb, &[more, &["--json"]].concat()).ok().json()
    }

    #[track_caller]
    pub(crate) fn refused(&self, verb: &str, more: &[&str]) -> String {
        let refused = self.run(verb, more);
        assert_eq!(refused.code, Some(7), "{verb} {more:?}: {refused:#?}");
        refused.stderr
    }

    #[track_caller]
    pub(crate) fn send(&self, words: &str) -> Value {
        let sent = self.done("send", &[words]);
        assert_eq!(sent["id"], self.id.as_str(), "{sent:#}");
        sent["accepted"].clone()
    }

    /// A command that is still at work when this returns.
    pub(crate) fn begin(&self, verb: &str, more: &[&str]) -> Background {
        let mut command = self.scene.home.agentctl_command(&[&[verb, &self.id], more, &["--json"]].concat());
        command.current_dir(&self.scene.cwd);
        Background::spawn(&self.scene.home, command)
    }

    #[track_caller]
    pub(crate) fn becomes(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_seen(PATIENCE, what, || {
            let seen = self.scene.status(&self.id);
            if fits(&seen) { Ok(seen) } else { Err(format!("{seen:#}")) }
        })
    }

    /// The turn is over and the session is still there.
    #[track_caller]
    pub(crate) fn idle(&self, last: &str) -> Value {
        let idle = self.becomes("the end of the turn", |seen| {
            seen["status"] == "idle" && seen["lastMessage"].as_str().map(str::trim) == Some(last)
        });
        assert!(idle["pid"].is_u64() && idle["pending"] == json!([]), "{idle:#}");
        idle
    }

    /// What the session waits for, as the list shows it.
    #[track_caller]
    pub(crate) fn asked(&self, kind: &str) -> Value {
        self.becomes("a request", |seen| seen["status"] == "waiting");
        let list = self.scene.agentctl(&["list", "--json"]).ok().json();
        let rows = list["sessions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == self.id.as_str()).unwrap();
        assert_eq!(row["status"], "waiting", "{row:#}");
        let pending = row["pending"][0].clone();
        assert_eq!((&pending["kind"], &pending["answerable"]), (&kind.into(), &true.into()), "{row:#}");
        assert!(pending["id"].is_string() && pending["since"].is_string(), "{row:#}");
        pending
    }

    /// A message whose tool is asked for.
    #[track_caller]
    pub(crate) fn asks_to_run(&self, command: &str, after: &str) -> Value {
        assert_eq!(self.send(&format!("[[bash:{command}]] {after}")), "now");
        let pending = self.asked("approval");
        let summary = pending["summary"].as_str().unwrap_or_default();
        assert!(summary.contains(command), "a person decides by these words: {pending:#}");
        pending
    }

    pub(crate) fn exists(&self, file: &str) -> bool {
        self.scene.cwd.join(file).exists()
    }

    /// Whether words reached the model, in any request so far.
    pub(crate) fn model_heard(&self, words: &str) -> bool {
        self.scene.model.requests().iter().any(|seen| seen.body.to_string().contains(words))
    }

    /// The runner that holds it.
    pub(crate) fn runner(&self) -> u32 {
        let processes = self.scene.processes();
        let runner = processes.iter().find(|(_, line)| line.contains("__run"));
        runner.unwrap_or_else(|| panic!("{processes:#?}")).0
    }

    #[track_caller]
    pub(crate) fn wait_for_end_of_tool(&self) {
        until_seen(PATIENCE, "the end of the tool", || {
            let left: Vec<_> =
                self.scene.processes().into_iter().filter(|(_, line)| line.contains(ENDLESS)).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
        });
    }

    /// Ends it in the clean way: no process is left.
    #[track_caller]
    pub(crate) fn stop(&self, outcome: &str) {
        let stopped = self.done("stop", &[]);
        let report = &stopped["sessions"][0];
        assert_eq!((&report["stopped"], &report["survived"]), (&true.into(), &json!([])), "{stopped:#}");
        self.scene.wait_for_silence();
        let after = self.scene.status(&self.id);
        assert_eq!(
            (&after["status"], &after["outcome"]),
            (&"stopped".into(), &outcome.into()),
            "{stopped:#} {after:#}"
        );
        let late = self.refused("send", &["too late"]);
        assert!(late.contains("resume"), "{late}");
    }

    /// What `git status` shows of the folder.
    pub(crate) fn untracked(&self) -> String {
        let mut git = self.scene.home.command("git");
        git.args(["status", "--porcelain"]).current_dir(&self.scene.cwd);
        self.scene.home.run(git).ok().stdout
    }
}

/// Waits for a file that a tool makes.
pub(crate) fn wait_for(held: &Held<'_>, file: &str) {
    until(PATIENCE, file, || held.exists(file).then_some(()));
}
