//! Which of several gateways a launch goes to, and on which machine its folder is.

use agentctl_testkit::agents::openclaw::{Act, Ledger, ScriptedGateway, Step};
use serde_json::{Value, json};

use crate::machine::Machine;
use crate::office::{Office, TOKEN};

/// A second gateway that accepts one session.
fn second() -> ScriptedGateway {
    let ledger = std::sync::Mutex::new(Ledger::default());
    ScriptedGateway::start(move |step| {
        let mut ledger = ledger.lock().unwrap();
        let Step::Request { method: "sessions.create", .. } = step else { return ledger.answer(step) };
        ledger.rows = vec![json!({"key": "agent:main:second", "hasActiveRun": true, "workspaceDir": "/w"})];
        Act::Proper(json!({"ok": true, "key": "agent:main:second", "runId": "run-1"}))
    })
}

fn know(machine: &Machine, urls: &[&str]) {
    let gateways: Vec<String> =
        urls.iter().map(|url| format!("{{url = \"{url}\", token = \"{TOKEN}\"}}")).collect();
    let config = format!("[adapters.openclaw]\ntimeout = \"30s\"\ngateways = [{}]\n", gateways.join(", "));
    machine.write(".agentctl/config.toml", &config);
}

#[test]
fn the_first_of_several_gateways_is_taken_and_said_and_another_can_be_named() {
    let (office, other) = (Office::open(), second());
    know(&office.machine, &[&other.url()]);
    let launched = office.machine.run(&["launch", "openclaw", "-p", "go"]);
    assert_eq!(launched.code, Some(0), "{launched:?}");
    assert!(launched.out.contains("the first of 2 gateways (--gateway names another)"), "{launched:?}");
    assert_eq!(office.asked("sessions.create").len(), 1);

    let address = other.url().trim_start_matches("ws://").to_owned();
    for said in [other.url(), address] {
        let launched = office.machine.json(&["launch", "openclaw", "-p", "go", "--gateway", &said, "--json"]);
        assert_eq!(
            (&launched["id"], &launched["configRoot"]),
            (&json!("agent:main:second"), &json!(other.url()))
        );
    }
    let named = office.machine.run(&["launch", "openclaw", "-p", "go", "--gateway", &other.url()]);
    assert!(named.out.contains(&format!("at {}\n", other.url())), "whoever chose needs no advice: {named:?}");
    assert_eq!(office.asked("sessions.create").len(), 1, "the first was not asked again");

    for (said, code, words) in [
        ("ws://nobody.local:1", 3, "no gateway `ws://nobody.local:1` is known"),
        ("127.0.0.1", 4, "fits 2 gateways"),
    ] {
        let refused = office.machine.run(&["launch", "openclaw", "-p", "go", "--gateway", said]);
        assert!(refused.code == Some(code) && refused.err.contains(words), "{refused:?}");
        assert!(refused.err.contains(&other.url()), "the known ones are listed: {refused:?}");
    }
    let nothing = office.machine.run(&["launch", "claude-code", "-p", "go", "--gateway", &other.url()]);
    assert!(nothing.code == Some(7) && nothing.err.contains("does not run in a gateway"), "{nothing:?}");
}

#[test]
fn the_shell_offers_the_gateways() {
    let office = Office::open();
    know(&office.machine, &["ws://box.local:7"]);
    let mut command = office.machine.command(&["--", "agentctl", "launch", "--gateway", ""]);
    command.env("COMPLETE", "fish");
    let offered = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(offered.contains("ws://box.local:7") && offered.contains("ws://127.0.0.1:"), "{offered}");
}

#[test]
fn a_folder_is_checked_where_the_gateway_is_on_this_machine_and_nowhere_else() {
    let machine = Machine::empty();
    machine
        .write(".openclaw/openclaw.json", &format!("{{gateway: {{port: 1, auth: {{token: '{TOKEN}'}}}}}}"));
    know(&machine, &["ws://box.local:7"]);
    let launch = |gateway: &str, cwd: &str| {
        machine.run(&[
            "launch",
            "openclaw",
            "-p",
            "go",
            "--gateway",
            gateway,
            "--cwd",
            cwd,
            "--dry-run",
            "--json",
        ])
    };
    let here = launch("127.0.0.1", "/no/such/folder");
    assert!(here.code == Some(2) && here.err.contains("does not exist"), "{here:?}");
    // The path is passed on as typed: neither `..` nor a link of ours has a meaning there.
    let there = launch("box.local", "/no/such/../folder");
    assert_eq!(there.code, Some(0), "{there:?}");
    let dry: Value = serde_json::from_str(&there.out).unwrap();
    let request = &dry["launches"][0]["request"];
    assert_eq!(
        (&request["to"], &request["params"]["cwd"]),
        (&json!("ws://box.local:7"), &json!("/no/such/../folder"))
    );
}

#[test]
fn a_record_is_never_seen_half_made() {
    if !agentctl_testkit::has_fault_points() {
        return agentctl_testkit::skip("only debug builds have fault points");
    }
    let office = Office::open();
    let mut command = office.machine.command(&["launch", "openclaw", "-p", "go"]);
    command.env("AGENTCTL_FAULT", "exit.begin");
    assert_eq!(command.output().unwrap().status.code(), None, "killed while it wrote");
    let left = std::fs::read_dir(office.machine.home().join(".agentctl/launches")).unwrap();
    let names: Vec<String> =
        left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().all(|name| name.starts_with('.')), "it looks like a launch in progress: {names:?}");
    assert_eq!(office.machine.run(&["prune"]).code, Some(0));
    assert_eq!(std::fs::read_dir(office.machine.home().join(".agentctl/launches")).unwrap().count(), 0);
}
