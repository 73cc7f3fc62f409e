//! Everything that `agentctl schema` names, as it is really printed, answered and sent, held against its schema by a
//! validator that others wrote.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use agentctl_testkit::tools::{Case, Judges};
use agentctl_testkit::{skip, until};
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::launched::Scene;
use crate::stand_in::StandIn;

/// What was seen, each under the name of its schema.
struct Seen<'h> {
    house: &'h House,
    cases: Vec<Case>,
}

impl Seen<'_> {
    fn value(&mut self, name: &str, what: &str, value: Value) -> Value {
        self.cases.push(Case { name: what.to_owned(), at: format!("#/$defs/{name}"), value: value.clone() });
        value
    }

    /// Runs a command, whose every line is one such object.
    #[track_caller]
    fn command(&mut self, name: &str, arguments: &[&str]) -> Value {
        let ended = self.house.run(arguments);
        let what = format!("agentctl {}", arguments.join(" "));
        let lines = ended.stdout.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{what}: {error}: {ended:#?}"))
        });
        let lines: Vec<Value> = lines.collect();
        assert!(!lines.is_empty(), "{what}: {ended:#?}");
        lines.into_iter().map(|line| self.value(name, &what, line)).next_back().unwrap()
    }

    #[track_caller]
    fn answer(&mut self, name: &str, status: u16, method: &str, target: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.house.write(method, target, &body);
        assert_eq!(reply.status, status, "{method} {target}: {reply:#?}");
        self.value(name, &format!("{method} {target}"), reply.json())
    }

    /// Events until one of this type has come.
    #[track_caller]
    fn heard(&mut self, events: &mut Listener, until: &str) -> Value {
        loop {
            let event = events.next();
            let kind = event["type"].as_str().unwrap().to_owned();
            let event = self.value("event", &kind, event);
            if kind == until {
                return event;
            }
        }
    }

    fn types(&self) -> BTreeSet<&str> {
        let events = self.cases.iter().filter(|case| case.at == "#/$defs/event");
        events.filter_map(|case| case.value["type"].as_str()).collect()
    }
}

/// Every case by the whole schema, and by the schema of its name alone.
fn judge(judges: &Judges, house: &House, cases: &[Case]) {
    let whole = house.run(&["schema"]).ok().json();
    judges.json_schema(&whole, cases);
    let lists = cases.iter().filter(|case| case.at == "#/$defs/list");
    let lists: Vec<Case> = lists.map(|case| Case { at: "#".to_owned(), ..case.clone() }).collect();
    judges.json_schema(&whole, &lists);
    let names: BTreeSet<&str> = cases.iter().filter_map(|case| case.at.strip_prefix("#/$defs/")).collect();
    for name in names {
        let own = cases.iter().filter(|case| case.at == format!("#/$defs/{name}"));
        let own: Vec<Case> = own.map(|case| Case { at: "#".to_owned(), ..case.clone() }).collect();
        judges.json_schema(&house.run(&["schema", name]).ok().json(), &own);
    }
}

#[test]
fn what_is_printed_answered_and_sent_is_as_its_schema_says() {
    let judges = match Judges::call() {
        Ok(judges) => judges,
        Err(reason) => return skip(reason),
    };
    let scene = Scene::set();
    let house = &scene.house;
    let mut seen = Seen { house, cases: Vec::new() };
    seen.command("daemon-status", &["daemon", "status", "--json"]);
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(house, "", None);
    let repository = house.home.git_repo("repo");
    let repository = repository.to_str().unwrap();
    let folder = house.home.work_dir("folder");
    let folder = folder.to_str().unwrap();

    seen.command("launch-dry-run", &["launch", "claude-code", "-p", "x", "--cwd", folder, "--dry-run", "--json"]);
    let launched = seen.command("session", &["launch", "claude-code", "-p", "x", "--cwd", folder, "--json"]);
    let id = launched["id"].as_str().unwrap();
    let slots = json!([{"adapter": "claude-code"}, {"adapter": "codex"}]);
    let body = json!({"launches": slots, "prompt": "x", "cwd": repository, "labels": {"a": "b"}});
    let group = seen.answer("group-launch", 200, "POST", "/v1/groups", &body);
    let name = group["group"].as_str().unwrap();
    assert_eq!((group["sessions"].as_array().map(Vec::len), group["failed"].as_array().map(Vec::len)), (Some(1), Some(1)));
    seen.command("group-list", &["group", "list", "--json"]);
    seen.command("group-show", &["group", "show", name, "--json"]);
    seen.command("group-diff", &["group", "diff", name, "--json"]);
    seen.command("group-diff", &["group", "diff", name, "--stat", "--json"]);

    seen.command("list", &["list", "-a", "--since", "all", "--all-agents", "--usage", "--json"]);
    seen.answer("list", 200, "GET", "/v1/sessions", &Value::Null);
    seen.command("session", &["status", id, "--json"]);
    seen.command("explain", &["explain", id, "--json"]);
    seen.command("entry", &["peek", id, "--json"]);
    seen.answer("messages", 200, "GET", &format!("/v1/sessions/{id}/messages"), &Value::Null);
    seen.command("wait", &["wait", id, "--timeout", "0s", "--json"]);
    seen.command("attach", &["attach", id, "--json"]);
    seen.command("inbox", &["inbox", "--since", "all", "--json"]);
    seen.command("worktree-list", &["worktree", "list", repository, "--json"]);
    let tree = seen.command("worktree-create", &["worktree", "create", repository, "--branch", "b", "--json"]);
    seen.command("worktree-clean", &["worktree", "clean", tree["path"].as_str().unwrap(), "--json"]);
    seen.command("doctor", &["doctor", "--json"]);
    seen.command("adapters", &["adapters", "--json"]);
    seen.command("config-show", &["config", "show", "--json"]);
    seen.command("config-check", &["config", "check", "--json"]);
    seen.command("daemon-status", &["daemon", "status", "--json"]);
    seen.answer("problem", 404, "GET", "/v1/sessions/nobody", &Value::Null);
    seen.answer("problem", 400, "GET", "/v1/sessions?colour=red", &Value::Null);

    seen.command("lock", &["lock", folder, "--by", "ann", "--reason", "r", "--ttl", "9h", "--json"]);
    seen.command("locks", &["locks", "--json"]);
    seen.command("lock", &["unlock", folder, "--json"]);
    seen.heard(&mut events, "lock.released");
    seen.command("fuse", &["fuse", "set", folder, "--ttl", "9h", "--label", "l", "--json"]);
    seen.command("fuses", &["fuses", "--json"]);
    seen.command("fuse", &["fuse", "extend", folder, "--ttl", "1s", "--json"]);
    seen.heard(&mut events, "fuse.expired");

    let agent = StandIn::start(&house.home);
    seen.heard(&mut events, "session.started");
    seen.command("fuse", &["fuse", "set", "--session", &agent.id, "--max-tokens", "10", "--json"]);
    agent.spend(8);
    seen.heard(&mut events, "fuse.warned");
    agent.say("waiting");
    seen.heard(&mut events, "session.waiting");
    seen.command("inbox", &["inbox", "--json"]);
    agent.finish();
    seen.heard(&mut events, "session.idle");

    seen.command("stop", &["stop", id, "--json"]);
    seen.heard(&mut events, "launch.exited");
    seen.command("stop", &["group", "stop", name, "--json"]);
    seen.command("prune", &["prune", "--dry-run", "--json"]);
    until(SOON, "a webhook", || (!scene.receiver.received().is_empty()).then_some(()));
    for told in scene.receiver.received() {
        seen.value("webhook", "a webhook", serde_json::from_str(&told.body).unwrap());
    }

    let (root, away) = (house.home.path().join(".claude"), house.home.path().join("away"));
    symlink(&root, &away).unwrap();
    let exchange = || {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &root, rustix::fs::CWD, &away, swap).unwrap();
    };
    exchange();
    agent.say("busy");
    seen.heard(&mut events, "source.failed");
    seen.answer("problem", 503, "GET", "/v1/sessions?strict=true", &Value::Null);
    exchange();
    agent.say("busy");
    seen.heard(&mut events, "source.recovered");
    // A session that was there, and of which nothing is left.
    let mut lost = StandIn::start(&house.home);
    seen.heard(&mut events, "session.started");
    fs::remove_file(root.join(format!("projects/-work/{}.jsonl", lost.id))).unwrap();
    lost.kill();
    seen.heard(&mut events, "session.gone");

    let mut late = Listener::open(house, "", Some("another-life-1"));
    seen.heard(&mut late, "snapshot");
    let known: BTreeSet<&str> = agentctl_daemon::EVENT_TYPES.into_iter().chain(["reset", "snapshot"]).collect();
    assert_eq!(seen.types(), known);
    judge(&judges, house, &seen.cases);

    let schema = house.run(&["schema"]).ok().json();
    let at = |name: &&String| seen.cases.iter().any(|case| case.at == format!("#/$defs/{name}"));
    let names = schema["$defs"].as_object().unwrap().keys();
    let unseen: Vec<&String> =
        names.filter(|name| name.starts_with(char::is_lowercase)).filter(|name| !at(name)).collect();
    // Only a session that lives in a server takes messages: that is a test of gateways.
    assert_eq!(unseen, ["accepted"]);
}
