//! Everything that `agentctl schema` names, as it is really printed, returned and sent, checked against its
//! schema by an independent validator.

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

/// The objects that were seen, each under the name of its schema.
struct Seen<'h> {
    house: &'h House,
    cases: Vec<Case>,
}

impl Seen<'_> {
    fn value(&mut self, name: &str, what: &str, value: Value) -> Value {
        self.cases.push(Case { name: what.to_owned(), at: format!("#/$defs/{name}"), value: value.clone() });
        value
    }

    /// Runs a command, each of whose lines is one such object.
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

    /// Reads events until one of this type has come.
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

/// Checks every case by the whole schema, and by the schema of its name alone.
fn judge(judges: &Judges, house: &House, cases: &[Case]) {
    let whole = house.run(&["schema"]).ok().json();
    let by_itself = |name: &str| -> Vec<Case> {
        let own = cases.iter().filter(|case| case.at == format!("#/$defs/{name}"));
        own.map(|case| Case { at: "#".to_owned(), ..case.clone() }).collect()
    };
    let names: BTreeSet<&str> = cases.iter().filter_map(|case| case.at.strip_prefix("#/$defs/")).collect();
    let mut schemas = vec![(whole.clone(), cases.to_vec()), (whole, by_itself("list"))];
    schemas.extend(names.iter().map(|name| (house.run(&["schema", name]).ok().json(), by_itself(name))));
    judges.json_schemas(&schemas);
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
    let folder = house.home.work_dir("folder");
    let folder = folder.to_str().unwrap();
    let (id, group) = launches(&mut seen, folder);
    looks(&mut seen, &id);
    went_down(&mut seen, folder);
    holds(&mut seen, &mut events, folder);
    asks(&mut seen, &mut events, &id);
    let agent = limits(&mut seen, &mut events);

    seen.command("stop", &["stop", &id, "--json"]);
    seen.heard(&mut events, "launch.exited");
    seen.command("stop", &["group", "stop", &group, "--json"]);
    seen.command("prune", &["prune", "--dry-run", "--json"]);
    seen.command("hosts", &["hosts", "--json"]);
    until(SOON, "a webhook", || (!scene.receiver.received().is_empty()).then_some(()));
    for told in scene.receiver.received() {
        seen.value("webhook", "a webhook", serde_json::from_str(&told.body).unwrap());
    }
    losses(&mut seen, &mut events, &agent);
    let mut late = Listener::open(house, "", Some("another-life-1"));
    seen.heard(&mut late, "snapshot");

    let known: BTreeSet<&str> =
        agentctl_model::EventKind::names().into_iter().chain(["reset", "snapshot"]).collect();
    assert_eq!(seen.types(), known);
    judge(&judges, house, &seen.cases);
    let schema = house.run(&["schema"]).ok().json();
    let at = |name: &&String| seen.cases.iter().any(|case| case.at == format!("#/$defs/{name}"));
    let names = schema["$defs"].as_object().unwrap().keys();
    let unseen: Vec<&String> =
        names.filter(|name| name.starts_with(char::is_lowercase)).filter(|name| !at(name)).collect();
    // The end of a search comes over its stream alone, which `searched.rs` reads.
    // Only a session that lives in a server or is held can be spoken with, and only another machine checked, which
    // other tests cover.
    assert_eq!(unseen, ["accepted", "answered", "interrupted", "search-end", "hosts-check"]);
}

/// A session, and a group of which one slot fails; returns the id of the one and the name of the other.
fn launches(seen: &mut Seen<'_>, folder: &str) -> (String, String) {
    let launch = ["launch", "claude-code", "-p", "x", "--cwd", folder, "--json"];
    seen.command("launch-dry-run", &[&launch[..], &["--dry-run"]].concat());
    let launched = seen.command("session", &launch);
    let repository = seen.house.home.git_repo("repo");
    let slots = json!([{"adapter": "claude-code"}, {"adapter": "codex"}]);
    let body = json!({"launches": slots, "prompt": "x", "cwd": repository, "labels": {"a": "b"}});
    let group = seen.answer("group-launch", 200, "POST", "/v1/groups", &body);
    let count = |key: &str| group[key].as_array().unwrap().len();
    assert_eq!((count("sessions"), count("failed")), (1, 1), "{group:#}");
    let name = group["group"].as_str().unwrap();
    seen.command("group-list", &["group", "list", "--json"]);
    seen.command("group-show", &["group", "show", name, "--json"]);
    seen.command("group-diff", &["group", "diff", name, "--json"]);
    seen.command("group-diff", &["group", "diff", name, "--stat", "--json"]);
    let repository = repository.to_str().unwrap();
    seen.command("worktree-list", &["worktree", "list", repository, "--json"]);
    let tree =
        seen.command("worktree-create", &["worktree", "create", repository, "--branch", "b", "--json"]);
    seen.command("worktree-clean", &["worktree", "clean", tree["path"].as_str().unwrap(), "--json"]);
    (launched["id"].as_str().unwrap().to_owned(), name.to_owned())
}

fn looks(seen: &mut Seen<'_>, id: &str) {
    seen.command("list", &["list", "-a", "--since", "all", "--all-agents", "--usage", "--json"]);
    seen.answer("list", 200, "GET", "/v1/sessions", &Value::Null);
    seen.command("session", &["status", id, "--json"]);
    seen.command("explain", &["explain", id, "--json"]);
    seen.answer("web", 200, "POST", "/v1/web", &Value::Null);
    seen.answer("changes", 200, "GET", &format!("/v1/sessions/{id}/changes"), &Value::Null);
    seen.command("entry", &["peek", id, "--json"]);
    seen.answer("messages", 200, "GET", &format!("/v1/sessions/{id}/messages"), &Value::Null);
    seen.command("wait", &["wait", id, "--timeout", "0s", "--json"]);
    seen.command("attach", &["attach", id, "--json"]);
    seen.command("inbox", &["inbox", "--since", "all", "--json"]);
    seen.command("hit", &["search", "--regex", ".", "--json"]);
    seen.command("usage", &["usage", "--by", "session", "--json"]);
    seen.answer("usage", 200, "GET", "/v1/usage?by=model&tz=%2B02:00", &Value::Null);
    seen.command("timeline", &["timeline", "--since", "all", "--json"]);
    let config = seen.house.home.agentctl_home().join("config.toml");
    let before = std::fs::read_to_string(&config).unwrap_or_default();
    std::fs::write(&config, format!("{before}\n[notify]\ncommand = \"true\"\n")).unwrap();
    seen.command("notify-test", &["notify", "test", "--json"]);
    std::fs::write(&config, before).unwrap();
    seen.answer("timeline", 200, "GET", "/v1/timeline?since=all", &Value::Null);
    seen.command("doctor", &["doctor", "--json"]);
    seen.command("adapters", &["adapters", "--json"]);
    seen.command("config-show", &["config", "show", "--json"]);
    seen.command("config-check", &["config", "check", "--json"]);
    seen.command("daemon-status", &["daemon", "status", "--json"]);
    seen.answer("problem", 404, "GET", "/v1/sessions/nobody", &Value::Null);
    seen.answer("problem", 400, "GET", "/v1/sessions?colour=red", &Value::Null);
}

/// A session that died long before this boot, and a snapshot of it.
fn went_down(seen: &mut Seen<'_>, folder: &str) {
    let (id, project) =
        ("dead0000-0000-4000-8000-000000000001", seen.house.home.path().join(".claude/projects/-gone"));
    fs::create_dir_all(&project).unwrap();
    let user = json!({"type": "user", "message": {"role": "user", "content": "do it"}, "sessionId": id,
        "timestamp": "2020-11-15T07:00:00Z", "cwd": folder});
    let tool = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make"}});
    let reply = json!({"type": "assistant", "sessionId": id, "timestamp": "2020-11-15T07:00:01Z", "cwd": folder,
        "message": {"id": "m", "model": "m", "content": [tool], "stop_reason": "tool_use"}});
    fs::write(project.join(format!("{id}.jsonl")), format!("{user}\n{reply}\n")).unwrap();
    let shown = seen.command("recover", &["recover", "--since", "all", "--json"]);
    assert_eq!(shown["sessions"][0]["id"], id, "{shown:#}");
    seen.answer("recover", 200, "GET", "/v1/recover?since=all", &Value::Null);
    let file = seen.house.home.path().join("x.snapshot");
    seen.command("snapshot", &["snapshot", file.to_str().unwrap(), id, "--yes", "--json"]);
    seen.command("recover-dismiss", &["recover", "--dismiss", id, "--json"]);
    seen.command("recover-yes", &["recover", "--yes", "--since", "all", "--json"]);
}

/// Locks and fuses of a folder.
fn holds(seen: &mut Seen<'_>, events: &mut Listener, folder: &str) {
    seen.command("lock", &["lock", folder, "--by", "ann", "--reason", "r", "--ttl", "9h", "--json"]);
    seen.command("locks", &["locks", "--json"]);
    // A lock that is released before the next check is never announced. Sessions hold folders too.
    while !seen.heard(events, "lock.acquired").to_string().contains("ann") {}
    seen.command("lock", &["unlock", folder, "--json"]);
    seen.heard(events, "lock.released");
    seen.command("fuse", &["fuse", "set", folder, "--ttl", "9h", "--label", "l", "--json"]);
    seen.command("fuses", &["fuses", "--json"]);
    seen.command("fuses-of-hosts", &["fuses", "--host", "all", "--json"]);
    seen.command("fuse", &["fuse", "extend", folder, "--ttl", "1s", "--json"]);
    seen.heard(events, "fuse.expired");
    seen.command("fuse", &["fuse", "set", "--cwd", folder, "--max-cost", "20", "--per", "day", "--json"]);
    seen.command("fuses", &["fuses", "--json"]);
    seen.command("fuse", &["fuse", "cancel", folder, "--json"]);
}

/// A program tells what it was asked for.
fn asks(seen: &mut Seen<'_>, events: &mut Listener, id: &str) {
    let action = json!({"verb": "send", "via": "mcp", "client": "c 1", "by": null, "error": "refused"});
    let body = json!({"adapter": "claude-code", "sessionId": id, "action": action});
    let told = seen.house.write("POST", "/v1/actions", &body.to_string());
    assert_eq!(told.status, 200, "{told:#?}");
    let event = seen.heard(events, "action.done");
    assert_eq!((&event["action"], &event["sessionId"]), (&action, &id.into()), "{event:#}");
    assert_eq!(event["cursor"], told.json()["cursor"]);
}

/// A session that nears its limit, waits for a person, and becomes idle.
fn limits(seen: &mut Seen<'_>, events: &mut Listener) -> StandIn {
    let agent = StandIn::start(&seen.house.home);
    seen.heard(events, "session.started");
    seen.command("fuse", &["fuse", "set", "--session", &agent.id, "--max-tokens", "10", "--json"]);
    agent.spend(8);
    seen.heard(events, "fuse.warned");
    agent.say("waiting");
    seen.heard(events, "session.waiting");
    seen.command("inbox", &["inbox", "--json"]);
    agent.finish();
    seen.heard(events, "session.idle");
    agent
}

/// A source that cannot be read for a while, and a session whose records are gone.
fn losses(seen: &mut Seen<'_>, events: &mut Listener, agent: &StandIn) {
    let home = &seen.house.home;
    let (root, away) = (home.path().join(".claude"), home.path().join("away"));
    symlink(&root, &away).unwrap();
    let exchange = || {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &root, rustix::fs::CWD, &away, swap).unwrap();
    };
    exchange();
    agent.say("busy");
    seen.heard(events, "source.failed");
    seen.answer("problem", 503, "GET", "/v1/sessions?strict=true", &Value::Null);
    exchange();
    agent.say("busy");
    seen.heard(events, "source.recovered");
    let mut dead = StandIn::start(&seen.house.home);
    seen.heard(events, "session.started");
    dead.kill();
    seen.heard(events, "session.stopped");
    seen.command("inbox-done", &["inbox", "--done", &dead.id, "--json"]);
    let mut lost = StandIn::start(&seen.house.home);
    seen.heard(events, "session.started");
    fs::remove_file(root.join(format!("projects/-work/{}.jsonl", lost.id))).unwrap();
    lost.kill();
    seen.heard(events, "session.gone");
}
