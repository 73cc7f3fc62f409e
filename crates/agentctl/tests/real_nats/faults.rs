//! Machines that answer badly, late or never: the others are heard on time, the row says why, and nothing is concluded of
//! what was not heard.

use std::time::{Duration, Instant};

use agentctl_hosts::nats::subjects;
use agentctl_testkit::nats::{RawNats, Responder, Script, respond};
use agentctl_testkit::{NatsServer, Signal, skip, until_seen};
use serde_json::{Value, json};

use crate::scene::{Asker, Machine, PATIENCE, door, named, open_server, reach, write_config};

fn responder(name: &str, script: Script) -> Responder {
    Responder { name: name.to_owned(), bucket: subjects::bucket(&named(name)), script }
}

fn nothing() -> Vec<u8> {
    json!({"asOf": "2026-01-01T00:00:00Z", "sessions": [], "sources": [], "hosts": []})
        .to_string()
        .into_bytes()
}

/// Writes hosts into the roster, as they would themselves.
fn enter(server: &NatsServer, names: &[&str]) {
    let mut raw = RawNats::connect(server.port).unwrap();
    for name in names {
        raw.publish(&format!("$KV.agentctl_hosts.{name}"), b"{}").unwrap();
    }
    raw.settle().unwrap();
}

#[test]
fn whoever_answers_badly_is_a_row_and_the_others_are_heard() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let size = 50 << 20;
    let hosts = [
        ("good", Script::Body(nothing())),
        ("garbage", Script::Garbage),
        ("half", Script::Half(nothing())),
        ("unfinished", Script::Unfinished(nothing())),
        ("huge", Script::Huge(size)),
        ("never", Script::Never),
        ("stranger", Script::Body(nothing())),
        ("impostor", Script::As("good2".into(), nothing())),
    ];
    let in_roster = ["good", "garbage", "half", "unfinished", "huge", "never", "gone", "impostor"];
    enter(&server, &in_roster);
    let hosts: Vec<Responder> = hosts.iter().map(|(name, script)| responder(name, script.clone())).collect();
    assert_eq!(respond(server.port, &hosts, 2).unwrap().len(), 2);
    let failed = [
        ("garbage", "cannot be read"),
        ("half", "cut"),
        ("unfinished", "in the middle"),
        ("huge", "cannot be read"),
        ("never", "connected to the bus and did not answer"),
        ("gone", "not connected"),
        ("impostor", "did not answer"),
    ];
    // A computer that is too busy to take in what is huge in that time is given more of it.
    let mut seconds = 3;
    until_seen(PATIENCE, "every row, with its own reason", || {
        asker.configure(&server.url(), "ann", &format!("timeout = \"{seconds}s\""));
        let began = Instant::now();
        let rows = asker.rows();
        assert!(began.elapsed() < Duration::from_secs(10 * seconds), "{:?}", began.elapsed());
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).cloned().unwrap_or_default();
        let says =
            |row: &Value, key: &str, words: &str| row[key].as_str().is_some_and(|text| text.contains(words));
        let is_failed = |(name, words): &(&str, &str)| {
            let row = row(name);
            row["coverage"] == "failed" && row["sessions"].is_null() && says(&row, "error", words)
        };
        let good = row("good");
        let in_time = good["tookMs"].as_u64().is_some_and(|took| took < 1000 * seconds);
        let is_heard = good["coverage"] == "complete" && good["error"].is_null() && in_time;
        // Who is not in the roster is shown with a warning; nobody answers under two names.
        let stranger = row("stranger");
        let is_shown = stranger["coverage"] == "complete" && says(&stranger, "hint", "roster");
        let both = is_shown && says(&row("good2"), "hint", "roster");
        seconds = (2 * seconds).min(24);
        if rows.len() == 10 && is_heard && both && failed.iter().all(is_failed) {
            Ok(())
        } else {
            Err(format!("{rows:#?}"))
        }
    });
    // Not heard is not absent.
    let strict = asker.home.agentctl(&["list", "--host", "all", "--strict"]);
    assert_eq!(strict.code, Some(6), "{strict:?}");
    assert_eq!(asker.home.agentctl(&["list", "--host", "all"]).code, Some(0));
}

#[test]
fn two_machines_of_one_name_are_one_failed_row() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let first = Machine::start("dev1", &server.url(), "serve = \"read\"");
    asker.hears(&["dev1"]);
    let second = Machine::start("dev1", &server.url(), "serve = \"read\"");
    until_seen(PATIENCE, "both to be heard", || {
        let rows = asker.rows();
        let error = rows[0]["error"].as_str().unwrap_or_default();
        if rows.len() == 1 && error.contains("two machines") { Ok(()) } else { Err(format!("{rows:#?}")) }
    });
    drop(first);
    asker.hears(&["dev1"]);
    drop(second);
}

#[test]
fn a_daemon_that_is_killed_or_stopped_is_said_so_and_comes_back() {
    let asker = Asker::new();
    let Some(server) = open_server(&asker) else { return };
    let mut one = Machine::start("one", &server.url(), "serve = \"read\"");
    let mut two = Machine::start("two", &server.url(), "serve = \"read\"");
    asker.hears(&["one", "two"]);
    asker.configure(&server.url(), "ann", "timeout = \"4s\"");
    let error = |name: &str| {
        let rows = asker.rows();
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        (row["error"].as_str().unwrap_or_default().to_owned(), row["tookMs"].as_u64().unwrap())
    };
    one.daemon().signal(Signal::STOP);
    let (words, took) = error("one");
    assert!(words.contains("connected to the bus and did not answer"), "{words}");
    assert!((3900..10_000).contains(&took), "{took}");
    // On a busy machine it may be late as well, and is asked again.
    until_seen(PATIENCE, "the other one to be heard on time", || match error("two") {
        (none, took) if none.is_empty() && took < 3900 => Ok(()),
        late => Err(format!("{late:?}")),
    });
    let status = asker.home.agentctl(&["status", "one/00000000", "--json"]);
    assert_eq!(status.code, Some(6), "nothing is known of it: {status:?}");
    one.daemon().signal(Signal::CONT);
    asker.hears(&["one", "two"]);

    two.daemon().signal(Signal::KILL);
    two.daemon().wait(PATIENCE);
    let began = Instant::now();
    until_seen(PATIENCE, "the server to know", || match error("two") {
        (words, _) if words.contains("not connected") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    assert!(began.elapsed() < Duration::from_mins(1));
    two.daemon = None;
    two.resume();
    asker.hears(&["one", "two"]);
}

#[test]
fn a_server_that_goes_away_is_one_row_and_everything_comes_back() {
    let asker = Asker::new();
    let Some(mut server) = open_server(&asker) else { return };
    let machine = Machine::start("dev1", &server.url(), "serve = \"read\"");
    asker.hears(&["dev1"]);
    server.kill();
    let rows = asker.rows();
    let [row] = rows.as_slice() else { panic!("{rows:#?}") };
    assert_eq!(
        (&row["name"], &row["via"], &row["coverage"]),
        (&json!("nats"), &json!("nats"), &json!("failed"))
    );
    assert!(row["sessions"].is_null() && row["hint"].is_string(), "{row:#}");
    assert_eq!(asker.home.agentctl(&["list", "--host", "all", "--strict"]).code, Some(6));
    assert_eq!(asker.home.agentctl(&["list", "--host", "all"]).code, Some(0));
    // The daemon serves its own socket as before.
    let began = Instant::now();
    assert_eq!(machine.house.get("/v1/sessions").status, 200);
    assert!(began.elapsed() < Duration::from_secs(10));
    server.resume();
    asker.hears(&["dev1"]);
    let _ = reach(&door(&server.url(), "ann", None), &machine.name);

    // Without a roster whoever answers is shown, and that others may be missing.
    let mut raw = RawNats::connect(server.port).unwrap();
    raw.publish("$JS.API.STREAM.DELETE.KV_agentctl_hosts", b"").unwrap();
    raw.settle().unwrap();
    asker.configure(&server.url(), "ann", "timeout = \"2s\"");
    let rows = until_seen(PATIENCE, "the roster to be gone", || {
        let rows = asker.rows();
        if rows.len() == 2 { Ok(rows) } else { Err(format!("{rows:#?}")) }
    });
    let bus = rows.iter().find(|row| row["name"] == "nats").unwrap();
    assert_eq!(bus["coverage"], "partial", "{bus:#}");
    assert!(bus["hint"].as_str().unwrap().contains("hosts init"), "{bus:#}");
    assert!(rows.iter().any(|row| row["name"] == "dev1" && row["coverage"] == "complete"), "{rows:#?}");
    // The settings may say who should answer.
    asker.configure(&server.url(), "ann", "timeout = \"2s\"\nhosts = [\"dev1\", \"dev9\"]");
    until_seen(PATIENCE, "those that should answer", || {
        let rows = asker.rows();
        let is = |name: &str, coverage: &str| {
            rows.iter().any(|row| row["name"] == name && row["coverage"] == coverage)
        };
        if rows.len() == 2 && is("dev1", "complete") && is("dev9", "failed") {
            Ok(())
        } else {
            Err(format!("{rows:#?}"))
        }
    });
}

#[test]
fn the_bus_is_named_rightly_or_not_at_all() {
    let asker = Asker::new();
    for (text, code, words) in [
        ("[nats]\nurl = \"nats://127.0.0.1:1\"\nname = \"all\"\n", 1, "reserved"),
        ("[nats]\nurl = \"nats://u:secret@127.0.0.1:1\"\n", 1, "no password"),
    ] {
        write_config(&asker.home, text);
        let said = asker.home.agentctl(&["hosts"]);
        assert_eq!(said.code, Some(code), "{said:?}");
        assert!(said.stderr.contains(words) && !said.stderr.contains("secret"), "{said:?}");
    }
}

/// A cluster of three, of which one is killed: the roster and the answers stay.
#[test]
fn one_of_three_servers_may_die() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return;
    }
    let asker = Asker::new();
    let ports: Vec<u16> = (0..3).map(|_| agentctl_testkit::nats::free_port()).collect();
    let routes: Vec<String> = ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
    let mut servers = Vec::new();
    for (number, port) in ports.iter().enumerate() {
        let config = format!(
            "server_name: n{number}\ncluster {{ name: fleet, listen: \"127.0.0.1:{port}\", routes: {routes:?} }}\n"
        );
        match NatsServer::start_as(&asker.home, &format!("nats-{number}"), &config) {
            Ok(server) => servers.push(server),
            Err(reason) => return skip(reason),
        }
    }
    let urls: Vec<String> = servers.iter().map(NatsServer::url).collect();
    let url = urls.join(",");
    asker.configure(&url, "ann", "");
    until_seen(PATIENCE, "the cluster to keep a roster", || {
        let made = asker.home.agentctl(&["hosts", "init"]);
        if made.code == Some(0) { Ok(()) } else { Err(format!("{made:?}")) }
    });
    let machines: Vec<Machine> =
        ["a", "b", "c"].iter().map(|name| Machine::start(name, &url, "serve = \"read\"")).collect();
    for round in 0..6 {
        asker.hears(&["a", "b", "c"]);
        let victim = &mut servers[round % 3];
        victim.kill();
        asker.hears(&["a", "b", "c"]);
        victim.resume();
    }
    drop(machines);
}
