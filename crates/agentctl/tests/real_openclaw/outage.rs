//! The ends of the gateway, as the commands and the daemon's events show them.

use agentctl_testkit::{Background, Signal, until_seen};
use serde_json::{Value, json};

use crate::scene::{Scene, TIMEOUT, words};

/// The events of the daemon, from the moment of the connection.
struct Stream(Background);

impl Stream {
    fn listen(scene: &Scene) -> Self {
        let mut events = scene.home.agentctl_command(&["events"]);
        // It starts the daemon, which ends with the home.
        events.env_remove("AGENTCTL_NO_DAEMON");
        let stream = Self(Background::spawn(&scene.home, events));
        until_seen(TIMEOUT, "the daemon", || {
            let status = scene.home.agentctl(&["daemon", "status", "--json"]);
            if status.code == Some(0) { Ok(()) } else { Err(format!("{status:?}")) }
        });
        stream
    }

    fn all(&self) -> Vec<Value> {
        self.0.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn count(&self, kind: &str) -> usize {
        self.all().iter().filter(|event| event["type"] == kind).count()
    }

    /// Waits for this many events of this type.
    fn until(&self, kind: &str, count: usize) {
        until_seen(TIMEOUT, kind, || {
            if self.count(kind) >= count { Ok(()) } else { Err(format!("{:#?}", self.all())) }
        });
    }
}

#[test]
fn when_the_gateway_is_away_nothing_is_said_and_afterwards_the_truth() {
    let Some(mut scene) = Scene::set() else { return };
    let place = scene.home.work_dir("held");
    let _ = scene.home.agentctl(&["lock", place.to_str().expect("text"), "--by", "me"]).ok();
    let locks = |scene: &Scene| scene.home.agentctl(&["locks", "--json"]).ok().json()["locks"].clone();
    let held = locks(&scene);
    let stream = Stream::listen(&scene);
    let run = scene.launch_key("[[hang:door]] [[text:Done after all.]] go");
    scene.model.wait_turn("[[hang:door]]", 0);
    stream.until("session.started", 1);
    let before = scene.wait_for(&run, "the run", |row| row["status"] == "running");

    let silent = |scene: &Scene| {
        let list = scene.list();
        assert_eq!(list["sources"][0]["coverage"], "failed", "{list:#}");
        assert_eq!(list["sources"][0]["error"], "connection refused", "{list:#}");
        assert_eq!(list["sessions"], json!([]), "no verdict about anybody");
        let asked = scene.home.agentctl(&["status", &run, "--json"]);
        assert_eq!(asked.code, Some(6), "silence is no verdict: {asked:?}");
        let strict = scene.home.agentctl(&["list", "--strict", "--json"]);
        assert_eq!(strict.code, Some(6), "{strict:?}");
        assert_eq!(locks(scene), held, "no lock changed");
    };
    scene.gateway.signal(Signal::KILL);
    scene.gateway.wait(TIMEOUT);
    silent(&scene);
    stream.until("source.failed", 1);
    let of_run = |event: &&Value| event["sessionId"] == run.as_str();
    let ends = ["session.idle", "session.stopped", "session.gone"];
    let ended = |event: &Value| ends.iter().any(|end| event["type"] == *end);
    assert!(!stream.all().iter().filter(of_run).any(ended), "{:#?}", stream.all());

    // After the restart the gateway may or may not continue the run by itself; it is never called stopped.
    scene.gateway = scene.openclaw.start(&scene.home);
    stream.until("source.recovered", 1);
    scene.model.open("door");
    let row = scene.wait_for(&run, "the truth after the crash", |row| {
        matches!(row["status"].as_str(), Some("running" | "idle"))
    });
    assert_eq!(row["meta"]["sessionId"], before["meta"]["sessionId"], "{row:#}");

    // Helpers of the killed gateway may hold its database for a while, and turns fail until they are gone.
    until_seen(TIMEOUT, "a turn after the crash", || {
        let other = ["launch", "openclaw", "-p", "[[text:Still here.]] go", "--wait", "--json"];
        let other = scene.home.agentctl(&other);
        if other.code == Some(0) { Ok(()) } else { Err(format!("{other:?}")) }
    });
    scene.wait_for(&run, "rest", |row| row["status"] == "idle");
    // The other turn is short: where the daemon has not reached the new gateway by then, it falls between two looks.
    until_seen(TIMEOUT, "the end of the run", || {
        let is_told = |event: &Value| of_run(&event) && event["type"] == "session.idle";
        if stream.all().iter().any(is_told) { Ok(()) } else { Err(format!("{:#?}", stream.all())) }
    });
    drains(&mut scene);
    silent(&scene);
    stream.until("source.failed", 2);
    let stopped = ["session.stopped", "session.gone"].map(|kind| stream.count(kind));
    assert_eq!(stopped, [0, 0], "nobody was called stopped: {:#?}", stream.all());
    assert_eq!(locks(&scene), held);
}

/// A gateway that is asked to end finishes its work first. Until then the run is running, or nothing is
/// reported.
fn drains(scene: &mut Scene) {
    let run = scene.launch_key("[[hang:last]] [[text:Just in time.]] go");
    scene.model.wait_turn("[[hang:last]]", 0);
    scene.wait_for(&run, "the last run", |row| row["status"] == "running");
    scene.gateway.signal(Signal::TERM);
    for _ in 0..3 {
        let list = scene.list();
        let row = list["sessions"].as_array().expect("sessions").iter().find(|row| row["id"] == run.as_str());
        match row {
            Some(row) => assert_eq!(words(row), ("running", None), "{row:#}"),
            None => assert_eq!(list["sources"][0]["coverage"], "failed", "{list:#}"),
        }
    }
    assert!(scene.gateway.try_wait().is_none(), "it drains");
    scene.model.open("last");
    scene.gateway.wait(TIMEOUT);
}
