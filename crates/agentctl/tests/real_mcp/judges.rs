//! Clients that check what they are told: the MCP inspector and the client of Python.

use std::path::Path;
use std::process::Command;

use agentctl_testkit::clients::{Clients, python_mcp};
use agentctl_testkit::{Background, TestHome, skip, until_seen};
use serde_json::{Value, json};

const TOOLS: &str = "22222222-2222-4222-8222-222222222222";

/// A home with recorded sessions of Claude Code.
fn furnished() -> TestHome {
    let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    home.set_env("AGENTCTL_NO_DAEMON", "1");
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home/.");
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(recorded).arg(home.path());
    assert!(copy.status().unwrap().success());
    home
}

/// The JSON object that a client prints, behind whatever it says of itself.
fn object(home: &TestHome, command: Command) -> Value {
    let ended = home.run(command).ok();
    let start = ended.stdout.find('{').unwrap_or_else(|| panic!("{ended:#?}"));
    serde_json::from_str(&ended.stdout[start..]).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

/// Lists the tools and calls some, as the inspector's command line does it.
fn inspected(home: &TestHome, command: &dyn Fn() -> Command) {
    let mut listing = command();
    listing.args(["--method", "tools/list"]);
    let listed = object(home, listing);
    let tools = listed["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 13, "{listed:#}");
    assert!(tools.iter().all(|tool| tool["outputSchema"]["type"] == "object"), "{listed:#}");
    // Each call is a start of the client; a few of them show what the others would.
    let count = if std::env::var_os("AGENTCTL_LONG").is_some() { 9 } else { 3 };
    let calls = [
        ("list_sessions", &["since=all"][..]),
        ("read_messages", &[&format!("id={TOOLS}"), "limit=5"]),
        ("stop_session", &[&format!("id={TOOLS}")]),
        ("session_status", &[&format!("id={TOOLS}")]),
        ("explain_status", &[&format!("id={TOOLS}")]),
        ("inbox", &["since=all"]),
        ("search", &["words=a", "limit=3"]),
        ("usage", &["by=model"]),
        ("wait_for", &[&format!("id={TOOLS}")]),
    ];
    for (tool, arguments) in calls.into_iter().take(count) {
        let mut calling = command();
        calling.args(["--method", "tools/call", "--tool-name", tool]);
        for argument in arguments {
            calling.args(["--tool-arg", argument]);
        }
        let called = object(home, calling);
        assert_ne!(called["isError"], true, "{tool}: {called:#}");
        assert!(called["structuredContent"]["fence"]["close"].is_string(), "{tool}: {called:#}");
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    let home = furnished();
    let clients = match Clients::call() {
        Ok(clients) => clients,
        Err(reason) => return skip(reason),
    };
    let allowed = "launch,send,answer,interrupt,stop";
    let program = env!("CARGO_BIN_EXE_agentctl");
    let config = home.work_dir("config").join("mcp.json");
    let server = json!({"command": program, "args": ["mcp", "--allow", allowed]});
    std::fs::write(&config, json!({"mcpServers": {"agentctl": server}}).to_string()).unwrap();
    inspected(&home, &|| {
        let mut command = clients.inspector(&home);
        command.arg("--config").arg(&config).args(["--server", "agentctl"]);
        command
    });
    inspected(&home, &|| {
        let mut command = clients.old_inspector(&home);
        command.args([program, "mcp", "--allow", allowed]);
        command
    });
}

/// This client checks every answer against the schema of its tool.
#[test]
fn the_client_of_python_believes_every_answer() {
    let home = furnished();
    let mut command = match python_mcp(&home) {
        Ok(command) => command,
        Err(reason) => return skip(reason),
    };
    let calls = json!([
        ["list_sessions", {"since": "all", "allAgents": true}],
        ["session_status", {"id": TOOLS}],
        ["explain_status", {"id": TOOLS}],
        ["read_messages", {"id": TOOLS, "limit": 200}],
        ["inbox", {"since": "all"}],
        ["search", {"words": ["a"], "role": ["user", "agent", "tool"], "context": 1}],
        ["usage", {"by": "session", "limit": 200}],
        ["wait_for", {"id": [TOOLS], "until": ["idle", "waiting"]}],
        ["stop_session", {"id": TOOLS}],
        ["session_status", {"id": "no-such-session"}],
    ]);
    command.arg(calls.to_string()).args([env!("CARGO_BIN_EXE_agentctl"), "mcp", "--allow", "stop"]);
    let said = object(&home, command);
    assert_eq!(said["tools"].as_array().unwrap().len(), 9, "{said:#}");
    for way in ["handshake", "discovered"] {
        let answers = said[way].as_array().unwrap();
        assert_eq!(answers.len(), 10, "{said:#}");
        let (last, others) = answers.split_last().unwrap();
        assert!(others.iter().all(|answer| answer["isError"] != true), "{way}: {said:#}");
        assert_eq!(last["isError"], true, "{way}: {last:#}");
    }
}

/// What the suite asks for and this server does not have, with the reason.
const NOT_OFFERED: [(&str, &[&str]); 7] = [
    ("it logs nothing to clients", &["logging-set-level", "tools-call-with-logging"]),
    ("it completes nothing", &["completion-complete"]),
    (
        "the suite calls tools of its own reference server",
        &[
            "tools-call-simple-text",
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-error",
            "tools-call-with-progress",
        ],
    ),
    (
        "it asks clients for nothing",
        &[
            "tools-call-sampling",
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
        ],
    ),
    (
        "it has no resources",
        &[
            "resources-list",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "resources-subscribe",
            "resources-unsubscribe",
        ],
    ),
    (
        "it has no prompts",
        &[
            "prompts-list",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
        ],
    ),
    ("the bridge of this test is no server for browsers", &["dns-rebinding-protection"]),
];

/// The suite speaks HTTP alone and holds every server against a reference server with tools of its own; the rest of it
/// passes.
#[test]
fn the_conformance_suite_passes_as_far_as_it_applies() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return;
    }
    let home = furnished();
    let clients = match Clients::call() {
        Ok(clients) => clients,
        Err(reason) => return skip(reason),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_agentctl"));
    let bridge = Background::spawn(&home, clients.bridge(&home, program, &["mcp"]));
    let address = until_seen(std::time::Duration::from_mins(1), "the address of the bridge", || {
        bridge.stdout().lines().next().map(str::to_owned).ok_or_else(|| bridge.stderr())
    });
    let mut command = clients.conformance(&home);
    command.args(["--url", &address]);
    let ended = home.run(command);
    let results: Vec<(bool, &str)> = ended
        .stdout
        .lines()
        .filter_map(|line| {
            let (passed, rest) = match line.strip_prefix("✓ ") {
                Some(rest) => (true, rest),
                None => (false, line.strip_prefix("✗ ")?),
            };
            Some((passed, rest.split_once(':')?.0))
        })
        .collect();
    let failed: Vec<&str> = results.iter().filter(|(passed, _)| !passed).map(|(_, name)| *name).collect();
    let explained: Vec<&str> = NOT_OFFERED.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    let unexplained: Vec<&&str> = failed.iter().filter(|name| !explained.contains(name)).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}: {ended:#?}");
    for name in ["server-initialize", "ping", "tools-list"] {
        assert!(results.contains(&(true, name)), "{name}: {ended:#?}");
    }
}
