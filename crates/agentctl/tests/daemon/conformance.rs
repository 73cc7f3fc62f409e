//! The answer is the same from this process, from the daemon through the command line, and from the daemon
//! over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use agentctl_testkit::Output;
use serde_json::{Value, json};

pub(crate) use crate::house::forget_moments;
use crate::house::{House, copy, recorded_homes};

fn plain(output: &Output) -> (Option<i32>, Vec<Value>) {
    let mut lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter_mut().for_each(forget_moments);
    (output.code, lines)
}

#[test]
fn every_recorded_home_gets_one_answer() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    for (number, recorded) in recorded_homes().iter().enumerate() {
        // Each home belongs to another caller: the daemon must read what the caller would.
        let home = house.home.work_dir(&format!("home-{number}"));
        copy(recorded, &home);
        let ask = |arguments: &[&str], daemon: bool| {
            let mut command = house.home.agentctl_command(arguments);
            command.env("HOME", &home);
            if daemon {
                command.env_remove("AGENTCTL_NO_DAEMON");
            }
            house.home.run(command)
        };
        let same = |arguments: &[&str]| {
            let alone = ask(arguments, false);
            let before = house.requests();
            let through = ask(arguments, true);
            assert!(house.requests() > before + 1, "the daemon was not asked: {arguments:?}");
            assert_eq!(plain(&through), plain(&alone), "{arguments:?} in {}", recorded.display());
            assert_eq!(through.stderr, alone.stderr, "{arguments:?} in {}", recorded.display());
            alone
        };
        let list = same(&["list", "--since", "all", "--all-agents", "--usage", "--json"]).json();
        same(&["list", "--since", "all", "--json", "--limit", "1", "--sort", "name"]);
        let sources: Vec<Value> = list["sources"].as_array().unwrap().clone();
        let sessions = list["sessions"].as_array().unwrap();
        // One session of each home is enough for the daily run.
        let most = if std::env::var_os("AGENTCTL_LONG").is_some() { usize::MAX } else { 1 };
        for session in sessions.iter().take(most) {
            let id = session["id"].as_str().unwrap();
            let alone = same(&["status", id, "--json"]);
            same(&["explain", id, "--json"]);
            let peeked = same(&["peek", id, "-n", "5", "--json"]);
            if alone.code != Some(0) {
                continue;
            }
            let mut over_http = get(&house, &sources, &format!("/v1/sessions/{id}"));
            let mut alone = alone.json();
            forget_moments(&mut over_http);
            forget_moments(&mut alone);
            assert_eq!(over_http, alone, "{id} in {}", recorded.display());
            let messages = get(&house, &sources, &format!("/v1/sessions/{id}/messages?limit=5"));
            assert_eq!(messages["entries"].as_array().unwrap(), &plain(&peeked).1, "{id}");
        }
        let mut over_http = get(&house, &sources, "/v1/sessions?since=all&all-agents=true&usage=true");
        let mut list = list;
        forget_moments(&mut over_http);
        forget_moments(&mut list);
        assert_eq!(over_http, list, "{}", recorded.display());
    }
}

#[test]
fn what_the_daemon_remembers_changes_no_answer() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let heard = |sources: &[Value]| {
        let mut answer = get(&house, sources, "/v1/sessions?since=all&all-agents=true");
        forget_moments(&mut answer);
        answer
    };
    let mut answers = Vec::new();
    for (number, recorded) in recorded_homes().iter().enumerate() {
        let home = house.home.work_dir(&format!("home-{number}"));
        copy(recorded, &home);
        let mut command = house.home.agentctl_command(&["list", "--since", "all", "--all-agents", "--json"]);
        command.env("HOME", &home);
        let mut alone = house.home.run(command).json();
        forget_moments(&mut alone);
        let sources = alone["sources"].as_array().unwrap().clone();
        assert_eq!(heard(&sources), alone, "cold: {}", recorded.display());
        answers.push((recorded.clone(), sources, alone));
    }
    // The files are older now, so they are remembered by the first of these looks, and not read in the second.
    for (recorded, sources, alone) in answers.iter().chain(&answers) {
        assert_eq!(heard(sources), *alone, "warm: {}", recorded.display());
    }
}

/// The first line of an answer that may never end.
fn first_line(house: &House, target: &str) -> String {
    let mut stream = std::os::unix::net::UnixStream::connect(house.socket()).unwrap();
    stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    BufReader::new(stream).lines().next().unwrap().unwrap()
}

/// Over HTTP for a caller with these sources.
fn get(house: &House, sources: &[Value], target: &str) -> Value {
    let caller = sources.iter().map(
        |source| json!({"adapter": source["adapter"], "root": source["root"], "store": null, "timeoutMs": 2000}),
    );
    let caller = json!({"sources": caller.collect::<Vec<_>>()});
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\nX-Agentctl-Caller: {caller}\r\n\r\n"
    );
    house.send(&request).json()
}

#[test]
fn tables_and_refusals_are_the_same_through_the_daemon() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    for arguments in [
        &["list", "--since", "all", "--tree"][..],
        &["list", "-a", "--since", "all", "--limit", "2", "--usage"],
        &["list", "-q", "--since", "all", "--status", "died"],
        &["list", "--cwd", ".", "-a"],
        &["status", "2222"],
        &["explain", "2222"],
        &["peek", "2222"],
        &["logs", "2222", "-n", "3"],
        &["status", "no such session"],
        &["status", "a0000000"],
        &["status", "2222", "--adapter", "codex"],
        &["status", "2222", "--root", "~/.claude", "--cwd", "/nowhere"],
    ] {
        let alone = house.home.agentctl(arguments);
        let before = house.requests();
        let through = house.run(arguments);
        assert!(house.requests() > before + 1, "the daemon was not asked: {arguments:?}");
        assert_eq!((through.code, &through.stdout), (alone.code, &alone.stdout), "{arguments:?}");
        assert_eq!(through.stderr, alone.stderr, "{arguments:?}");
    }
    let problem = house.get("/v1/sessions/a0000000");
    assert_eq!((problem.status, problem.json()["code"].clone()), (409, json!("ambiguous")));
    assert!(problem.head.contains("application/problem+json"));
    assert_eq!(problem.json()["candidates"].as_array().unwrap().len(), 2);
    assert_eq!(house.get("/v1/sessions/none").json()["code"], "not-found");
    assert_eq!(house.get("/v1/sessions?colour=red").json()["code"], "usage");
    assert_eq!(house.get("/nowhere").json()["status"], 404);
}

#[test]
fn a_list_takes_every_word_of_the_command_line_and_events_no_unknown_one() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let list = |query: &str| {
        let mut list = house.get(&format!("/v1/sessions?since=all&{query}")).json();
        forget_moments(&mut list);
        list["sessions"].clone()
    };
    assert_eq!(list("tree=true"), list("all-agents=true"));
    assert_ne!(list("tree=true"), list("tree=false"));
    assert_eq!(list("strict=true"), list(""));
    for unknown in ["type=bogus", "adapter=hal"] {
        assert_eq!(
            first_line(&house, &format!("/v1/events?{unknown}")),
            "HTTP/1.1 400 Bad Request",
            "{unknown}"
        );
    }
    let root = house.home.path().join(".claude");
    std::fs::rename(&root, house.home.path().join("away")).unwrap();
    std::os::unix::fs::symlink(&root, &root).unwrap();
    let problem = house.get("/v1/sessions?strict=true");
    assert_eq!((problem.status, problem.json()["code"].clone()), (503, json!("incomplete")));
    assert_eq!(problem.json()["sources"][0]["adapter"], "claude-code", "{problem:?}");
    assert_eq!(house.get("/v1/sessions").status, 200);
}

#[test]
fn the_document_of_the_api_is_the_one_that_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let text = agentctl_daemon::openapi_text();
    if std::env::var_os("AGENTCTL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        known == text,
        "docs/openapi.json is stale; AGENTCTL_UPDATE_DOCS=1 with this test writes it anew"
    );
    let house = House::new();
    let _daemon = house.daemon(&[]);
    assert!(house.get("/openapi.json").body == text, "the daemon serves another document");
}

#[test]
fn adapters_and_figures_are_served() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let alone = house.home.agentctl(&["adapters", "--json"]).ok().json();
    assert_eq!(house.get("/v1/adapters").json(), alone);
    let metrics = house.get("/metrics");
    assert!(metrics.head.contains("text/plain; version=0.0.4"));
    assert!(metrics.body.contains("agentctl_source_up{adapter=\"claude-code\"} 1"), "{}", metrics.body);
    assert!(!metrics.body.contains("/home"), "no paths in figures");
    assert_eq!(house.get("/healthz").json()["status"], "ok");
    let routes = house.get("/openapi.json").json();
    assert!(routes["paths"]["/v1/sessions/{id}/explain"]["get"].is_object());
}

#[test]
fn a_conversation_is_streamed_until_its_session_has_stopped() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let mut agent = crate::stand_in::StandIn::start(&house.home);
    let id = agent.id.clone();
    let request = format!(
        "GET /v1/sessions/{id}/messages/stream HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\r\n"
    );
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| house.send(&request));
        agent.finish();
        agent.kill();
        let told = reader.join().unwrap();
        let entries: Vec<&str> = told.body.lines().filter(|line| line.starts_with("event: ")).collect();
        assert_eq!(entries, ["event: entry", "event: entry", "event: end"], "{}", told.body);
        assert!(told.body.contains("do it") && told.body.contains("done"), "{}", told.body);
    });
}
