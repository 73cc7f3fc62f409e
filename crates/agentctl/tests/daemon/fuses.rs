//! Fuses: they survive the daemon, and fire once.

use std::fs;
use std::path::Path;

use agentctl_testkit::{Background, Output, Signal, until};
use serde_json::{Value, json};

use crate::house::{House, SOON};
use crate::stand_in::StandIn;
use crate::webhooks::Receiver;

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn a_directory_has_a_fuse_that_can_be_extended_cancelled_and_burns_down() {
    let house = House::new();
    let folder = house.home.work_dir("site");
    let folder = folder.to_str().unwrap();
    let set = house.run(&["fuse", "set", folder, "--ttl", "2h", "--label", "mine", "--json"]).ok().json();
    assert_eq!(
        (&set["directory"], &set["label"], &set["stage"]),
        (&folder.into(), &"mine".into(), &"set".into())
    );
    let table = house.run(&["fuses"]).ok().stdout;
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["ID", "ON", "EXPIRES", "STAGE", "LABEL"], "{table}");
    assert!(table.lines().nth(1).unwrap().ends_with("in 2h    set    mine"), "{table}");
    let before = set["expiresAt"].as_str().unwrap().to_owned();
    let extended = house.run(&["fuse", "extend", folder, "--ttl", "5h", "--json"]).ok().json();
    assert_eq!(extended["id"], set["id"]);
    assert!(extended["expiresAt"].as_str().unwrap() > before.as_str());
    let again = house.run(&["fuse", "set", folder, "--ttl", "1h", "--json"]).ok().json();
    assert_ne!(again["id"], set["id"]);
    assert_eq!(house.run(&["fuses", "--json"]).ok().json()["fuses"].as_array().unwrap().len(), 1);
    assert!(house.run(&["fuse", "cancel", folder]).ok().stdout.starts_with("cancelled"));
    assert_eq!(house.run(&["fuse", "cancel", folder]).code, Some(3));
    assert_eq!(house.run(&["fuse", "set", folder, "--ttl", "soon"]).code, Some(2));
    let missing = house.run(&["fuse", "set", "/not/there", "--ttl", "1h"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("/not/there does not exist"), "{missing:?}");
    let posted = house.write("POST", "/v1/fuses", r#"{"directory": "/not/there", "ttl": "1h"}"#);
    assert!(posted.status == 400 && posted.body.contains("/not/there"), "{posted:?}");
    assert_eq!(house.run(&["fuse", "set", "--session", "none", "--max-tokens", "5"]).code, Some(3));

    let (ran, receiver) = (house.home.path().join("ran"), Receiver::start(&[]));
    let script = format!("echo \"$AGENTCTL_FUSE_LABEL $PWD\" >> {}", ran.display());
    let hook = ["--on-expire-script", script.as_str(), "--on-expire-webhook", receiver.url.as_str()];
    let burning = [&["fuse", "set", folder, "--ttl", "10ms", "--label", "x"][..], &hook].concat();
    let _ = house.run(&burning).ok();
    until(SOON, "the script", || (lines(&ran) == 1).then_some(()));
    assert_eq!(fs::read_to_string(&ran).unwrap(), format!("x {folder}\n"));
    let told: Value = serde_json::from_str(&receiver.accepted(1)[0].body).unwrap();
    assert_eq!((&told["hook_type"], &told["fuse"]["directory"]), (&"fuse.expired".into(), &folder.into()));
    until(SOON, "the fuse to be gone", || {
        house.run(&["fuses", "--json"]).ok().json()["fuses"].as_array()?.is_empty().then_some(())
    });
    assert!(house.get("/metrics").body.contains("agentctl_fuses_expired_total 1"));
    let _ = house.run(&["daemon", "stop"]).ok();
}

/// A fuse that expired while no daemon ran, with everything that can happen at its end.
fn expired(house: &House, id: &str, ran: &Path, url: &str) {
    let fuse = json!({
        "id": id, "directory": "/", "sessionId": null, "adapter": null, "configRoot": null, "slot": null,
        "label": null, "setAt": "2026-01-01T00:00:00Z", "expiresAt": "2026-01-01T01:00:00Z", "maxTokens": null,
        "maxCost": null, "stage": "set", "stageAt": "2026-01-01T00:00:00Z",
        "onExpire": {"script": format!("echo ran >> {}", ran.display()), "webhook": url, "event": "cleanup"},
    });
    let home = house.home.agentctl_home();
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("fuses.json"), json!({"version": 1, "fuses": [fuse]}).to_string()).unwrap();
}

#[test]
fn fuses_are_read_and_taken_away_without_a_daemon() {
    let house = House::new();
    for run in
        [&|arguments: &[&str]| house.run(arguments), &|arguments: &[&str]| house.home.agentctl(arguments)]
            as [&dyn Fn(&[&str]) -> agentctl_testkit::Output; 2]
    {
        assert!(run(&["fuses"]).ok().stdout.starts_with("no fuse is set"));
        assert_eq!(run(&["fuse", "cancel", "/"]).code, Some(3));
        assert_eq!(run(&["fuse", "extend", "--session", "none", "--ttl", "1h"]).code, Some(3));
        let ran = house.home.path().join("ran");
        expired(&house, "f-1", &ran, "http://127.0.0.1:9");
        let shown = run(&["fuses"]).ok();
        let row: Vec<&str> = shown.stdout.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row[..4], ["f-1", "/", "now", "set"], "{shown:?}");
        assert!(shown.stderr.contains("no daemon runs"), "{shown:?}");
        assert_eq!(run(&["fuses", "--json"]).ok().json()["fuses"][0]["id"], "f-1");
        assert!(run(&["fuse", "extend", "/", "--ttl", "10m"]).ok().stdout.contains("expires in 10m"));
        assert!(run(&["fuse", "cancel", "/"]).ok().stdout.starts_with("cancelled: f-1 /"));
        assert_eq!(run(&["fuses", "--json"]).ok().json()["fuses"], json!([]));
        assert!(!house.socket().exists() && !ran.exists(), "nobody was started, and nothing fired");
    }
}

#[test]
fn the_session_of_a_fuse_is_found_as_by_every_command() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start(&house.home);
    let limit = ["--max-tokens", "5000"];
    let set = |on: &[&str]| house.run(&[&["fuse", "set"], on, &limit].concat());
    for unclear in ["a0000000", "no such session"] {
        let (status, fuse) = (house.run(&["status", unclear]), set(&["--session", unclear]));
        assert_eq!((fuse.code, &fuse.stderr), (status.code, &status.stderr), "{unclear}");
    }
    assert_eq!(set(&["--session", &agent.id, "--adapter", "codex"]).code, Some(3));
    assert_eq!(house.run(&["fuse", "set", "/x", "--ttl", "1h", "--adapter", "codex"]).code, Some(2));
    let stopped = set(&["--session", "22222222"]);
    assert_eq!(stopped.code, Some(7), "{stopped:?}");
    assert!(stopped.stderr.contains("has stopped"), "{stopped:?}");
    assert!(stopped.stderr.contains("hint: set it once the session goes on"), "{stopped:?}");
    let body = json!({"session": "22222222", "adapter": "claude-code", "maxTokens": 5}).to_string();
    let problem = house.write("POST", "/v1/fuses", &body);
    assert_eq!((problem.status, &problem.json()["code"]), (409, &"refused".into()));
    let narrowed = ["--session", &agent.id[..6], "--adapter", "claude-code", "--cwd", "/work"];
    let _ = set(&narrowed).ok();
    assert_eq!(
        house.run(&["fuse", "cancel", "--session", &agent.id[..6], "--adapter", "codex"]).code,
        Some(3)
    );
    assert_eq!(house.run(&["fuse", "cancel", "--session", "22222222"]).code, Some(3), "it has none");
    let _ = house.run(&[&["fuse", "cancel"], &narrowed[..]].concat()).ok();
}

/// If the daemon is killed between any two steps, a fuse still fires once and its webhook arrives.
#[test]
fn a_daemon_killed_at_any_step_fires_a_fuse_once() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let house = House::new();
    let steps = ["begin", "written", "synced", "renamed", "done"];
    let writes = ["fuses", "outbox"].iter().flat_map(|what| steps.map(|step| format!("{what}.{step}")));
    let others = ["fire.begun", "fire.acted", "delivered.begin", "delivered.removed"].map(str::to_owned);
    for (number, point) in writes.chain(others).enumerate() {
        let (ran, receiver) = (house.home.path().join(format!("ran-{number}")), Receiver::start(&[]));
        let id = format!("f-{number}");
        expired(&house, &id, &ran, &receiver.url);
        let mut command = house.home.agentctl_command(&["daemon", "run"]);
        command.env("AGENTCTL_FAULT", &point);
        let mut doomed = Background::spawn(&house.home, command);
        assert_eq!(doomed.wait(SOON).code(), None, "it dies at {point}: {}", doomed.stderr());
        let mut next = house.daemon(&[]);
        until(SOON, "the end of the fuse", || {
            let status = house.get("/v1/daemon").json();
            (status["fuses"] == 0 && status["outbox"]["pending"] == 0).then_some(())
        });
        until(SOON, &format!("the script after {point}"), || (lines(&ran) > 0).then_some(()));
        let told = receiver.accepted(1);
        assert!(told.iter().all(|one| one.header("X-Agentctl-Delivery") == Some(id.as_str())), "{point}");
        next.signal(Signal::TERM);
        next.wait(SOON);
        assert_eq!(lines(&ran), 1, "{point}");
        let left: Vec<_> = fs::read_dir(house.home.agentctl_home()).unwrap().flatten().collect();
        let half = left.iter().filter(|entry| entry.file_name().to_string_lossy().ends_with(".new")).count();
        assert_eq!(half, 0, "{point}: nothing half-written stays");
    }
}

/// An acknowledged fuse exists after any crash; one that was not acknowledged may exist or not, but never
/// partially.
#[test]
fn a_fuse_that_was_acknowledged_is_set_whatever_happens() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let house = House::new();
    for step in ["begin", "written", "synced", "renamed", "done"] {
        let mut doomed = house.daemon_with(&[], &[("AGENTCTL_FAULT", &format!("fuses.{step}"))]);
        let set = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            house.write("POST", "/v1/fuses", &json!({"directory": "/tmp", "ttl": "5h"}).to_string())
        }));
        doomed.wait(SOON);
        let _next = house.daemon(&[]);
        let fuses = house.get("/v1/fuses").json()["fuses"].as_array().unwrap().clone();
        if set.is_ok_and(|reply| reply.status == 200) {
            assert_eq!(fuses.len(), 1, "{step}");
        }
        for fuse in &fuses {
            assert_eq!(fuse["directory"], "/tmp");
            let id = fuse["id"].as_str().unwrap();
            assert_eq!(house.write("DELETE", &format!("/v1/fuses/{id}"), "{}").status, 200);
        }
    }
}

#[test]
fn a_session_that_uses_too_much_is_warned_of_and_told() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    let mut agent = StandIn::start(&house.home);
    agent.finish();
    until(SOON, "the session to be seen", || {
        (house.get("/v1/daemon").json()["liveSessions"] == 1).then_some(())
    });
    let mut events =
        crate::events::Listener::open(&house, "type=fuse.set&type=fuse.warned&type=fuse.expired", None);
    // Two tokens are used, which is little of the first limit and all of the second.
    for (limit, kinds) in [("100", &["fuse.set"][..]), ("2", &["fuse.set", "fuse.expired"])] {
        let _ = house.run(&["fuse", "set", "--session", &agent.id[..8], "--max-tokens", limit]).ok();
        for kind in kinds {
            let event = events.next();
            assert_eq!((&event["type"], &event["sessionId"]), (&(*kind).into(), &agent.id.clone().into()));
            assert_eq!(
                (&event["session"]["id"], &event["session"]["status"]),
                (&event["sessionId"], &"idle".into())
            );
        }
    }
    agent.kill();
    until(SOON, "the limits to end with the session", || {
        (house.get("/v1/daemon").json()["fuses"] == 0).then_some(())
    });
}

#[test]
fn a_damaged_file_of_fuses_is_told_and_kept_while_everything_else_works() {
    let house = House::furnished();
    let folder = house.home.work_dir("site");
    let folder = folder.to_str().unwrap();
    let _ = house.run(&["fuse", "set", folder, "--ttl", "2h"]).ok();
    let _ = house.run(&["daemon", "stop"]).ok();
    let file = house.home.agentctl_home().join("fuses.json");
    let whole = fs::read_to_string(&file).unwrap();
    for damaged in [&whole[..whole.len() / 2], "", "\0\0\0", r#"{"version":1,"fuses":{}}"#] {
        fs::write(&file, damaged).unwrap();
        let mut daemon = house.daemon(&[]);
        assert!(!house.run(&["list", "-a", "-q", "--since", "all"]).ok().stdout.is_empty());
        let found_here = house.run(&["fuses"]);
        let hint =
            |output: &Output| output.stderr.lines().find(|line| line.starts_with("hint:")).map(str::to_owned);
        assert!(hint(&found_here).is_some(), "{found_here:?}");
        for refused in [
            house.run(&["fuses"]),
            house.run(&["fuse", "set", folder, "--ttl", "1h"]),
            house.run(&["fuse", "cancel", folder]),
        ] {
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(refused.stderr.contains("fuses.json is damaged"), "{refused:?}");
            assert_eq!(hint(&refused), hint(&found_here), "whether the daemon found it out or this process");
        }
        until(SOON, "the log to say so", || {
            let log = fs::read_to_string(house.home.agentctl_home().join("daemon.log")).ok()?;
            log.contains("fuses.json is damaged").then_some(())
        });
        assert_eq!(fs::read_to_string(&file).unwrap(), damaged, "what is there stays");
        // Once the file is repaired, the fuse is active again in the same daemon.
        fs::write(&file, &whole).unwrap();
        let listed = house.run(&["fuses", "--json"]).ok().json();
        assert_eq!(listed["fuses"][0]["directory"], folder);
        let _ = house.run(&["daemon", "stop"]).ok();
        daemon.wait(SOON);
        assert!(!house.socket().exists());
    }
}
