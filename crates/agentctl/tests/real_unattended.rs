//! Private servers of real Codex and OpenCode whose runner was killed: named by `doctor`, ended when their idle time is over.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod steer;

use std::path::Path;

use agentctl_testkit::{Codex, OpenCode, Signal, skip, until, until_seen};
use serde_json::{Value, json};
use steer::served::becomes;
use steer::{Scene, TIMEOUT};

struct Agent {
    scene: Scene,
}

fn codex() -> Option<Agent> {
    Some(Agent { scene: Scene::set("codex", |home, url| Codex::settle(home, url).map(drop))? })
}

fn opencode() -> Option<Agent> {
    let scene = Scene::set("opencode", |home, url| OpenCode::settle(home, url, &json!("allow")).map(drop))?;
    Some(Agent { scene })
}

impl Agent {
    fn launch(&self, prompt: &str) -> String {
        let launched = self.scene.agentctl(&["launch", self.scene.adapter, "-p", prompt, "--hold", "--json"]);
        launched.ok().json()["id"].as_str().unwrap().to_owned()
    }

    fn send(&self, id: &str, words: &str) -> String {
        let sent = self.scene.agentctl(&["send", id, words, "--json"]).ok().json();
        sent["accepted"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn idle_after(&self, id: &str, last: &str) {
        becomes(&self.scene, id, last, |seen| seen["status"] == "idle" && seen["lastMessage"] == last);
    }

    fn runner(&self) -> u32 {
        let processes = self.scene.processes();
        let runner = processes.iter().find(|(_, line)| line.contains("agentctl __run "));
        runner.unwrap_or_else(|| panic!("{processes:#?}")).0
    }

    fn kill_runner(&self) {
        let (scene, runner) = (&self.scene, self.runner());
        scene.home.signal(runner, Signal::KILL);
        until_seen(TIMEOUT, "the end of the runner", || {
            let left = scene.processes();
            if left.iter().any(|(pid, _)| *pid == runner) { Err(format!("{left:#?}")) } else { Ok(()) }
        });
    }

    fn doctor(&self) -> Value {
        self.scene.agentctl(&["doctor", "--json"]).json()["unattended"].clone()
    }

    /// Launches a session that may be idle for a second, and kills its runner in the middle of the first turn, so that
    /// nobody is left to end it.
    fn abandoned(&self) -> (String, Value) {
        let arguments = ["-p", "[[hang:gate]] begin", "--hold", "--idle-timeout", "1s", "--json"];
        let launched = self.scene.agentctl(&[&["launch", self.scene.adapter][..], &arguments].concat());
        let id = launched.ok().json()["id"].as_str().unwrap().to_owned();
        assert_eq!(self.doctor(), json!([]), "its runner lives");
        self.kill_runner();
        let (alone, seen) = (self.doctor(), self.scene.status(&id));
        assert_eq!(
            (&alone[0]["pid"], &alone[0]["launch"]),
            (&seen["pid"], &seen["launch"]["id"]),
            "{alone:#}"
        );
        assert_eq!(
            (&alone[0]["status"], &alone[0]["endsAt"]),
            (&"running".into(), &Value::Null),
            "{alone:#}"
        );
        assert_eq!((&alone[0]["sessionId"], &alone[1]), (&id.as_str().into(), &Value::Null), "{alone:#}");
        assert_eq!(alone[0]["hint"], format!("agentctl stop {id}"), "{alone:#}");
        (id, alone[0].clone())
    }

    /// It was ended for its idle time, and nobody took it for something else.
    fn ended_for_its_idle_time(&self, id: &str) {
        self.scene.wait_for_silence();
        let ended = self.scene.status(id);
        assert_eq!(ended["status"], "stopped", "{ended:#}");
        assert_eq!(ended["launch"]["endedBy"]["limit"], "--idle-timeout 1s", "{ended:#}");
        assert!(ended["launch"]["exitedAt"].is_string(), "{ended:#}");
        assert_eq!(self.doctor(), json!([]));
    }
}

/// Nobody minds its idle time any more, so `prune` does: not while it works, and not before its time is over.
#[test]
fn prune_ends_an_idle_server_without_a_runner() {
    let Some(agent) = codex() else { return };
    let scene = &agent.scene;
    let (id, server) = agent.abandoned();
    let prune = |more: &[&str]| scene.agentctl(&[&["prune", "--json"], more].concat()).ok().json();
    assert_eq!(prune(&[])["servers"], json!([]), "it works");
    scene.model.open("gate");
    becomes(scene, &id, "the end of the turn", |seen| seen["status"] == "idle");
    let due = until(TIMEOUT, "its time", || {
        let due = prune(&["--dry-run"])["servers"].clone();
        (due != json!([])).then_some(due)
    });
    assert_eq!((&due[0]["pid"], &due[0]["launch"]), (&server["pid"], &server["launch"]), "{due:#}");
    assert_eq!(scene.status(&id)["status"], "idle", "a dry run ends nothing");
    let ended = prune(&[]);
    assert_eq!(
        (&ended["servers"][0]["pid"], &ended["servers"][0]["error"]),
        (&server["pid"], &Value::Null),
        "{ended:#}"
    );
    agent.ended_for_its_idle_time(&id);
}

#[test]
fn the_daemon_ends_an_idle_server_without_a_runner() {
    let Some(agent) = opencode() else { return };
    let (id, _) = agent.abandoned();
    let _ = agent.scene.agentctl(&["daemon", "start"]).ok();
    agent.scene.model.open("gate");
    until_seen(TIMEOUT, "the end of its server", || match agent.doctor() {
        none if none == json!([]) => Ok(()),
        left => Err(format!("{left:#}")),
    });
    let _ = agent.scene.agentctl(&["daemon", "stop"]).ok();
    agent.ended_for_its_idle_time(&id);
}

/// Codex unloads a thread to which nobody is connected for a minute. It is still the server's, and is loaded again.
#[test]
fn an_unloaded_thread_can_be_spoken_with() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return skip("a thread is unloaded after a minute; that is awaited with --long");
    }
    let Some(agent) = codex() else { return };
    let scene = &agent.scene;
    let id = agent.launch("[[text:first]] begin");
    agent.idle_after(&id, "first");
    agent.kill_runner();
    let lock = |folder: &Path| steer::folders(folder).iter().any(|path| path.to_string_lossy().contains(&id));
    let locks = scene.home.path().join(".codex/thread-writer-locks");
    assert!(lock(&locks), "{:#?}", steer::folders(&locks));
    until(TIMEOUT, "the end of its lock", || (!lock(&locks)).then_some(()));
    let seen = scene.status(&id);
    assert_eq!(seen["status"], "idle", "{seen:#}");
    assert_eq!(agent.send(&id, "[[text:second]] go on"), "now");
    agent.idle_after(&id, "second");
    let _ = scene.agentctl(&["stop", &id]).ok();
    scene.wait_for_silence();
}
