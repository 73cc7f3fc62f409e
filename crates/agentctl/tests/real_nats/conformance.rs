//! A machine answers the bus as it answers its own socket.

use std::fs;
use std::path::Path;

use agentctl_hosts::nats::message::PART;
use serde_json::{Value, json};

use crate::house::{copy, forget_moments, recorded_homes};
use crate::scene::{Asker, Machine, door, get, open_server, reach};

/// Puts a recorded home in the place of the machine's, but for what is agentctl's own.
fn move_in(machine: &Machine, recorded: &Path) {
    let home = machine.house.home.path();
    for entry in fs::read_dir(&home).unwrap().flatten() {
        if entry.path() != machine.house.home.agentctl_home() {
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir_all(entry.path()).unwrap();
            } else {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
    copy(recorded, &home);
}

fn plain(bytes: &[u8]) -> Value {
    let mut value = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {bytes:?}"));
    forget_moments(&mut value);
    value
}

#[test]
fn every_recorded_home_gets_the_answer_of_its_socket() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let machine = Machine::start("dev1", &server.url(), "serve = \"read\"");
    let bus = door(&server.url(), "ann", None);
    let mut road = reach(&bus, &machine.name);
    let mut same = |target: &str| {
        let far = get(&mut road, target);
        let near = machine.house.get(target);
        assert_eq!(far.status, near.status, "{target}");
        let (far, near) = (plain(&far.body), plain(near.body.as_bytes()));
        assert_eq!(far, near, "{target}");
        near
    };
    for recorded in recorded_homes() {
        move_in(&machine, &recorded);
        let list = same("/v1/sessions?since=all&all-agents=true&usage=true");
        same("/v1/sessions?since=all&limit=1&sort=name");
        same("/v1/inbox");
        let most = if std::env::var_os("AGENTCTL_LONG").is_some() { usize::MAX } else { 1 };
        for session in list["sessions"].as_array().unwrap().iter().take(most) {
            let id = session["id"].as_str().unwrap();
            same(&format!("/v1/sessions/{id}"));
            same(&format!("/v1/sessions/{id}/explain"));
            same(&format!("/v1/sessions/{id}/messages?limit=5"));
        }
    }
    for target in [
        "/v1/locks",
        "/v1/groups",
        "/v1/fuses",
        "/v1/adapters",
        "/v1/nothing",
        "/v1/sessions?odd=1",
        "/v1/sessions/none",
    ] {
        same(target);
    }
    same("/openapi.json");
    // This one does not fit into one message.
    let folder = machine.house.home.path().join(".claude/projects/-many");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..400 {
        let id = format!("{number:08}-0000-4000-8000-000000000000");
        let line = json!({"type": "user", "sessionId": id, "cwd": "/many", "timestamp": "2026-01-01T00:00:00Z",
            "uuid": id, "message": {"role": "user", "content": "x".repeat(400)}});
        fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
    }
    let many = same("/v1/sessions?since=all");
    assert!(many.to_string().len() > PART, "{}", many.to_string().len());

    // As commands show it: the machine is named as it was asked for.
    move_in(&machine, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home"));
    let own = machine.house.run(&["list", "--since", "all", "--json"]).ok().json();
    let far = asker.home.agentctl(&["list", "--since", "all", "--json", "--host", "dev1"]).ok().json();
    let all = asker.home.agentctl(&["list", "--since", "all", "--json", "--host", "all"]).ok().json();
    assert!(own["sessions"].as_array().unwrap().len() > 3);
    let told = |list: &Value| {
        let mut sessions = list["sessions"].clone();
        forget_moments(&mut sessions);
        for session in sessions.as_array_mut().unwrap() {
            session["host"] = "dev1".into();
        }
        sessions
    };
    assert_eq!(told(&far), told(&own));
    assert_eq!(told(&all), told(&own));
    assert!(far["sessions"].as_array().unwrap().iter().all(|session| session["host"] == "dev1"), "{far:#}");
    assert!(machine.log().contains("serves the bus"), "{}", machine.log());
}
