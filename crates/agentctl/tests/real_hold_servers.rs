//! Real Codex and OpenCode, held in private servers of their own and steered through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod steer;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use agentctl_testkit::{Codex, OpenCode, Signal, skip, until, until_seen};
use serde_json::{Value, json};
use steer::served::becomes;
use steer::{ENDLESS, Scene, TIMEOUT};

/// One agent that asks before each command.
struct Agent {
    scene: Scene,
    /// The directive of a command for which it asks.
    asks: fn(&str) -> String,
    /// The tool with which the model asks a question.
    question: &'static str,
    /// How a message in the middle of a turn is taken.
    mid_turn: &'static str,
    /// Where the reason of a denial goes.
    reason: &'static str,
}

fn codex() -> Option<Agent> {
    let scene = Scene::set("codex", |home, url| {
        Codex::settle(home, url)?;
        let path = home.path().join(".codex/config.toml");
        let settings = fs::read_to_string(&path).unwrap();
        let asking = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
        let question = "\n[features]\ndefault_mode_request_user_input = true\n";
        fs::write(&path, format!("{asking}{settings}{question}")).unwrap();
        Ok(())
    })?;
    let asks = |command: &str| {
        let tool =
            json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "may I?"});
        format!("[[tool:exec_command|{tool}]]")
    };
    Some(Agent { scene, asks, question: "request_user_input", mid_turn: "now", reason: "as-message" })
}

fn opencode() -> Option<Agent> {
    let asking = json!({"*": "ask", "bash": {"*": "ask"}, "question": "allow"});
    let scene = Scene::set("opencode", |home, url| OpenCode::settle(home, url, &asking).map(drop))?;
    let asks = |command: &str| format!("[[bash:{command}]]");
    Some(Agent { scene, asks, question: "question", mid_turn: "queued", reason: "with-answer" })
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

    /// Sends a prompt and returns what the session then waits for.
    #[track_caller]
    fn waits(&self, id: &str, prompt: &str) -> Value {
        self.send(id, prompt);
        let waiting = becomes(&self.scene, id, "the request", |seen| {
            seen["status"] == "waiting" && seen["pending"][0]["answerable"] == true
        });
        waiting["pending"][0].clone()
    }

    fn runner(&self) -> u32 {
        let processes = self.scene.processes();
        let runner = processes.iter().find(|(_, line)| line.contains("agentctl __run "));
        runner.unwrap_or_else(|| panic!("{processes:#?}")).0
    }

    fn is_spoken_to(&self, id: &str) {
        self.idle_after(id, "first");
        assert_eq!(self.send(id, "[[text:second]] go on"), "now");
        self.idle_after(id, "second");
        self.send(id, "[[hang:gate]] at work");
        self.scene.model.wait_turn("[[hang:gate]] at work", 0);
        assert_eq!(self.send(id, "[[text:third]] and this"), self.mid_turn);
        self.scene.model.open("gate");
        self.idle_after(id, "third");
    }

    fn asks_and_is_answered(&self, id: &str) {
        let scene = &self.scene;
        let asked = self.waits(id, &format!("{} [[text:allowed]]", (self.asks)("touch allowed")));
        assert!(asked["summary"].as_str().unwrap().contains("touch allowed"), "{asked:#}");
        let offers = |kind: &str, scope: &str| {
            let mut options = asked["options"].as_array().unwrap().iter();
            options.any(|option| option["kind"] == kind && option["scope"] == scope)
        };
        assert!(offers("allow-once", "once") && offers("allow-always", "session"), "{asked:#}");
        assert!(offers("deny", "once"), "{asked:#}");
        let request = asked["id"].as_str().unwrap();
        let other = scene.agentctl(&["approve", id, "--request", "another"]);
        assert_eq!(other.code, Some(7), "{other:#?}");
        assert!(!scene.cwd.join("allowed").exists());
        let done = scene.agentctl(&["approve", id, "--request", request, "--json"]).ok().json();
        assert_eq!(
            (&done["request"], &done["decision"]),
            (&request.into(), &"allow-once".into()),
            "{done:#}"
        );
        self.idle_after(id, "allowed");
        assert!(scene.cwd.join("allowed").exists());

        let next = self.waits(id, &format!("{} [[text:denied]]", (self.asks)("touch denied")));
        assert_ne!(next["id"], request, "{next:#}");
        let late = scene.agentctl(&["approve", id, "--request", request]);
        assert_eq!(late.code, Some(7), "the answer to a request that is gone: {late:#?}");
        let reason = "not here please";
        let done = scene.agentctl(&["deny", id, "--message", reason, "--json"]).ok().json();
        assert_eq!(done["message"], self.reason, "{done:#}");
        scene.model.wait_request("the reason", |seen| seen.body.to_string().contains(reason));
        becomes(scene, id, "the end of the turn", |seen| seen["status"] == "idle");
        assert!(!scene.cwd.join("denied").exists(), "it was denied");

        let command = (self.asks)("echo again >> always.txt");
        self.waits(id, &format!("{command} [[text:once]]"));
        let done = scene.agentctl(&["approve", id, "--always", "--json"]).ok().json();
        assert_eq!(done["decision"], "allow-always", "{done:#}");
        self.idle_after(id, "once");
        self.send(id, &format!("{command} [[text:twice]]"));
        self.idle_after(id, "twice");
        assert_eq!(fs::read_to_string(scene.cwd.join("always.txt")).unwrap(), "again\nagain\n");
        assert!(!scene.home.path().join(".codex/rules").exists(), "it was kept in a file");

        let question = json!({"questions": [{"id": "colour", "header": "Colour", "question": "Which colour?",
            "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]}]});
        let asked = self.waits(id, &format!("[[tool:{}|{question}]] [[text:thanks]]", self.question));
        assert_eq!(asked["kind"], "question", "{asked:#}");
        assert_eq!(asked["summary"], "Which colour?\n- Red: r\n- Blue: b", "{asked:#}");
        assert!(asked["options"].as_array().unwrap().iter().any(|one| one["label"] == "Blue"), "{asked:#}");
        let _ = scene.agentctl(&["answer", id, "Blue"]).ok();
        self.idle_after(id, "thanks");
        scene.model.wait_request("the answer", |seen| seen.body.to_string().contains("Blue\\\""));
    }

    fn is_interrupted(&self, id: &str) {
        let scene = &self.scene;
        let interrupt = || scene.agentctl(&["interrupt", id, "--json"]).ok().json();
        self.send(id, "[[hang]] in a stream");
        scene.model.wait_turn("[[hang]] in a stream", 0);
        let done = interrupt();
        assert_eq!((&done["interrupted"], &done["stillQueued"]), (&true.into(), &0.into()), "{done:#}");
        becomes(scene, id, "the end of the stream", |seen| seen["status"] == "idle");
        assert_eq!(interrupt()["interrupted"], false);
        self.waits(id, &format!("{} [[text:never]]", (self.asks)(ENDLESS)));
        let _ = scene.agentctl(&["approve", id]).ok();
        scene.wait_for_tool();
        assert_eq!(interrupt()["interrupted"], true);
        becomes(scene, id, "the end of the tool", |seen| seen["status"] == "idle");
        until(TIMEOUT, "the end of its process", || {
            let left = scene.processes().into_iter().any(|(_, line)| line.contains(ENDLESS));
            (!left).then_some(())
        });
        // A request that waits goes with its turn.
        self.waits(id, &format!("{} [[text:never]]", (self.asks)("touch late")));
        assert_eq!(interrupt()["interrupted"], true);
        let idle = becomes(scene, id, "the end of the turn", |seen| seen["status"] == "idle");
        assert_eq!(idle["pending"], json!([]), "{idle:#}");
        assert_eq!(scene.agentctl(&["approve", id]).code, Some(7));
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

    /// The server and what it waits for outlive the runner.
    fn outlives_its_runner(&self, id: &str) {
        let scene = &self.scene;
        self.waits(id, &format!("{} [[text:alone]]", (self.asks)("touch alone")));
        self.kill_runner();
        let _ = scene.agentctl(&["approve", id]).ok();
        self.idle_after(id, "alone");
        assert!(scene.cwd.join("alone").exists());
        assert_eq!(self.send(id, "[[text:still here]] and now"), "now");
        self.idle_after(id, "still here");
    }

    fn is_stopped_and_resumed(&self, id: &str) {
        let scene = &self.scene;
        let stop = || {
            let stopped = scene.agentctl(&["stop", id, "--json"]).ok().json();
            assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
            scene.wait_for_silence();
            assert_eq!(scene.status(id)["status"], "stopped");
        };
        stop();
        let resumed =
            scene.agentctl(&["resume", id, "[[text:resumed]] go on", "--hold", "--json"]).ok().json();
        assert_eq!(resumed["id"], id, "{resumed:#}");
        self.idle_after(id, "resumed");
        assert_eq!(self.send(id, "[[hang]] once more"), "now");
        scene.model.wait_turn("[[hang]] once more", 0);
        stop();
    }

    fn does_the_rounds(&self) {
        let id = self.launch("[[text:first]] begin");
        self.is_spoken_to(&id);
        self.asks_and_is_answered(&id);
        self.is_interrupted(&id);
        self.outlives_its_runner(&id);
        self.is_stopped_and_resumed(&id);
    }
}

#[test]
fn codex_is_held_in_its_own_server() {
    let Some(agent) = codex() else { return };
    agent.does_the_rounds();
}

/// A command of the agent does not decide about the agent.
#[test]
fn a_session_does_not_steer_itself() {
    let Some(agent) = codex() else { return };
    let id = agent.launch("[[text:first]] begin");
    agent.idle_after(&id, "first");
    let program = env!("CARGO_BIN_EXE_agentctl");
    let command = format!("{program} interrupt {id} 2> said; echo $? > code");
    agent.waits(&id, &format!("{} [[text:tried]]", (agent.asks)(&command)));
    let _ = agent.scene.agentctl(&["approve", &id]).ok();
    agent.idle_after(&id, "tried");
    let said = fs::read_to_string(agent.scene.cwd.join("said")).unwrap();
    assert_eq!(fs::read_to_string(agent.scene.cwd.join("code")).unwrap(), "7\n", "{said}");
    assert!(said.contains("itself"), "{said}");
    let _ = agent.scene.agentctl(&["stop", &id]).ok();
    agent.scene.wait_for_silence();
}

/// Its request does not name the files: they are looked up in the turn.
#[test]
fn a_change_of_files_is_shown_whole() {
    let Some(agent) = codex() else { return };
    let id = agent.launch("[[text:first]] begin");
    agent.idle_after(&id, "first");
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch\nEOF";
    let asked =
        agent.waits(&id, &format!("[[tool:exec_command|{}]] [[text:patched]]", json!({"cmd": patch})));
    let summary = asked["summary"].as_str().unwrap();
    assert!(summary.contains("new.txt") && summary.contains("hello"), "{asked:#}");
    let _ = agent.scene.agentctl(&["approve", &id]).ok();
    agent.idle_after(&id, "patched");
    assert_eq!(fs::read_to_string(agent.scene.cwd.join("new.txt")).unwrap(), "hello\n");
    let _ = agent.scene.agentctl(&["stop", &id]).ok();
    agent.scene.wait_for_silence();
}

/// A held session to which nobody talks ends, and so does its server.
#[test]
fn a_server_ends_when_nobody_talks_to_its_session() {
    let Some(agent) = codex() else { return };
    let scene = &agent.scene;
    let prompt = "[[text:first]] begin";
    let arguments = ["launch", "codex", "-p", prompt, "--hold", "--idle-timeout", "1s", "--json"];
    let launched = scene.agentctl(&arguments).ok().json();
    scene.wait_for_silence();
    let ended = scene.status(launched["id"].as_str().unwrap());
    assert_eq!((&ended["status"], &ended["lastMessage"]), (&"stopped".into(), &"first".into()), "{ended:#}");
    assert_eq!(ended["launch"]["endedBy"]["limit"], "--idle-timeout 1s", "{ended:#}");
}

#[test]
fn opencode_is_held_in_its_own_server() {
    let Some(agent) = opencode() else { return };
    agent.does_the_rounds();
}

/// Only who may read the environment of the server knows its password.
#[test]
fn the_server_of_opencode_refuses_unknown_models_and_strangers() {
    let Some(agent) = opencode() else { return };
    let scene = &agent.scene;
    let refused = scene.agentctl(&["launch", "opencode", "-p", "no", "--hold", "--model", "fake/nobody"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains("model not found: fake/nobody"), "{refused:#?}");
    scene.assert_nothing_left();

    let id = agent.launch("[[text:first]] begin");
    agent.idle_after(&id, "first");
    let server = scene.status(&id)["pid"].as_u64().unwrap();
    let environ = fs::read_to_string(format!("/proc/{server}/environ")).unwrap();
    let password =
        environ.split('\0').find_map(|pair| pair.strip_prefix("OPENCODE_SERVER_PASSWORD=")).unwrap();
    assert_eq!(password.len(), 64, "a long one");
    assert!(scene.processes().iter().all(|(_, line)| !line.contains(password)));
    assert!(!steer::is_stored_below(&scene.home.path(), password), "it is on the disk");
    let printed = scene.launches().iter().find_map(|folder| fs::read_to_string(folder.join("stdout")).ok());
    let address = printed.unwrap().split_once("http://").unwrap().1.trim().to_owned();
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET /session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = [0; 12];
    stranger.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    let _ = scene.agentctl(&["stop", &id]).ok();
    scene.wait_for_silence();
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
