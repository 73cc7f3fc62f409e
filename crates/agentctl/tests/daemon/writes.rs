//! Everything that can be done over HTTP without an agent: one success and one refusal of each route,
//! compared with the answers of the command line.

use std::path::Path;

use serde_json::{Value, json};

use crate::conformance::forget_moments;
use crate::house::{House, Reply};
use crate::stand_in::StandIn;

/// A recorded session that no process runs.
const STOPPED: &str = "22222222";

#[track_caller]
fn done(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

#[track_caller]
fn refused(reply: &Reply, status: u16, code: &str, words: &str) {
    let problem = reply.json();
    assert_eq!((reply.status, problem["code"].as_str()), (status, Some(code)), "{problem:#}");
    assert!(reply.head.contains("application/problem+json"), "{}", reply.head);
    assert!(problem["detail"].as_str().unwrap().contains(words), "{problem:#}");
}

/// The same object from the command line, without a daemon.
#[track_caller]
fn same(house: &House, target: &str, arguments: &[&str]) -> Value {
    let (mut there, mut here) = (done(&house.get(target)), house.home.agentctl(arguments).json());
    forget_moments(&mut there);
    forget_moments(&mut here);
    assert_eq!(there, here, "{target}");
    there
}

#[test]
fn a_directory_is_locked_and_unlocked() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let folder = house.home.work_dir("kept");
    let folder = folder.to_str().unwrap();
    let lock = |body: Value| house.write("POST", "/v1/locks", &body.to_string());
    let held = done(&lock(json!({"directory": folder, "reason": "by hand", "ttl": "2h"})));
    assert_eq!((&held["by"], &held["directory"]), (&"test".into(), &folder.into()), "{held:#}");
    let all = same(&house, "/v1/locks", &["locks", "--json"]);
    assert_eq!(all["locks"][0], held);
    assert_eq!(house.get("/v1/daemon").json()["locks"], 1);
    assert!(house.run(&["daemon", "status"]).ok().stdout.contains("1 by hand"));
    refused(&lock(json!({"directory": folder, "by": "ann"})), 409, "refused", "locked by test (by hand)");
    assert_eq!(done(&lock(json!({"directory": folder, "by": "ann", "force": true})))["by"], "ann");
    refused(&lock(json!({"directory": "here"})), 400, "usage", "no absolute path");
    refused(&lock(json!({"directory": "/no/such"})), 400, "usage", "not a folder");
    refused(&lock(json!({"directory": folder, "ttl": "soon"})), 400, "usage", "soon");
    refused(&lock(json!({"directory": folder, "tll": "2h"})), 400, "usage", "tll");
    // A launch there is refused for every caller, and the holder is named.
    let launch = json!({"adapter": "claude-code", "prompt": "x", "cwd": folder}).to_string();
    refused(&house.write("POST", "/v1/sessions", &launch), 409, "refused", "locked by ann");
    let target = format!("/v1/locks?directory={folder}");
    assert_eq!(done(&house.write("DELETE", &target, ""))["by"], "ann");
    refused(&house.write("DELETE", &target, ""), 404, "not-found", "is not locked by hand");
    refused(&house.write("DELETE", "/v1/locks", ""), 400, "usage", "missing");
}

#[test]
fn working_trees_are_listed_made_and_cleaned() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let repository = house.home.git_repo("project");
    let repository = repository.to_str().unwrap();
    let write = |target: &str, body: Value| house.write("POST", target, &body.to_string());
    let made = done(&write("/v1/worktrees", json!({"repository": repository, "branch": "try/it"})));
    let tree = made["path"].as_str().unwrap();
    assert!(Path::new(tree).join("README").is_file() && made["createdBranch"] == true, "{made:#}");
    let again = json!({"repository": repository, "branch": "try/it"});
    refused(&write("/v1/worktrees", again), 409, "refused", "is checked out in");
    let bad = json!({"repository": repository, "branch": "a..b"});
    refused(&write("/v1/worktrees", bad), 400, "usage", "cannot be the name of a branch");
    let target = format!("/v1/worktrees?repository={repository}");
    let listed = same(&house, &target, &["worktree", "list", repository, "--json"]);
    assert_eq!(listed["worktrees"].as_array().unwrap().len(), 2, "{listed:#}");
    refused(&house.get("/v1/worktrees"), 400, "usage", "missing");
    std::fs::write(Path::new(tree).join("new"), "work").unwrap();
    let clean = |more: Value| {
        let mut body = json!({"repository": repository});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        write("/v1/worktrees/clean", body)
    };
    let kept = done(&clean(json!({"all": true})));
    assert_eq!(kept["worktrees"][0]["removed"], false, "{kept:#}");
    assert_eq!(kept["worktrees"][0]["losses"][0]["kind"], "untracked", "{kept:#}");
    refused(&clean(json!({})), 400, "usage", "`paths` or of `all`");
    refused(&clean(json!({"paths": [repository]})), 409, "refused", "main working tree");
    let gone = done(&clean(json!({"paths": [tree], "force": true, "deleteBranch": true})));
    assert_eq!(gone["worktrees"][0]["removed"], true, "{gone:#}");
    assert!(!Path::new(tree).exists());
}

#[test]
fn a_stopped_session_is_stopped_already_and_hears_nothing() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let write = |verb: &str, body: &str| house.write("POST", &format!("/v1/sessions/{STOPPED}/{verb}"), body);
    let stopped = done(&write("stop", ""));
    assert_eq!(stopped["sessions"][0]["wasStopped"], true, "{stopped:#}");
    let mut here = house.home.agentctl(&["stop", STOPPED, "--json"]).ok().json();
    let mut there = stopped;
    forget_moments(&mut here);
    forget_moments(&mut there);
    assert_eq!(there, here);
    // Claude Code offers no way in at all.
    refused(&write("send", r#"{"message": "hello"}"#), 422, "refused", "is stopped");
    refused(&write("answer", r#"{"decision": "approve"}"#), 422, "refused", "is stopped");
    for (verb, body) in [
        ("stop", r#"{"grace": "soon"}"#),
        ("stop", r#"{"sig": 9}"#),
        ("send", "{}"),
        ("send", r#"{"message": " "}"#),
        ("answer", "{}"),
        ("answer", r#"{"decision": "approve", "text": "yes"}"#),
        ("answer", r#"{"decision": "maybe"}"#),
        ("resume", r#"{"message": ""}"#),
        ("resume", r#"{"message": "x", "frok": true}"#),
        ("resume", "no JSON"),
    ] {
        refused(&write(verb, body), 400, "usage", "");
    }
    for (verb, body) in [
        ("stop", "{}"),
        ("send", r#"{"message": "x"}"#),
        ("answer", r#"{"text": "x"}"#),
        ("resume", r#"{"message": "x"}"#),
    ] {
        let nobody = house.write("POST", &format!("/v1/sessions/nobody/{verb}"), body);
        refused(&nobody, 404, "not-found", "nobody");
        let several = house.write("POST", &format!("/v1/sessions/a0000000/{verb}"), body);
        refused(&several, 409, "ambiguous", "fits 2 sessions");
        let narrowed = house.write("POST", &format!("/v1/sessions/a0000000/{verb}?adapter=codex"), body);
        refused(&narrowed, 404, "not-found", "a0000000");
    }
}

#[test]
fn a_failure_is_put_away_for_everybody() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let inbox = || house.get("/v1/inbox?since=all").json()["items"].as_array().unwrap().clone();
    let [failed] = &inbox()[..] else { panic!("{:#?}", inbox()) };
    let id = failed["session"]["id"].as_str().unwrap();
    let target = format!("/v1/inbox/{id}/done");
    let narrowed = house.write("POST", &format!("{target}?adapter=codex"), "");
    refused(&narrowed, 404, "not-found", id);
    refused(&house.write("POST", "/v1/inbox/22222222/done", ""), 409, "refused", "no failure to put away");
    assert_eq!(done(&house.write("POST", &target, ""))["done"], true);
    assert_eq!(inbox(), Vec::<serde_json::Value>::new());
    let here = house.home.agentctl(&["inbox", "--since", "all", "--json"]).ok().json();
    assert_eq!(here["items"], json!([]), "with a daemon and without one");
}

#[test]
fn a_live_session_is_not_resumed_and_one_that_is_ended_is_gone() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let agent = StandIn::start(&house.home);
    let target = |verb: &str| format!("/v1/sessions/{}/{verb}", agent.id);
    refused(&house.write("POST", &target("resume"), r#"{"message": "more"}"#), 409, "refused", "is live");
    refused(&house.write("POST", &target("send"), r#"{"message": "more"}"#), 422, "refused", "no way in");
    let stopped = done(&house.write("POST", &target("stop"), r#"{"force": true}"#));
    let report = &stopped["sessions"][0];
    assert_eq!((&report["stopped"], &report["session"]["status"]), (&true.into(), &"stopped".into()));
}

#[test]
fn what_cannot_be_launched_is_refused_before_anything_is_made() {
    let house = House::new();
    let _daemon = house.daemon_with(&[], &[("PATH", "/usr/bin:/bin")]);
    let cwd = house.home.git_repo("project");
    let launch = |more: Value| {
        let mut body = json!({"adapter": "claude-code", "prompt": "do it", "cwd": cwd});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        house.write("POST", "/v1/sessions", &body.to_string())
    };
    for (body, words) in [
        (json!({"cwd": "project"}), "no absolute path"),
        (json!({"cwd": "/no/such"}), "does not exist"),
        (json!({"adapter": "nobody"}), "there is no agent `nobody`"),
        (json!({"adapter": null}), "no agent was named"),
        (json!({"prompt": ""}), "the prompt is empty"),
        (json!({"prompt": "a\0b"}), "NUL"),
        (json!({"propmt": "x"}), "propmt"),
        (json!({"timeout": "soon"}), "soon"),
        (json!({"env": {"A=B": "x"}}), "A=B"),
        (json!({"permissionMode": "all"}), "all"),
        (json!({"worktree": {"repository": "x", "branch": "b"}}), "no absolute path"),
        (json!({"environment": {"": "x"}}), "cannot be a variable"),
    ] {
        refused(&launch(body), 400, "usage", words);
    }
    refused(&launch(json!({"adapter": "pi", "permissionMode": "plan"})), 422, "refused", "");
    refused(&launch(json!({})), 502, "failed", "not installed");
    let group = |body: Value| house.write("POST", "/v1/groups", &body.to_string());
    refused(&group(json!({"prompt": "x", "cwd": cwd, "launches": []})), 400, "usage", "nothing to launch");
    refused(&group(json!({"prompt": "x", "cwd": cwd, "launches": [], "x": 1})), 400, "usage", "x");
    let answer = done(&group(
        json!({"prompt": "x", "cwd": cwd, "launches": [{"adapter": "nobody"}, {"adapter": "codex"}]}),
    ));
    assert_eq!(answer["sessions"], json!([]), "{answer:#}");
    assert_eq!(answer["failed"][0]["slot"], "nobody", "{answer:#}");
    assert!(answer["failed"][1]["error"].as_str().unwrap().contains("not installed"), "{answer:#}");
    let left = std::fs::read_dir(house.home.agentctl_home().join("launches"));
    assert_eq!(left.map_or(0, Iterator::count), 0, "a launch that failed left something");
}

#[test]
fn groups_and_the_inbox_are_those_of_the_command_line() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    same(&house, "/v1/groups", &["group", "list", "--json"]);
    refused(&house.get("/v1/groups/g-none"), 404, "not-found", "g-none");
    refused(&house.write("POST", "/v1/groups/g-none/stop", "{}"), 404, "not-found", "g-none");
    let inbox = same(&house, "/v1/inbox?since=all", &["inbox", "--since", "all", "--json"]);
    assert!(!inbox["items"].as_array().unwrap().is_empty(), "{inbox:#}");
    let now = same(&house, "/v1/inbox?since=1s", &["inbox", "--since", "1s", "--json"]);
    assert_ne!(now["items"], inbox["items"], "how far back was not heard");
    same(&house, "/v1/inbox?adapter=codex", &["inbox", "--adapter", "codex", "--json"]);
    refused(&house.get("/v1/inbox?since=soon"), 400, "usage", "soon");
    refused(&house.get("/v1/inbox?adapter=hal"), 400, "usage", "hal");
}
