//! A Codex thread that a gateway runs: one conversation in every list, count and event.

use std::sync::{Arc, Mutex};

use agentctl_testkit::agents::openclaw::{Ledger, ScriptedGateway};
use agentctl_testkit::{Background, Codex, FakeModel, Signal, skip, until_seen};
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::{House, SOON};

const KEY: &str = "agent:main:dashboard:6ab1cc53-1ba5-4ffe-8416-a877c6e6c659";
/// Recorded: the name under which OpenClaw's Codex plugin keeps the thread of [`KEY`].
const ENTRY: &str = "session-key:main:NWROylukYCuPsfH7bL7P74fU-wzcS9buBYpDF0nPTY0";
const SCHEMA: &str = "CREATE TABLE plugin_state_entries (plugin_id TEXT NOT NULL, namespace TEXT NOT NULL, \
    entry_key TEXT NOT NULL, value_json TEXT NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER, \
    PRIMARY KEY (plugin_id, namespace, entry_key)) STRICT";

/// A gateway whose rows the test writes, with its state in the house's home.
struct Stage {
    house: House,
    ledger: Arc<Mutex<Ledger>>,
    gateway: ScriptedGateway,
}

impl Stage {
    fn set(house: House) -> Self {
        let row = json!({"key": KEY, "agentId": "main", "sessionId": "s-1", "workspaceDir": "/w",
            "agentRuntime": {"id": "codex"}, "hasActiveRun": true});
        let ledger = Arc::new(Mutex::new(Ledger { rows: vec![row], ..Ledger::default() }));
        let answers = Arc::clone(&ledger);
        let gateway = ScriptedGateway::start(move |step| answers.lock().unwrap().answer(step));
        let port = gateway.url().rsplit(':').next().unwrap().to_owned();
        let folder = house.home.path().join(".openclaw");
        std::fs::create_dir_all(folder.join("state")).unwrap();
        let settings = format!("{{gateway: {{port: {port}, auth: {{token: 'secret-word'}}}}}}");
        std::fs::write(folder.join("openclaw.json"), settings).unwrap();
        Self { house, ledger, gateway }
    }

    /// Stores the thread as the plugin was observed to.
    fn bind(&self, thread: &str) {
        let home = self.house.home.path();
        let rollout =
            home.join(format!(".codex/sessions/2026/11/15/rollout-2026-11-15T18-32-48-{thread}.jsonl"));
        let stored = json!({"version": 1, "state": "active", "sessionId": "s-1",
            "binding": {"threadId": thread, "cwd": "/w", "rolloutPath": rollout, "modelProvider": "openai"}});
        let database = rusqlite::Connection::open(home.join(".openclaw/state/openclaw.sqlite")).unwrap();
        database.execute_batch(SCHEMA).unwrap();
        let insert = "INSERT INTO plugin_state_entries VALUES ('codex', 'app-server-thread-bindings', ?1, ?2, 0, NULL)";
        database.execute(insert, [ENTRY, &stored.to_string()]).unwrap();
    }

    /// The gateway begins or ends a run, and announces it.
    fn runs(&self, active: bool) {
        self.ledger.lock().unwrap().row(KEY)["hasActiveRun"] = json!(active);
        self.gateway.push("sessions.changed", &json!({"sessionKey": KEY}));
    }

    fn ids(&self, arguments: &[&str]) -> Vec<String> {
        let listed = self.house.run(&[&["list", "-q"], arguments].concat()).ok().stdout;
        let alone = self.house.home.agentctl(&[&["list", "-q"], arguments].concat()).ok().stdout;
        assert_eq!(listed, alone, "with the daemon and without");
        listed.lines().map(str::to_owned).collect()
    }

    /// Waits until the daemon has seen this many processes of live sessions.
    fn carried_by(&self, processes: u64) {
        until_seen(SOON, "the daemon's look", || {
            let status = self.house.get("/v1/daemon").json();
            if status["watchedProcesses"] == processes { Ok(()) } else { Err(format!("{status:#}")) }
        });
    }
}

#[test]
fn one_conversation_is_one_session_in_lists_counts_and_events() {
    let (model, mut house) = (FakeModel::start(), House::new());
    let codex = match Codex::settle(&mut house.home, &model.url()) {
        Ok(codex) => codex,
        Err(reason) => return skip(reason),
    };
    let cwd = house.home.work_dir("project");
    let mut first = codex.exec(&house.home, &cwd, &["--skip-git-repo-check"], "[[text:Hello.]] go");
    let thread = Codex::thread_id(&mut first);
    assert!(first.wait(SOON).success(), "{}", first.stderr());

    let stage = Stage::set(house);
    stage.bind(&thread);
    let _daemon = stage.house.daemon(&[]);
    let mut events = Listener::open(&stage.house, "", None);
    let live = |wanted: &str| {
        until_seen(SOON, "the live list", || {
            let ids = stage.ids(&[]);
            if ids == [wanted] { Ok(()) } else { Err(ids.join(" ")) }
        });
    };
    live(KEY);
    let mut run: Background = codex.resume(&stage.house.home, &cwd, &thread, "[[slow:600|500]] more");
    assert_eq!(told(&mut events, "lock.acquired", &thread), Vec::<String>::new(), "by its process");
    stage.carried_by(1);
    until_seen(SOON, "the turn", || {
        let native = stage.house.run(&["status", &thread, "--json"]).ok().json();
        if native["status"] == "running" { Ok(()) } else { Err(native) }
    });

    // Both exist, and one is shown.
    live(KEY);
    assert_eq!(stage.ids(&["-a"]), [KEY]);
    assert_eq!(stage.ids(&["-a", "--all-agents"]), [KEY]);
    assert_eq!(stage.ids(&["--adapter", "codex"]), [thread.as_str()], "nobody stands before it");
    let front = stage.house.run(&["status", KEY, "--json"]).ok().json();
    let root = stage.house.home.path().join(".codex");
    assert_eq!(front["meta"]["native"], json!({"adapter": "codex", "id": thread, "root": root}));
    assert_eq!(stage.house.get("/v1/daemon").json()["liveSessions"], 1);
    let metrics = stage.house.get("/metrics").body;
    for line in ["agentctl_sessions_active 1", "agentctl_locks_active{type=\"auto\"} 1"] {
        assert!(metrics.lines().any(|known| known == line), "{line}\n{metrics}");
    }

    // A live session is never hidden behind an idle one.
    stage.runs(false);
    assert_eq!(told(&mut events, "session.idle", KEY), Vec::<String>::new());
    live(&thread);
    stage.runs(true);
    assert_eq!(told(&mut events, "session.running", KEY), ["session.started"]);
    live(KEY);
    run.signal(Signal::KILL);
    run.wait(SOON);
    stage.carried_by(0);
    stage.runs(false);
    assert_eq!(told(&mut events, "session.idle", KEY), Vec::<String>::new());
    assert_eq!(stage.ids(&["-a"]), [KEY], "it can take the next message");
    let inbox = stage.house.run(&["inbox", "--json"]).ok().json();
    assert_eq!(inbox["items"], json!([]), "nobody waits, and the front has not failed");

    // A gateway that cannot be read says nothing, not even that another session is its own.
    let Stage { house, gateway, .. } = stage;
    drop(gateway);
    assert_eq!(house.run(&["list", "-a", "-q"]).stdout.trim(), thread);
}

/// The events of sessions before this one. No event of the native session behind the gateway session may
/// appear.
#[track_caller]
fn told(events: &mut Listener, kind: &str, id: &str) -> Vec<String> {
    let mut before = Vec::new();
    for _ in 0..100 {
        let event: Value = events.next();
        let name = event["type"].as_str().unwrap();
        let is_of_a_session = name.starts_with("session.");
        assert!(!is_of_a_session || event["sessionId"] == KEY, "{event:#}");
        if name == kind && event["sessionId"] == id {
            return before;
        }
        before.extend(is_of_a_session.then(|| name.to_owned()));
    }
    panic!("no {kind} of {id}: {before:?}");
}
