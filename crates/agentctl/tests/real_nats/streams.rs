//! Streams over the bus: events with their cursors, and what is published for everybody.

use std::time::Duration;

use agentctl_hosts::Ask;
use agentctl_testkit::nats::RawNats;
use agentctl_testkit::until;
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE, connect, door, open_server, post, reach};

const NOTHING: Duration = Duration::from_millis(300);

#[test]
fn events_come_with_their_cursors_and_none_is_lost_or_told_twice() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let machine = Machine::start("dev1", &server.url(), "serve = \"act\"");
    let bus = door(&server.url(), "ann", None);
    let mut road = reach(&bus, &machine.name);
    let mut published = RawNats::connect(server.port).unwrap();
    published.subscribe("agentctl.event.dev1.>", "", 1).unwrap();
    published.settle().unwrap();
    let mut events = connect(&bus, &machine.name).unwrap().listen("/v1/events", None, PATIENCE).unwrap();
    assert_eq!(events.next(Some(NOTHING)).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    let directory = machine.house.home.work_dir("locked");
    let lock = |road: &mut Box<dyn agentctl_hosts::Connection>| {
        let (status, locked) = post(road, "/v1/locks", &json!({"directory": directory}));
        assert_eq!(status, 200, "{locked:#}");
    };
    lock(&mut road);
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "lock.acquired");
    let target = format!("/v1/locks?directory={}", directory.display());
    assert_eq!(road.ask(Ask::write("DELETE", &target, ""), PATIENCE).unwrap().status, 200);
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "lock.released");
    let first = published.receive().unwrap();
    assert_eq!(first.subject, "agentctl.event.dev1.lock.acquired");
    let first: Value = serde_json::from_slice(&first.payload).unwrap();
    assert!(first["cursor"].is_string() && first["type"] == "lock.acquired", "{first:#}");

    // Who comes back with a cursor hears the rest, and nothing a second time.
    let cursor = first["cursor"].as_str().unwrap();
    let mut again =
        connect(&bus, &machine.name).unwrap().listen("/v1/events", Some(cursor), PATIENCE).unwrap();
    assert_eq!(again.next(Some(PATIENCE)).unwrap().unwrap().kind, "lock.released");
    assert_eq!(again.next(Some(NOTHING)).unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    drop(again);
    lock(&mut road);
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "lock.acquired");
    let cursor = events.cursor().map(str::to_owned).unwrap();
    drop(events);

    // A new daemon cannot know what was missed, and says so.
    let mut machine = machine;
    machine.daemon = None;
    machine.resume();
    let mut events = until(PATIENCE, "the new daemon on the bus", || {
        connect(&bus, &machine.name).ok()?.listen("/v1/events", Some(&cursor), PATIENCE).ok()
    });
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "reset");
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "snapshot");
}

/// The server keeps events only where the administrator asked for it.
#[test]
fn events_are_kept_only_where_it_was_asked_for() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(async_nats::connect(server.url())).unwrap();
    let ask = |what: &str, body: Value| -> Value {
        let subject = format!("$JS.API.STREAM.{what}.agentctl_events");
        let reply = runtime.block_on(client.request(subject, body.to_string().into())).unwrap();
        serde_json::from_slice(&reply.payload).unwrap()
    };
    assert_eq!(ask("INFO", json!({}))["error"]["code"], 404);
    asker.configure(&server.url(), "ann", "history = \"2d\"");
    let made = asker.home.agentctl(&["hosts", "init"]).ok().stdout;
    assert!(made.contains("for 2d"), "{made}");
    assert_eq!(ask("INFO", json!({}))["config"]["max_age"], 172_800_000_000_000_u64);
    let mut machine = Machine::start("dev1", &server.url(), "serve = \"act\"");
    let bus = door(&server.url(), "ann", None);
    let mut road = reach(&bus, &machine.name);
    let (status, locked) =
        post(&mut road, "/v1/locks", &json!({"directory": machine.house.home.work_dir("locked")}));
    assert_eq!(status, 200, "{locked:#}");
    let kept = until(PATIENCE, "the event to be kept", || {
        let kept = ask("MSG.GET", json!({"last_by_subj": "agentctl.event.dev1.lock.acquired"}));
        kept["message"]["data"].as_str().map(str::to_owned)
    });
    let kept = data_encoding::BASE64.decode(kept.as_bytes()).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    assert!(kept["cursor"].is_string() && kept["type"] == "lock.acquired", "{kept:#}");
    // What happened while no daemon looked is in no history, so a new one says that something was missed.
    machine.daemon = None;
    machine.resume();
    let cursor = kept["cursor"].as_str().unwrap();
    let mut events = until(PATIENCE, "the new daemon on the bus", || {
        connect(&bus, &machine.name).ok()?.listen("/v1/events", Some(cursor), PATIENCE).ok()
    });
    assert_eq!(events.next(Some(PATIENCE)).unwrap().unwrap().kind, "reset");
    let again = asker.home.agentctl(&["hosts", "init"]).ok().stdout;
    assert!(again.contains("already"), "{again}");
    asker.configure(&server.url(), "ann", "history = \"never\"");
    assert_ne!(asker.home.agentctl(&["hosts", "init"]).code, Some(0));
}
