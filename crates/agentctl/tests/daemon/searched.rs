//! Search and usage over HTTP: the same answers as on the command line, with a daemon and without one.

use std::fs;
use std::time::Instant;

use agentctl_testkit::tools::{Case, Judges};
use agentctl_testkit::{skip, until};
use serde_json::{Value, json};

use crate::house::{House, SOON, forget_moments};

/// The events of a stream that has ended, each as its kind and data.
fn events(body: &str) -> Vec<(String, Value)> {
    // The body comes in chunks, whose lengths stand on lines of their own.
    let mut kind = String::new();
    let mut events = Vec::new();
    for line in body.lines() {
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut kind);
        } else if let Some(data) = line.strip_prefix("data: ") {
            events.push((kind.clone(), serde_json::from_str(data).unwrap()));
        }
    }
    events
}

fn alone(house: &House, arguments: &[&str]) -> agentctl_testkit::Output {
    house.home.agentctl(arguments)
}

#[test]
fn a_search_streams_what_the_command_line_finds_and_ends_with_what_was_heard() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let there = events(&house.get("/v1/search?q=echo&context=1").body);
    let here = alone(&house, &["search", "echo", "-C", "1", "--json"]).ok();
    let here: Vec<Value> = here.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!here.is_empty());
    let (last, hits) = there.split_last().unwrap();
    assert_eq!(hits.iter().map(|(_, hit)| hit.clone()).collect::<Vec<_>>(), here);
    assert!(hits.iter().all(|(kind, _)| kind == "hit"));
    assert_eq!(
        (last.0.as_str(), &last.1["hits"], &last.1["more"]),
        ("end", &json!(here.len()), &json!(false))
    );
    assert!(last.1["searched"].as_u64() >= Some(5), "sub-agents are searched too: {}", last.1);
    let schema = house.run(&["schema"]).ok().json();
    match Judges::call() {
        Ok(judges) => {
            let case = Case { name: "end".into(), at: "#/$defs/search-end".into(), value: last.1.clone() };
            judges.json_schemas(&[(schema, vec![case])]);
        }
        Err(reason) => skip(reason),
    }
    // A conversation opens at a hit.
    let (id, hit) = (here[0]["sessionId"].as_str().unwrap(), here[0]["hit"].as_str().unwrap());
    let opened = house.get(&format!("/v1/sessions/{id}/messages?at={hit}&limit=1")).json();
    let text = opened["entries"][0]["text"].as_str().unwrap();
    assert!(text.contains(here[0]["line"].as_str().unwrap()), "{opened:#}");
    assert_eq!(house.get(&format!("/v1/sessions/{id}/messages?at=88888888.0")).status, 404);
    for wrong in ["/v1/search", "/v1/search?q=%20", "/v1/search?q=(&regex", "/v1/search?q=x&role=robot"] {
        assert_eq!(house.get(wrong).status, 400, "{wrong}");
    }
}

#[test]
fn usage_is_the_same_with_a_daemon_and_without_one_also_after_a_change() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let both = |arguments: &[&str]| {
        let (mut there, mut here) = (house.run(arguments).ok().json(), alone(&house, arguments).ok().json());
        forget_moments(&mut there);
        forget_moments(&mut here);
        assert_eq!(there, here, "{arguments:?}");
        there
    };
    let requests = house.requests();
    let before = both(&["usage", "--by", "session", "--json"]);
    assert!(house.requests() > requests, "the daemon was asked");
    both(&["usage", "--by", "day", "--tz", "America/New_York", "--since", "2026-01-01", "--json"]);
    both(&["usage", "--by", "cwd", "--adapter", "claude-code", "--json"]);
    // What the daemon remembers of a file is worth nothing once the file has changed.
    let id = before["rows"][0]["key"].as_str().unwrap().to_owned();
    let file = transcript(&house, &id);
    let mut text = fs::read_to_string(&file).unwrap();
    let reply = json!({
        "type": "assistant", "timestamp": "2026-11-15T12:00:00.000Z", "isSidechain": false,
        "message": {"id": "one-more", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 12_345, "output_tokens": 1}},
    });
    text.push_str(&reply.to_string());
    text.push('\n');
    fs::write(&file, text).unwrap();
    let after = both(&["usage", "--by", "session", "--json"]);
    let input = |report: &Value| report["total"]["tokens"]["in"].as_u64().unwrap();
    assert_eq!(input(&after), input(&before) + 12_345);
}

fn transcript(house: &House, id: &str) -> std::path::PathBuf {
    let projects = house.home.path().join(".claude/projects");
    let folders = fs::read_dir(projects).unwrap().map(|folder| folder.unwrap().path());
    folders.map(|folder| folder.join(format!("{id}.jsonl"))).find(|file| file.exists()).unwrap()
}

/// A client that leaves does not keep a search going.
#[test]
fn a_search_that_nobody_reads_ends() {
    let house = House::furnished();
    let daemon = house.daemon(&[]);
    let threads = || fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap().count();
    let before = threads();
    for _ in 0..20 {
        let request = "GET /v1/search?q=e&limit=10000 HTTP/1.1\r\nHost: agentctl\r\n\r\n";
        let mut stream = std::os::unix::net::UnixStream::connect(house.socket()).unwrap();
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    }
    let began = Instant::now();
    until(SOON, "the searches to end", || (threads() <= before + 4).then_some(()));
    assert!(began.elapsed() < SOON);
}
