//! Acting on sessions of a gateway as a user does: launch, stop, resume, send, approve. The gateway is scripted; the real
//! one is in `real_openclaw`.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod choice;
#[path = "../machine/mod.rs"]
mod machine;
mod office;
mod stop;

use agentctl_testkit::skip;
use agentctl_testkit::tools::{Case, Judges};
use machine::Machine;
use office::{Office, TOKEN};
use serde_json::{Value, json};

#[test]
fn a_session_is_begun_stopped_and_taken_up_again_in_its_gateway() {
    let office = Office::open();
    let key = "agent:main:dashboard:1";
    let launched = office.machine.json(&["launch", "openclaw", "-p", "go", "--label", "k=v", "--json"]);
    assert_eq!((launched["id"].as_str(), launched["status"].as_str()), (Some(key), Some("running")));
    let asked = office.asked("sessions.create").remove(0);
    assert_eq!(asked["message"], "go");
    assert!(asked["cwd"].is_null(), "only a folder that was named: {asked}");
    assert!(asked["idempotencyKey"].is_null(), "only known devices may say it: {asked}");
    let scopes: Vec<Value> = office.asked("connect").iter().map(|params| params["scopes"].clone()).collect();
    assert_eq!(
        scopes[0],
        json!(["operator.write", "operator.approvals"]),
        "no more than a launch needs: {scopes:?}"
    );
    let reads = [json!(["operator.read"]), json!(["operator.admin", "operator.approvals"])];
    assert!(scopes[1..].iter().all(|scopes| reads.contains(scopes)), "approvals alone take more: {scopes:?}");

    // One record, joined by the gateway's own id; no lock and no process.
    let status = office.machine.json(&["status", key, "--json"]);
    assert_eq!((&status["launch"]["labels"]["k"], &status["pid"]), (&json!("v"), &Value::Null), "{status:#}");
    assert_eq!(office.machine.json(&["locks", "--json"])["locks"].as_array().map_or(0, Vec::len), 0);
    let pruned = office.machine.run(&["prune"]);
    assert!(office.machine.json(&["status", key, "--json"])["launch"]["id"].is_string(), "{pruned:?}");

    let refused = office.machine.run(&["resume", key, "more"]);
    assert_eq!(refused.code, Some(7), "at work: {refused:?}");
    let stopped = office.machine.json(&["stop", key, "--json"]);
    assert_eq!(stopped["sessions"][0]["wasStopped"], false, "{stopped:#}");
    assert_eq!(stopped["sessions"][0]["session"]["outcome"], "interrupted");
    let place = stopped["sessions"][0]["openIn"].as_str().unwrap_or_default();
    assert!(place.starts_with("its gateway, ws://"), "{stopped:#}");
    let again = office.machine.run(&["stop", key]);
    assert!(again.code == Some(0) && again.out.contains("was idle already"), "{again:?}");
    assert!(again.out.contains("still open in its gateway"), "{again:?}");

    let resumed = office.machine.json(&["resume", key, "go on", "--wait", "--json"]);
    assert_eq!(
        (&resumed["status"], &resumed["outcome"]),
        (&json!("idle"), &json!("completed")),
        "{resumed:#}"
    );
    let sent = office.machine.run(&["send", key, "and on"]);
    assert!(sent.code == Some(0) && sent.out.contains("openclaw accepted the message"), "{sent:?}");
    let words: Vec<Value> =
        office.asked("sessions.send").iter().map(|params| params["message"].clone()).collect();
    assert_eq!(words, ["go on", "and on"]);
    let waited = office.machine.run(&["wait", key]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    let judges = match Judges::call() {
        Ok(judges) => judges,
        Err(reason) => return skip(reason),
    };
    let case =
        |name: &str, value: Value| Case { name: name.to_owned(), at: format!("#/$defs/{name}"), value };
    let cases = vec![
        case("accepted", office.machine.json(&["send", key, "once more", "--json"])),
        case("session", launched),
        case("session", resumed),
        case("stop", stopped),
        case("list", office.machine.json(&["list", "-a", "--json"])),
        case(
            "launch-dry-run",
            office.machine.json(&["launch", "openclaw", "-p", "go", "--dry-run", "--json"]),
        ),
        case("doctor", office.machine.json(&["doctor", "--json"])),
    ];
    judges.json_schemas(&[(office.machine.json(&["schema"]), cases)]);
}

#[test]
fn what_a_gateway_cannot_do_is_refused_before_anything_is_sent() {
    let office = Office::open();
    for (flags, word) in [
        (&["--timeout", "5m"][..], "--timeout"),
        (&["--env", "A=B"], "--env"),
        (&["--on-complete", "true"], "--on-complete"),
        (&["--system-prompt-append", "x"], "--system-prompt-append"),
        (&["--worktree", ".", "--branch", "b"], "working tree"),
    ] {
        let ended = office.machine.run(&[&["launch", "openclaw", "-p", "go"], flags].concat());
        assert!(ended.code == Some(7) && ended.err.contains(word), "{flags:?}: {ended:?}");
    }
    let dry =
        office.machine.run(&["launch", "openclaw", "-p", "go", "--permission-mode", "plan", "--dry-run"]);
    assert!(dry.out.contains("sessions.create") && dry.out.contains("read-only"), "{dry:?}");
    let dry = office.machine.run(&["launch", "openclaw", "-p", "go", "--cwd", "/tmp", "--dry-run", "--json"]);
    assert!(dry.out.contains("\"cwd\":\"/tmp\"") || dry.out.contains("\"cwd\": \"/tmp\""), "{dry:?}");
    assert!(!dry.out.contains(TOKEN), "{dry:?}");
    assert!(office.asked.lock().unwrap().is_empty(), "not even a connection");

    for (words, said) in [("refuse me", "Unknown provider"), ("fail at once", "no such model")] {
        let ended = office.machine.run(&["launch", "openclaw", "-p", words]);
        assert!(ended.code == Some(1) && ended.err.contains(said), "{ended:?}");
    }
    let left = office.machine.home().join(".agentctl/launches");
    let records = std::fs::read_dir(left).map_or(0, Iterator::count);
    assert_eq!(records, 0, "a launch that failed leaves no record");
}

#[test]
fn approvals_are_found_and_answered_and_everybody_says_the_same() {
    let office = Office::open();
    let key = "agent:main:guarded";
    let approval = |id: &str, at: u64| json!({"id": id, "createdAtMs": at, "request": {"sessionKey": key, "command": format!("rm {id}")}});
    office.ledger().rows = vec![json!({"key": key, "hasActiveRun": true, "workspaceDir": "/w"})];
    office.ledger().approvals =
        vec![approval("late", 2000), approval("early", 1000), approval("middle", 1500)];
    assert_eq!(office.machine.json(&["list", "--json"])["sessions"][0]["status"], "waiting");
    assert_eq!(office.machine.json(&["status", key, "--json"])["status"], "waiting");
    let inbox = office.machine.json(&["inbox", "--json"]);
    assert_eq!(inbox["items"][0]["next"][0], format!("agentctl approve {key} --request early"), "{inbox:#}");
    let shown = &inbox["items"][0]["session"]["pending"];
    assert_eq!(
        (&shown[0]["id"], &shown[0]["summary"]),
        (&json!("early"), &json!("exec: rm early")),
        "{shown}"
    );
    assert_eq!(
        (&shown[1]["id"], &shown[1]["summary"]),
        (&json!("middle"), &json!("exec: rm middle")),
        "{shown}"
    );
    assert_eq!(
        (inbox["items"].as_array().unwrap().len(), &inbox["items"][0]["answerable"]),
        (3, &json!(true))
    );
    // Of several one is named, and nobody else is answered in the place of one that is gone.
    let unnamed = office.machine.run(&["approve", key]);
    assert!(
        unnamed.code == Some(4) && unnamed.err.contains("early") && unnamed.err.contains("late"),
        "{unnamed:?}"
    );
    let approved = office.machine.run(&["approve", key, "--request", "middle"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let gone = office.machine.run(&["approve", key, "--request", "middle"]);
    assert!(gone.code == Some(7) && gone.err.contains("does not wait for an answer to middle"), "{gone:?}");
    // One that is left needs no name.
    for more in [&["--request", "late"][..], &[]] {
        let denied = office.machine.run(&[&["deny", key], more].concat());
        assert_eq!(denied.code, Some(0), "{denied:?}");
    }
    let decided = office.asked("exec.approval.resolve");
    assert_eq!(
        decided,
        [
            json!({"id": "middle", "decision": "allow-once"}),
            json!({"id": "late", "decision": "deny"}),
            json!({"id": "early", "decision": "deny"})
        ]
    );
    let nothing = office.machine.run(&["approve", key]);
    assert!(nothing.code == Some(7) && nothing.err.contains("waits for no approval"), "{nothing:?}");
    let text = office.machine.run(&["answer", key, "yes"]);
    assert!(text.code == Some(7) && text.err.contains("take no text"), "{text:?}");

    office.ledger().approvals = vec![approval("late", 2000)];
    office
        .machine
        .write(".agentctl/config.toml", "[adapters.openclaw]\ntimeout = \"30s\"\napprovals = false\n");
    let asked = office.asked("exec.approval.list").len();
    assert_eq!(office.machine.json(&["list", "--json"])["sessions"][0]["status"], "running");
    assert_eq!(office.machine.json(&["inbox", "--json"])["items"], json!([]), "if somebody does not want it");
    assert_eq!(office.asked("exec.approval.list").len(), asked);
}

#[test]
fn a_gateway_that_is_away_is_no_place_to_launch() {
    let machine = Machine::empty();
    machine.write(".openclaw/openclaw.json", "{gateway: {port: 1, auth: {token: 'token-of-openclaw'}}}");
    let ended = machine.run(&["launch", "openclaw", "-p", "go"]);
    assert!(ended.code == Some(1) && ended.err.contains("connection refused"), "{ended:?}");
    let nowhere = Machine::empty();
    let ended = nowhere.run(&["launch", "openclaw", "-p", "go"]);
    assert!(ended.code == Some(7) && ended.err.contains("no gateway is known"), "{ended:?}");
}
