//! Limits of sessions: one warning at four fifths, then the session is ended once, whatever happens to the
//! daemon.

use std::fs;

use agentctl_testkit::{Background, Signal, skip, until, until_seen};
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::Receiver;

fn seen(house: &House, live: usize) {
    until_seen(SOON, "the sessions to be seen", || {
        let now = house.get("/v1/daemon").json()["liveSessions"].clone();
        if now == live { Ok(()) } else { Err(now) }
    });
}

fn no_fuse(house: &House) {
    until_seen(SOON, "the fuse to be gone", || {
        let fuses = house.get("/v1/fuses").json();
        if fuses["fuses"] == json!([]) { Ok(()) } else { Err(fuses) }
    });
}

#[test]
fn tokens_and_costs_are_warned_of_once_and_then_end_the_session() {
    let house = House::new();
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    // A dollar for each token.
    let prices = "[prices.m]\nin = 1000000\nout = 1000000\n";
    fs::write(house.home.agentctl_home().join("config.toml"), prices).unwrap();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "type=fuse.set&type=fuse.warned&type=fuse.expired", None);
    for limit in ["--max-tokens", "--max-cost"] {
        let mut agent = StandIn::start(&house.home);
        seen(&house, 1);
        let mut next = |kind: &str| {
            let event = events.next();
            assert_eq!((&event["type"], &event["sessionId"]), (&kind.into(), &agent.id.clone().into()));
        };
        let _ = house.run(&["fuse", "set", "--session", &agent.id, limit, "10"]).ok();
        next("fuse.set");
        agent.spend(7);
        agent.spend(1);
        next("fuse.warned");
        agent.spend(1);
        agent.spend(1);
        next("fuse.expired");
        until(SOON, "the end of the agent", || agent.has_ended().then_some(()));
        no_fuse(&house);
        seen(&house, 0);
    }
}

#[test]
fn a_time_is_warned_of_and_then_ends_the_session() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut agent = StandIn::start(&house.home);
    seen(&house, 1);
    let mut events = Listener::open(&house, "type=fuse.warned&type=fuse.expired", None);
    // Three seconds lie between the warning and the end: a daemon that sleeps through them has nothing left to warn of.
    let _ = house.run(&["fuse", "set", "--session", &agent.id, "--max-time", "15s"]).ok();
    let warned = events.next();
    assert_eq!((&warned["type"], &warned["session"]["status"]), (&"fuse.warned".into(), &"running".into()));
    assert_eq!(events.next()["type"], "fuse.expired");
    until(SOON, "the end of the agent", || agent.has_ended().then_some(()));
    no_fuse(&house);
}

/// The time ran out while no daemon ran, and the next one dies at every step of the expiry.
#[test]
fn a_limit_reached_while_down_is_told_once_and_ends_the_session() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    let house = House::new();
    let home = house.home.agentctl_home();
    fs::create_dir_all(&home).unwrap();
    let steps = ["begin", "written", "synced", "renamed", "done"];
    // The first write records that the limit was reached, the second that the session was interrupted.
    let mut points: Vec<String> = steps.map(|step| format!("fuses.{step}#1")).into();
    points.extend(["limit.reached", "limit.told", "outbox.begin", "outbox.renamed"].map(str::to_owned));
    points.extend(steps[..3].iter().map(|step| format!("fuses.{step}#2")));
    if std::env::var_os("AGENTCTL_LONG").is_some() {
        // After that the next daemon gives the session its ten seconds.
        points.extend(steps[3..].iter().map(|step| format!("fuses.{step}#2")));
    }
    for (number, point) in points.iter().enumerate() {
        let (ran, receiver) = (house.home.path().join(format!("ran-{number}")), Receiver::start(&[]));
        let mut agent = StandIn::start(&house.home);
        let id = format!("f-{number}");
        let fuse = json!({
            "id": id, "directory": null, "sessionId": agent.id, "adapter": "claude-code",
            "configRoot": house.home.path().join(".claude"), "slot": null, "label": null,
            "setAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-01T01:00:00Z", "maxTokens": null,
            "maxCost": null, "stage": "set", "stageAt": "2026-01-01T00:00:00Z",
            "onExpire": {"script": format!("echo ran >> {}", ran.display()), "webhook": receiver.url, "event": null},
        });
        fs::write(home.join("fuses.json"), json!({"version": 1, "fuses": [fuse]}).to_string()).unwrap();
        let mut command = house.home.agentctl_command(&["daemon", "run"]);
        command.env("AGENTCTL_FAULT", point);
        let mut doomed = Background::spawn(&house.home, command);
        assert_eq!(doomed.wait(SOON).code(), None, "it dies at {point}: {}", doomed.stderr());
        let stored: Value = serde_json::from_slice(&fs::read(home.join("fuses.json")).unwrap()).unwrap();
        assert_eq!(stored["fuses"][0]["id"], id.as_str(), "{point}");
        let mut next = house.daemon(&[]);
        no_fuse(&house);
        until(SOON, "the end of the agent", || agent.has_ended().then_some(()));
        until(SOON, "an empty outbox", || (crate::webhooks::pending(&house) == 0).then_some(()));
        let told = receiver.accepted(1);
        assert!(told.iter().all(|one| one.header("X-Agentctl-Delivery") == Some(id.as_str())), "{point}");
        until(SOON, "the script", || fs::read_to_string(&ran).ok().filter(|text| !text.is_empty()));
        next.signal(Signal::TERM);
        next.wait(SOON);
        assert_eq!(fs::read_to_string(&ran).unwrap(), "ran\n", "{point}: once");
    }
    let left = fs::read_dir(&home).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".new")).collect();
    assert!(left.is_empty(), "{left:?}");
}
