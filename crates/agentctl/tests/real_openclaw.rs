//! A real OpenClaw gateway, heard from outside: runs, cron jobs, hooks, approvals, and its ends.

use std::time::Duration;

use agentctl_adapters::openclaw::{Decision, Gateway, Launch, Launched, OpenClaw as Adapter};
use agentctl_adapters::{Adapter as _, Root};
use agentctl_testkit::openclaw::CAREFUL;
use agentctl_testkit::{Background, FakeModel, OpenClaw, Signal, TestHome, skip, until, until_seen};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(3);
/// Posts to the hook; all of them with `AGENTCTL_LONG`.
#[expect(clippy::disallowed_methods, reason = "a test may ask how long it shall be")]
fn posts() -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { 50 } else { 8 }
}

/// A gateway with a model and a home of its own.
struct Scene {
    model: FakeModel,
    home: TestHome,
    openclaw: OpenClaw,
    gateway: Background,
}

impl Scene {
    /// `None` when it cannot be had here, which was said.
    fn set() -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        let openclaw = match OpenClaw::settle(&mut home, &model.url()) {
            Ok(openclaw) => openclaw,
            Err(reason) => {
                skip(reason);
                return None;
            }
        };
        // On a busy machine a gateway can be silent for seconds.
        let settings = home.path().join(".agentctl/config.toml");
        std::fs::create_dir_all(settings.parent().expect("a folder")).expect("make our folder");
        std::fs::write(settings, "[adapters.openclaw]\ntimeout = \"60s\"\n").expect("write our settings");
        let gateway = openclaw.start(&home);
        Some(Self { model, home, openclaw, gateway })
    }

    fn list(&self) -> Value {
        let all = ["list", "--all", "--since", "all", "--all-agents", "--json", "--adapter", "openclaw"];
        self.home.agentctl(&all).ok().json()
    }

    /// Its sessions, when it was heard. One that thinks for too long on a busy machine says nothing about anybody.
    fn rows(&self) -> Vec<Value> {
        until_seen(PATIENCE, "a whole list", || {
            let list = self.list();
            if list["sources"][0]["coverage"] == "complete" {
                return Ok(list["sessions"].as_array().expect("sessions").clone());
            }
            assert_eq!(list["sessions"], json!([]), "{list:#}");
            Err(format!("{list:#}"))
        })
    }

    fn wait_for(&self, key: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let seen = until_seen(PATIENCE, what, || {
            let rows = self.rows();
            let mut of_key = rows.iter().filter(|row| row["id"] == key);
            let row = of_key.next().cloned().unwrap_or_default();
            assert!(of_key.next().is_none(), "{key} twice: {rows:#?}");
            if fits(&row) { Ok(row) } else { Err(format!("{row:#}")) }
        });
        // The same function answers both (N7); it may have moved on meanwhile.
        let one = self.home.agentctl(&["status", key, "--json"]).ok().json();
        if one["updatedAt"] == seen["updatedAt"] && one["status"] != seen["status"] {
            let again = self.rows().into_iter().find(|row| row["id"] == key).unwrap_or_default();
            assert_eq!(again["status"], one["status"], "{again:#} {one:#}");
        }
        seen
    }

    fn root(&self) -> Root {
        Adapter.root(&[("HOME", self.home.path())].into_iter().collect()).expect("a root")
    }

    fn door(&self) -> Gateway {
        Gateway::of(&self.root()).expect("an address")
    }

    fn launch(&self, message: &str, name: &str) -> Launched {
        let launch = Launch { message, name: Some(name), ..Launch::default() };
        self.door().launch(&launch).unwrap_or_else(|trouble| panic!("{trouble}"))
    }

    fn source(&self) -> Value {
        self.list()["sources"][0].clone()
    }
}

fn words(row: &Value) -> (&str, Option<&str>) {
    (row["status"].as_str().unwrap_or("missing"), row["outcome"].as_str())
}

#[test]
fn runs_are_seen_from_their_start_to_their_end() {
    let Some(scene) = Scene::set() else { return };
    assert_eq!(scene.source()["root"], scene.openclaw.url(), "found by OpenClaw's own config");
    assert!(scene.rows().is_empty());

    // Running, with what it says so far.
    let slow = scene.launch("[[slow:600|500]] tell me", "slow one");
    let running = scene.wait_for(&slow.key, "a run", |row| words(row) == ("running", None));
    assert_eq!(
        (running["name"].as_str(), running["model"].as_str()),
        (Some("slow one"), Some("fake/fake-1"))
    );
    assert_eq!(running["meta"]["sessionId"].as_str(), slow.session_id.as_deref());
    assert_eq!((&running["pid"], &running["evidence"][0]["source"]), (&Value::Null, &json!("gateway")));
    let peeked = until_seen(PATIENCE, "words of the running turn", || {
        let said = scene.home.agentctl(&["peek", &slow.key, "--json"]).ok().stdout;
        if said.contains("part 2") { Ok(said) } else { Err(said) }
    });
    assert!(peeked.contains("tell me"), "{peeked}");

    // One that ends well, one that fails, while the first one runs on.
    let done = scene.launch("[[usage:7,3,0,0]] [[bash:echo hi]] [[text:All is well.]] go", "tool one");
    let row = scene.wait_for(&done.key, "its end", |row| row["outcome"] == "completed");
    assert_eq!(words(&row), ("idle", Some("completed")), "{row:#}");
    let status = scene.home.agentctl(&["status", &done.key, "--json"]).ok().json();
    assert_eq!(status["lastMessage"], "All is well.", "{status:#}");
    assert!(
        status["prompt"].as_str().is_some_and(|prompt| prompt.contains("[[bash:echo hi]]")),
        "{status:#}"
    );
    assert_eq!((&status["tokens"]["in"], &status["tokens"]["out"]), (&json!(14), &json!(6)), "{status:#}");
    let peeked = scene.home.agentctl(&["peek", &done.key, "--json"]).ok().stdout;
    assert!(peeked.contains("echo hi") && peeked.contains("All is well."), "{peeked}");
    let failed = scene.launch("[[err:400|no such thing]] go", "err one");
    let row = scene.wait_for(&failed.key, "its failure", |row| row["outcome"] == "failed");
    assert_eq!(row["status"], "idle", "{row:#}");
    assert!(row["statusDetail"].is_string(), "{row:#}");

    // A plain list shows who is at work, and not the ready ones of a gateway.
    let live = scene.home.agentctl(&["list", "-q"]).ok().stdout;
    assert_eq!(live.lines().collect::<Vec<_>>(), [slow.key.as_str()]);

    // Stopped by us: the session stays, and takes the next message.
    let stopped = scene.door().stop(&slow.key).expect("stop");
    assert_eq!((stopped.aborted, stopped.run_ids.len()), (true, 1));
    let row = scene.wait_for(&slow.key, "the interruption", |row| row["status"] == "idle");
    assert_eq!(words(&row), ("idle", Some("interrupted")), "{row:#}");
    assert!(!scene.door().stop(&slow.key).expect("stop again").aborted, "nothing left to stop");
    let sent = scene.door().send(&slow.key, "[[text:Back again.]] go on", Some("once")).expect("send");
    assert!(sent.run_id.is_some());
    let row = scene.wait_for(&slow.key, "the next turn", |row| row["outcome"] == "completed");
    assert_eq!(row["meta"]["sessionId"].as_str(), slow.session_id.as_deref(), "the same conversation");
    assert!(scene.door().send("agent:main:nobody", "x", None).is_err(), "an unknown session is not made");
    waits_for_an_approval(&scene);
    assert!(scene.model.requests().len() > 4);
}

/// A guarded command waits for a person; allowed, it goes on.
fn waits_for_an_approval(scene: &Scene) {
    // Approvals are raised only while somebody is connected who can show them.
    let _person = scene.openclaw.rpc(&["exec-approvals", "approvals"]).stay();
    let guarded = Launch {
        message: "[[bash:touch made-by-the-test && echo made]] [[text:Made.]] go",
        agent: Some(CAREFUL),
        ..Launch::default()
    };
    let launched = scene.door().launch(&guarded).unwrap_or_else(|trouble| panic!("{trouble}"));
    let row = scene.wait_for(&launched.key, "the question", |row| row["status"] == "waiting");
    assert_eq!(row["pending"][0]["kind"], "approval", "{row:#}");
    assert!(
        row["pending"][0]["summary"].as_str().is_some_and(|words| words.contains("touch made-by")),
        "{row:#}"
    );
    let approval = until(PATIENCE, "the approval", || scene.door().approvals().ok()?.pop());
    scene.door().decide(&approval.id, Decision::AllowOnce).unwrap_or_else(|trouble| panic!("{trouble}"));
    let row = scene.wait_for(&launched.key, "its end", |row| row["status"] == "idle");
    assert_eq!(words(&row), ("idle", Some("completed")), "{row:#}");
}

#[test]
fn automations_leave_no_ghosts() {
    let Some(scene) = Scene::set() else { return };
    let rpc = || scene.openclaw.rpc(&[]);
    let job = rpc()
        .call(
            "cron.add",
            &json!({
                "name": "nightly", "enabled": true, "schedule": {"kind": "every", "everyMs": 86_400_000},
                "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
                "payload": {"kind": "agentTurn", "message": "[[slow:12|500]] cron work"},
            }),
        )
        .expect("a cron job");
    let id = job["id"].as_str().or(job["job"]["id"].as_str()).expect("its id").to_owned();
    let key = format!("agent:main:cron:{id}");
    let mut generations = Vec::new();
    for run in 1..=2 {
        rpc().call("cron.run", &json!({"id": id, "mode": "force"})).expect("a run");
        scene.wait_for(&key, "the running job", |row| row["status"] == "running");
        let row = scene.wait_for(&key, "its end", |row| row["status"] == "stopped");
        assert_eq!(words(&row), ("stopped", Some("completed")), "run {run}: {row:#}");
        assert!(row["name"].as_str().is_some_and(|name| name.contains("nightly")), "{row:#}");
        generations.push(row["meta"]["sessionId"].clone());
        let cron = scene
            .rows()
            .iter()
            .filter(|row| row["id"].as_str().is_some_and(|id| id.contains(":cron:")))
            .count();
        assert_eq!(cron, 1, "one session, however often it runs");
    }
    assert_ne!(generations[0], generations[1], "each run has its own transcript");

    // On a busy machine the gateway turns some of them away.
    let accepted = (0..posts())
        .filter(|post| scene.openclaw.post_hook(&format!("[[text:post {post}]]"))["ok"] == true)
        .count();
    assert!(accepted > 0);
    let settled = until_seen(PATIENCE, "the end of every post", || {
        let rows = scene.rows();
        let active = rows.iter().filter(|row| row["status"] == "running").count();
        // The gateway's own count can only be compared when nothing moves.
        let own = rpc().call("sessions.list", &json!({"limit": 1000})).expect("the list");
        let own = own["sessions"].as_array().expect("rows").clone();
        let busy = own.iter().filter(|row| row["hasActiveRun"] == true).count();
        if rows.len() == own.len() && rows.len() > accepted && active == 0 && busy == 0 {
            Ok(rows)
        } else {
            Err(format!("{} of {} rows, {active} active, {busy} by its own count", rows.len(), own.len()))
        }
    });
    assert!(settled.iter().all(|row| row["status"] == "stopped"), "{settled:#?}");
    assert!(scene.home.agentctl(&["list", "-q"]).ok().stdout.is_empty(), "nobody is live");
    rpc().call("cron.remove", &json!({"id": id})).expect("remove the job");
    until_seen(PATIENCE, "the job's row to go", || {
        let rows = scene.rows();
        if rows.iter().any(|row| row["id"] == key.as_str()) { Err(format!("{rows:#?}")) } else { Ok(()) }
    });
}

#[test]
fn when_the_gateway_is_away_nothing_is_said_and_afterwards_the_truth() {
    let Some(mut scene) = Scene::set() else { return };
    let run = scene.launch("[[hang:door]] [[text:Done after all.]] go", "long one");
    scene.wait_for(&run.key, "the run", |row| row["status"] == "running");
    scene.model.wait_turn("[[hang:door]]", 0);

    scene.gateway.signal(Signal::KILL);
    scene.gateway.wait(PATIENCE);
    let silent = |scene: &Scene| {
        let list = scene.list();
        assert_eq!(list["sources"][0]["coverage"], "failed", "{list:#}");
        assert_eq!(list["sources"][0]["error"], "connection refused", "{list:#}");
        assert_eq!(list["sessions"], json!([]), "no verdict about anybody");
        let asked = scene.home.agentctl(&["status", &run.key, "--json"]);
        assert_eq!(asked.code, Some(6), "silence is no verdict: {asked:?}");
        let strict = scene.home.agentctl(&["list", "--strict", "--json"]);
        assert_eq!(strict.code, Some(6), "{strict:?}");
    };
    silent(&scene);

    // The next life: the gateway may take the run up again by itself, or leave it; never is it called stopped.
    scene.gateway = scene.openclaw.start(&scene.home);
    scene.model.open("door");
    let row = scene.wait_for(&run.key, "the truth after the crash", |row| {
        matches!(row["status"].as_str(), Some("running" | "idle"))
    });
    assert_eq!(row["meta"]["sessionId"].as_str(), run.session_id.as_deref(), "{row:#}");

    let other = scene.launch("[[text:Still here.]] go", "after the crash");
    scene.wait_for(&other.key, "a run after the crash", |row| row["outcome"] == "completed");
    scene.wait_for(&run.key, "rest", |row| row["status"] == "idle");
    scene.gateway.signal(Signal::TERM);
    scene.gateway.wait(PATIENCE);
    silent(&scene);
}
