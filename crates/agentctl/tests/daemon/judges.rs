//! Published formats, checked by independent programs: the API document by a validator and by schemathesis,
//! metrics by a parser of the Prometheus format.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agentctl_testkit::tools::{self, Case, Judges};
use agentctl_testkit::{Background, TestHome, skip};
use serde_json::json;

use crate::attacks::with_http;
use crate::house::House;
use crate::stand_in::StandIn;

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json")
}

#[test]
fn the_document_is_right_and_so_are_its_examples() {
    let judges = match Judges::call() {
        Ok(judges) => judges,
        Err(reason) => return skip(reason),
    };
    judges.openapi(&document());
    if let Err(reason) = tools::lint_openapi(&document()) {
        skip(reason);
    }
    let document = agentctl_daemon::openapi();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let cases = schemas.iter().flat_map(|(name, schema)| {
        let examples = schema["examples"].as_array().into_iter().flatten();
        let at = format!("#/components/schemas/{name}");
        examples.map(move |value| Case { name: name.clone(), at: at.clone(), value: value.clone() })
    });
    let cases: Vec<Case> = cases.collect();
    assert!(cases.len() >= 10, "{cases:?}");
    judges.json_schemas(&[(document, cases)]);
}

#[test]
fn every_parameter_says_what_it_takes_and_every_operation_how_it_fails() {
    let document = agentctl_daemon::openapi();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(operation["operationId"].is_string() && operation["tags"][0].is_string(), "{what}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(
                ["200", "400", "401", "403", "429"].iter().all(|status| responses.contains_key(*status)),
                "{what}"
            );
            assert_eq!(
                path.contains("{id}"),
                responses.contains_key("404") && path.contains("{id}"),
                "{what}"
            );
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name}");
    }
    for name in ["Session", "SourceReport", "LaunchInfo", "Pending"] {
        let keys = document["components"]["schemas"][name]["properties"].as_object().unwrap();
        let silent: Vec<&String> =
            keys.iter().filter(|(_, key)| key["description"].is_null()).map(|(name, _)| name).collect();
        assert!(silent.is_empty(), "{name}: {silent:?}");
    }
    let list = document["paths"]["/v1/sessions"]["get"]["parameters"].as_array().unwrap();
    let schema = |name: &str| list.iter().find(|one| one["name"] == name).unwrap()["schema"].clone();
    assert_eq!(schema("all")["type"], "boolean");
    assert_eq!(schema("limit")["type"], "integer");
    assert!(schema("sort")["enum"].as_array().unwrap().contains(&"tokens".into()));
    assert!(schema("adapter")["items"]["pattern"].as_str().unwrap().contains("|codex|"));
    assert_eq!(schema("since")["anyOf"][1]["format"], "date-time");
}

#[test]
fn what_no_route_understands_is_a_problem_on_every_route() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let refused = |reply: &crate::house::Reply, what: &str| {
        assert!(reply.head.contains("application/problem+json"), "{what}: {reply:?}");
        assert_eq!((reply.status, &reply.json()["code"]), (400, &json!("usage")), "{what}: {reply:?}");
    };
    let document = agentctl_daemon::openapi();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let ask = |target: &str| {
                let method = method.to_uppercase();
                refused(&house.write(&method, target, ""), &format!("{method} {target}"));
            };
            let plain = path.replace("{id}", "nobody");
            ask(&format!("{plain}?colour=red"));
            if path.contains("{id}") {
                ask(&path.replace("{id}", "%FF"));
                ask(&path.replace("{id}", "a%00b"));
            }
        }
    }
    refused(&house.write("POST", "/v1/locks", r#"{"directory": "/a\u0000b"}"#), "a NUL in a body");
}

/// Only git and a shell are found there, so that no agent of this machine can be launched.
fn without_agents(home: &mut TestHome) {
    let only = home.work_dir("only");
    let path = std::env::var_os("PATH").unwrap();
    for program in ["git", "sh"] {
        let found =
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
        std::os::unix::fs::symlink(found.unwrap(), only.join(program)).unwrap();
    }
    home.set_env("PATH", only);
}

/// Generated requests, valid and invalid: none makes the daemon fail, each response matches the document, and
/// each refusal is a problem object.
#[test]
fn generated_requests_get_what_the_document_says() {
    let judges = match Judges::call() {
        Ok(judges) => judges,
        Err(reason) => return skip(reason),
    };
    let mut house = House::furnished();
    without_agents(&mut house.home);
    let (_daemon, port, token) = with_http(&house);
    let (repository, folder) = (house.home.git_repo("repo"), house.home.work_dir("folder"));
    let fuse = json!({"directory": folder, "ttl": "9h"}).to_string();
    let fuse = house.write("POST", "/v1/fuses", &fuse).json();
    let places = json!([repository, folder, folder.join("none")]);
    let ids = json!({"sessions": ["60000000", "a0000000", "22222222"], "fuses": [fuse["id"]]});
    let long = std::env::var_os("AGENTCTL_LONG").is_some();
    let mut command = judges.python();
    command.env("FUZZ_PLACES", places.to_string()).env("FUZZ_IDS", ids.to_string());
    command.env("SCHEMATHESIS_HOOKS", "fuzz_hooks").env("HOME", house.home.path());
    command.current_dir(house.home.path()).args(["-m", "schemathesis.cli", "run"]).arg(document());
    command.arg(format!("--url=http://127.0.0.1:{port}"));
    command.arg(format!("--header=Authorization: Bearer {token}"));
    command.args(["--header=X-Agentctl: 1", "--header=Content-Type: application/json"]);
    // The first ends the daemon, the others never end themselves.
    let left_out = ["stopDaemon", "streamEvents", "streamMessages"];
    for operation in left_out {
        command.arg(format!("--exclude-operation-id={operation}"));
    }
    let checks = [
        "never_fails_here",
        "refuses_with_a_problem",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "response_headers_conformance",
        "negative_data_rejection",
    ];
    command.arg(format!("--checks={}", checks.join(",")));
    command.args(["--phases=examples,coverage,fuzzing", "--seed=1", "--no-shrink", "--no-color"]);
    command.args(["--request-timeout=60", "--warnings=off"]);
    command.arg(format!("--max-examples={}", if long { 200 } else { 5 }));
    let mut run = Background::spawn(&house.home, command);
    let ended = run.wait(Duration::from_mins(if long { 60 } else { 8 }));
    assert!(ended.success(), "{ended}\n{}\n{}", run.stdout(), run.stderr());
    let tested = run.stdout();
    let described = agentctl_daemon::openapi();
    let paths = described["paths"].as_object().unwrap().values();
    let operations = paths.map(|path| path.as_object().unwrap().len()).sum::<usize>();
    assert!(tested.contains(&format!("Tested: {}", operations - left_out.len())), "{tested}");
    assert_eq!(house.get("/healthz").status, 200);
}

#[test]
fn figures_are_read_by_who_reads_prometheus() {
    let judges = match Judges::call() {
        Ok(judges) => judges,
        Err(reason) => return skip(reason),
    };
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let _agent = StandIn::start(&house.home);
    let text = house.get("/metrics").body;
    let figures = judges.figures(&text);
    let kind = |name: &str| figures[name][0].clone();
    assert_eq!(kind("agentctl_sessions_current"), "gauge", "{figures:#}");
    // The parser strips the suffix of counters.
    assert_eq!(kind("agentctl_sessions"), "counter", "{figures:#}");
    assert_eq!(kind("agentctl_session_duration_seconds"), "histogram", "{figures:#}");
    assert!(figures.as_object().unwrap().values().all(|family| family[1] != 0), "{figures:#}");
    let promtool = match tools::promtool() {
        Ok(promtool) => promtool,
        Err(reason) => return skip(reason),
    };
    let mut command = Command::new(promtool);
    command.args(["check", "metrics"]);
    tools::run(command, &text);
}

/// Checked by the service manager that will run it.
#[test]
#[cfg(target_os = "linux")]
fn the_service_is_understood_by_its_manager() {
    let house = House::new();
    let unit = house.home.path().join("agentctl.service");
    std::fs::write(&unit, house.run(&["daemon", "install", "--print"]).ok().stdout).unwrap();
    let mut command = house.home.command("systemd-analyze");
    command.args(["--user", "--man=no", "verify"]).arg(&unit);
    let judged = match command.output() {
        Ok(judged) => judged,
        Err(error) => return skip(format!("no systemd-analyze: {error}")),
    };
    // It accepts what it does not understand, and only prints a warning.
    assert!(judged.status.success() && judged.stderr.is_empty() && judged.stdout.is_empty(), "{judged:?}");
}
