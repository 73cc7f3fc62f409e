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
#[path = "../real_acp_agent/editor.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod editor;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
#[path = "../real_mcp/line.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod line;
mod manner;
mod over_nats;
mod over_ssh;
mod pi;
mod programs;
mod road;
mod roads;
mod rounds;
mod servers;
#[path = "../steer/mod.rs"]
mod steer;
mod twenty;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentctl_testkit::{Background, Near, Output, TestHome, until, until_seen};
use house::forget_moments;
use manner::{Agent, RUNNER};
use road::{Begun, Client, Road};
use serde_json::{Value, json};
use steer::{ENDLESS, Scene};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// One agent at its home, and the way by which its sessions are reached.
pub(crate) struct Stage {
    pub(crate) agent: &'static Agent,
    pub(crate) scene: Scene,
    road: Road,
    /// The machine that asks, where this one is another machine.
    near: Option<Near>,
    desk: Option<over_nats::Desk>,
    _daemon: Option<Background>,
}

impl Stage {
    /// `None`, with a printed reason, when the agent is not available here.
    pub(crate) fn set(agent: &'static Agent, road: Road) -> Option<Self> {
        let scene = Scene::with_model(rounds::model(), agent.name, agent.settle)?;
        let scene = Scene { model_name: agent.model, ..scene };
        let near = if road == Road::Ssh { Some(over_ssh::near(&scene)?) } else { None };
        let desk = if road == Road::Nats { Some(over_nats::Desk::set()?) } else { None };
        if let Some(desk) = &desk {
            desk.serve(&scene.home, "box");
        }
        let daemon = matches!(road, Road::Daemon | Road::Http | Road::Nats).then(|| road::open(&scene));
        if let Some(desk) = &desk {
            desk.hears(&["box".to_owned()]);
        }
        Some(Self { agent, scene, road, near, desk, _daemon: daemon })
    }

    /// A scene that is set already, without a daemon.
    pub(crate) fn alone(agent: &'static Agent, scene: Scene) -> Self {
        Self { agent, scene, road: Road::Alone, near: None, desk: None, _daemon: None }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        match self.road {
            Road::Alone => self.scene.agentctl(arguments),
            Road::Daemon => {
                let mut command = self.scene.home.agentctl_command(arguments);
                command.current_dir(&self.scene.cwd).env_remove("AGENTCTL_NO_DAEMON");
                self.scene.home.run(command)
            }
            Road::Http => Client::of(&self.scene).run(arguments, &self.scene.cwd),
            Road::Ssh | Road::Nats => {
                let home = self.asks_from();
                home.run(home.agentctl_command(&self.seen_from_near(arguments)))
            }
        }
    }

    pub(crate) fn near(&self) -> &Near {
        self.near.as_ref().expect("this road leads through ssh")
    }

    /// The home of the machine that asks.
    fn asks_from(&self) -> &TestHome {
        self.desk.as_ref().map_or_else(|| &self.near().home, |desk| &desk.home)
    }

    /// A command as it is typed on the machine that asks.
    fn seen_from_near<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        let more: &[&str] = match arguments[0] {
            "launch" => &["--host", "box", "--cwd", self.scene.cwd.to_str().unwrap()],
            _ => &["--host", "box"],
        };
        [&arguments[..1], more, &arguments[1..]].concat()
    }

    /// A command that is still at work when this returns.
    fn begin(&self, arguments: &[&str]) -> Begun {
        if matches!(self.road, Road::Ssh | Road::Nats) {
            let home = self.asks_from();
            let command = home.agentctl_command(&self.seen_from_near(arguments));
            return Begun::Command(Background::spawn(home, command));
        }
        if self.road == Road::Http {
            return Begun::request(Client::of(&self.scene), arguments, &self.scene.cwd);
        }
        let mut command = self.scene.home.agentctl_command(arguments);
        command.current_dir(&self.scene.cwd);
        if self.road == Road::Daemon {
            command.env_remove("AGENTCTL_NO_DAEMON");
        }
        Begun::Command(Background::spawn(&self.scene.home, command))
    }

    /// The command that launches a session that is held. `own` is for the agent's program.
    fn launching<'a>(&self, prompt: &'a str, more: &[&'a str], own: &'a [String]) -> Vec<&'a str> {
        let mut arguments = vec!["launch", self.scene.adapter, "-p", prompt, "--hold", "--json"];
        arguments.extend(self.scene.model_name.into_iter().flat_map(|model| ["--model", model]));
        arguments.extend(more);
        arguments.extend(own.iter().map(String::as_str));
        arguments
    }

    /// Launches a session that is held.
    #[track_caller]
    pub(crate) fn hold(&self, prompt: &str, more: &[&str]) -> Held<'_> {
        let own = (self.agent.arguments)(&self.scene);
        let launched = self.run(&self.launching(prompt, more, &own)).ok().json();
        assert!(
            matches!(launched["status"].as_str(), Some("running" | "waiting" | "idle")),
            "the first turn was seen: {launched:#}"
        );
        Held { stage: self, scene: &self.scene, id: launched["id"].as_str().unwrap().to_owned() }
    }

    #[track_caller]
    pub(crate) fn status(&self, id: &str) -> Value {
        self.run(&["status", id, "--json"]).ok().json()
    }

    /// The processes of this home without those of the daemon.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let mut found = self.scene.processes();
        found.retain(|(_, line)| !line.contains("agentctl daemon run"));
        found
    }

    #[track_caller]
    pub(crate) fn wait_for_silence(&self) {
        until_seen(PATIENCE, "the end of all processes", || match self.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}")),
        });
    }
}

/// One held session.
pub(crate) struct Held<'s> {
    pub(crate) stage: &'s Stage,
    pub(crate) scene: &'s Scene,
    pub(crate) id: String,
}

impl Held<'_> {
    /// A command about this session.
    pub(crate) fn run(&self, verb: &str, more: &[&str]) -> Output {
        self.stage.run(&[&[verb, &self.id], more].concat())
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
    pub(crate) fn begin(&self, verb: &str, more: &[&str]) -> Begun {
        self.stage.begin(&[&[verb, &self.id], more, &["--json"]].concat())
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.stage.status(&self.id)
    }

    /// The road tells of it what its machine tells itself, but for how it is named from here.
    #[track_caller]
    pub(crate) fn is_told_alike(&self) {
        let plain = |mut told: Value| {
            forget_moments(&mut told);
            for key in ["host", "next"] {
                told.as_object_mut().unwrap().remove(key);
            }
            told
        };
        until_seen(PATIENCE, "the same answer on both sides", || {
            let (far, own) = (plain(self.status()), plain(self.scene.status(&self.id)));
            if far == own { Ok(()) } else { Err(format!("{far:#} {own:#}")) }
        });
    }

    #[track_caller]
    pub(crate) fn becomes(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        until_seen(PATIENCE, what, || {
            let seen = self.status();
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
        let is_asked = |seen: &Value| seen["status"] == "waiting" && seen["pending"][0]["answerable"] == true;
        self.becomes("a request", is_asked);
        // A server that has no time for one look says it to the next one.
        let row = until_seen(PATIENCE, "the same request in the list", || {
            let list = self.stage.run(&["list", "--json"]).ok().json();
            let mut rows = list["sessions"].as_array().unwrap().iter();
            let row = rows.find(|row| row["id"] == self.id.as_str()).cloned().unwrap_or_default();
            if is_asked(&row) { Ok(row) } else { Err(format!("{list:#}")) }
        });
        let pending = row["pending"][0].clone();
        assert_eq!((&pending["kind"], &pending["answerable"]), (&kind.into(), &true.into()), "{row:#}");
        // Servers do not always say since when they wait; a runner heard it.
        let is_timed = pending["since"].is_string() || self.stage.agent.witness != RUNNER;
        assert!(pending["id"].is_string() && is_timed, "{row:#}");
        pending
    }

    /// A message whose tool is asked for.
    #[track_caller]
    pub(crate) fn asks_to_run(&self, command: &str, after: &str) -> Value {
        assert_eq!(self.send(&format!("{} {after}", self.runs(command))), "now");
        let pending = self.asked("approval");
        let summary = pending["summary"].as_str().unwrap_or_default();
        assert!(summary.contains(command), "a person decides by these words: {pending:#}");
        pending
    }

    /// The directive that makes the model run a command.
    pub(crate) fn runs(&self, command: &str) -> String {
        (self.stage.agent.runs)(command)
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
        self.stage.wait_for_silence();
        let after = self.status();
        assert_eq!(
            (&after["status"], &after["outcome"]),
            (&"stopped".into(), &outcome.into()),
            "{stopped:#} {after:#}"
        );
        let late = self.refused("send", &["too late"]);
        assert!(late.contains("resume"), "{late}");
    }

    /// All files of the folder, also those that git is told to ignore.
    pub(crate) fn files(&self) -> BTreeSet<PathBuf> {
        fn below(folder: &Path, found: &mut BTreeSet<PathBuf>) {
            for path in steer::folders(folder).into_iter().filter(|path| !path.ends_with(".git")) {
                if path.is_dir() {
                    below(&path, found);
                }
                found.insert(path);
            }
        }
        let mut found = BTreeSet::new();
        below(&self.scene.cwd, &mut found);
        found
    }
}

/// Waits for a file that a tool makes.
pub(crate) fn wait_for(held: &Held<'_>, file: &str) {
    until(PATIENCE, file, || held.exists(file).then_some(()));
}
