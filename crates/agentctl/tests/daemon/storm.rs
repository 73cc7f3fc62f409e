//! Receivers that fail in every way while the daemon is killed between any two steps: everything in the
//! outbox arrives, in order and complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use agentctl_testkit::{Background, skip, until, until_seen};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::{Mood, Received, Receiver, configure, pending};

fn outbox(house: &House) -> PathBuf {
    house.home.agentctl_home().join("outbox")
}

/// The ids of the files there. All of them must be complete, except for what a crash left, which is never
/// read.
fn in_the_outbox(house: &House, point: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(outbox(house)).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path());
    let whole = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let read = whole.map(|path| {
        let delivery: Value = serde_json::from_slice(&fs::read(&path).unwrap())
            .unwrap_or_else(|error| panic!("{point}: {} is half-written: {error}", path.display()));
        delivery["id"].as_str().unwrap().to_owned()
    });
    read.collect()
}

/// Two sessions from their start to their end, as far as a daemon is there to see it.
fn live_through(house: &House, daemon: &mut Background) {
    let number = || -> Option<u64> {
        let cursor = house.try_get("/v1/daemon")?.json()["cursor"].as_str()?.to_owned();
        cursor.rsplit('-').next()?.parse().ok()
    };
    let mut happened = 0;
    let mut told = |daemon: &mut Background, count: u64| {
        happened += count;
        until(SOON, "it to be told", || {
            let told = number().is_some_and(|number| number >= happened);
            (told || daemon.try_wait().is_some()).then_some(())
        });
    };
    let mut agents = [StandIn::start(&house.home), StandIn::start(&house.home)];
    // Each starts, runs and holds its folder; is idle; runs again; stops and leaves it.
    told(daemon, 6);
    agents.iter().for_each(StandIn::finish);
    told(daemon, 2);
    for agent in &agents {
        agent.say("busy");
    }
    told(daemon, 2);
    agents.iter_mut().for_each(StandIn::kill);
    told(daemon, 4);
}

#[test]
fn no_webhook_is_lost_in_any_order_of_failures() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 10 } else { 1 };
    let house = House::new();
    let receiver = Receiver::start(&[]);
    configure(&house, &receiver.url);
    let kinds = json!(["session.started", "session.running", "session.idle", "session.stopped"]);
    let config = fs::read_to_string(house.home.agentctl_home().join("config.toml")).unwrap();
    let config = config.replace("[\"session.stopped\"]", &kinds.to_string());
    fs::write(house.home.agentctl_home().join("config.toml"), config).unwrap();

    let steps = ["begin", "written", "synced", "renamed", "done"];
    let writes = ["outbox", "retry"].iter().flat_map(|what| steps.map(|step| format!("{what}.{step}")));
    let points: Vec<String> = writes.chain(["delivered.begin".into(), "delivered.removed".into()]).collect();
    let mut dice = Dice(11);
    let mut owed = BTreeSet::new();
    for (number, point) in points.iter().cycle().take(points.len() * rounds).enumerate() {
        if number % points.len() == 0 {
            // Each start is a further try, and the number of tries is limited.
            receiver.will_be([]);
            let _kind = house.daemon(&[]);
            until(SOON, "an empty outbox", || (pending(&house) == 0).then_some(()));
        }
        // The first delivery of each session fails, so that there is something to retry.
        let mut moods = vec![Mood::Error, Mood::Drop];
        moods.extend((0..dice.roll(3)).map(|_| dice.pick(&[Mood::Error, Mood::Drop, Mood::Hang])));
        receiver.will_be(moods);
        // Ten are put and delivered in each round, and at least two are retried.
        let times = if point.starts_with("retry") { 2 } else { 8 };
        let armed = format!("{point}#{}", 1 + dice.roll(times));
        let mut command = house.home.agentctl_command(&["daemon", "run"]);
        command.env("AGENTCTL_FAULT", &armed);
        let mut doomed = Background::spawn(&house.home, command);
        until(SOON, "it to serve or to die", || {
            (house.try_get("/v1/daemon").is_some() || doomed.try_wait().is_some()).then_some(())
        });
        live_through(&house, &mut doomed);
        assert_eq!(doomed.wait(SOON).code(), None, "it dies at {armed}");
        owed.extend(in_the_outbox(&house, &armed));
    }
    receiver.will_be([]);
    let _last = house.daemon(&[]);
    until_seen(SOON, "an empty outbox", || match pending(&house) {
        0 => Ok(()),
        left => Err(left),
    });
    let id = |one: &Received| one.header("X-Agentctl-Delivery").unwrap().to_owned();
    let accepted: Vec<Received> = receiver.received().into_iter().filter(|one| one.accepted).collect();
    let arrived: BTreeSet<String> = accepted.iter().map(id).collect();
    let lost: Vec<&String> = owed.difference(&arrived).collect();
    assert!(lost.is_empty() && owed.len() >= points.len(), "lost {lost:?} of {}", owed.len());
    // For each session in the order of events; a duplicate has the same content.
    let mut newest: BTreeMap<String, jiff::Timestamp> = BTreeMap::new();
    let mut bodies: BTreeMap<String, String> = BTreeMap::new();
    for one in &accepted {
        if let Some(before) = bodies.insert(id(one), one.body.clone()) {
            assert_eq!(before, one.body);
            continue;
        }
        let body: Value = serde_json::from_str(&one.body).unwrap();
        let text = |key: &str| body[key].as_str().unwrap();
        let at: jiff::Timestamp = text("timestamp").parse().unwrap();
        let before = newest.insert(text("session_id").to_owned(), at);
        assert!(before.is_none_or(|before| before <= at), "{body} came too late, after {before:?}");
    }
    let halves = fs::read_dir(outbox(&house)).unwrap().flatten();
    let halves = halves.filter(|entry| entry.file_name().to_string_lossy().ends_with(".new"));
    assert_eq!(halves.count(), 0, "nothing half-written stays");
    assert_eq!(house.get("/v1/daemon").json()["outbox"]["dead"], 0);
}

#[test]
fn what_is_given_up_is_shown_and_kept() {
    let house = House::new();
    let receiver = Receiver::start(&[Mood::Error]);
    configure(&house, &receiver.url);
    fs::create_dir_all(outbox(&house)).unwrap();
    // It has been tried so often that the next failure is the last one.
    let name = "00000000000000000001-x.json";
    let delivery = json!({"version": 1, "id": "x", "order": "a", "url": null, "tries": 29, "body": "{}"});
    fs::write(outbox(&house).join(name), delivery.to_string()).unwrap();
    let _daemon = house.daemon(&[]);
    until_seen(SOON, "it to be given up", || {
        let status = house.run(&["daemon", "status"]).ok().stdout;
        let given_up =
            status.contains("0 to deliver, 1 given up") && status.contains("the receiver answered 500");
        if given_up { Ok(()) } else { Err(status) }
    });
    assert!(outbox(&house).join("dead").join(name).exists());
    assert!(house.run(&["daemon", "logs"]).ok().stdout.contains("webhook x: the receiver answered 500"));
}
