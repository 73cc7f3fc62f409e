//! The real Codex in two generations, driven by a fake model, seen through the built `agentctl`.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

use std::fs;
use std::time::{Duration, SystemTime};

use agentctl_adapters::Root;
use agentctl_adapters::agents::codex::Codex as CodexAdapter;
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::Status;

use agentctl_testkit::{Codex, FakeModel, Signal, TestHome, skip, until_seen};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_mins(3);

fn home() -> TestHome {
    TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"))
}

/// Every session that is stored or live.
fn all(home: &TestHome) -> Vec<Value> {
    let list =
        home.agentctl(&["list", "--all", "--all-agents", "--since", "all", "--adapter", "codex", "--json"]);
    let list = list.ok().json();
    assert_eq!(list["sources"][0]["coverage"], "complete", "{list:#}");
    list["sessions"].as_array().unwrap().clone()
}

fn one(home: &TestHome, id: &str) -> Option<Value> {
    let mut rows = all(home).into_iter().filter(|row| row["id"] == id);
    let row = rows.next();
    assert!(rows.next().is_none(), "{id} is listed twice");
    row
}

/// Waits until the session has this status and outcome, and returns it.
#[track_caller]
fn becomes(home: &TestHome, id: &str, status: &str, outcome: impl Into<Value>) -> Value {
    let outcome = outcome.into();
    let row = until_seen(DEADLINE, &format!("{id} to be {status}, {outcome}"), || {
        let row = one(home, id);
        let there = row.as_ref().is_some_and(|row| row["status"] == status && row["outcome"] == outcome);
        if there { row.ok_or_else(String::new) } else { Err(format!("{row:#?}")) }
    });
    let told = home.agentctl(&["status", id, "--json"]).ok().json();
    assert_eq!(
        (&told["status"], &told["outcome"]),
        (&row["status"], &row["outcome"]),
        "list and status agree"
    );
    row
}

fn live_ids(home: &TestHome) -> Vec<String> {
    let mut ids: Vec<String> =
        home.agentctl(&["list", "--adapter", "codex", "-q"]).ok().stdout.lines().map(str::to_owned).collect();
    ids.sort();
    ids
}

#[test]
fn runs_are_seen_from_their_beginning_to_every_kind_of_end() {
    let model = FakeModel::start();
    let mut home = home();
    let codex = match Codex::settle(&mut home, &model.url()) {
        Ok(codex) => codex,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("über dir.with \"odd\" name");

    // Two at work in one folder, one of them behind npm's Node script.
    let mut wrapped = codex.exec_wrapped(&home, &cwd, "[[bash:sleep 600]] [[text:never]]");
    let mut direct = codex.exec(&home, &cwd, &[], "[[hang]]");
    let (first, second) = (Codex::thread_id(&mut wrapped), Codex::thread_id(&mut direct));
    let in_tool = until_seen(DEADLINE, "the tool to run", || {
        let row = becomes(&home, &first, "running", Value::Null);
        if row["statusDetail"] == "exec_command: sleep 600" { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!(in_tool["cwd"], json!(cwd.to_str().unwrap()));
    assert_eq!((&in_tool["branch"], &in_tool["model"]), (&json!("main"), &json!("fake-model")));
    let agent = in_tool["pid"].as_u64().unwrap();
    assert_ne!(agent, u64::from(wrapped.pid()), "the script is not the agent");
    assert_eq!(in_tool["processes"].as_array().unwrap().len(), 1);
    let hanging = becomes(&home, &second, "running", Value::Null);
    assert_eq!(hanging["pid"], direct.pid());
    let mut both = vec![first.clone(), second.clone()];
    both.sort();
    assert_eq!(live_ids(&home), both, "and no helper beside them");

    // The script is killed: the agent continues to work, and is shown so.
    wrapped.signal(Signal::KILL);
    wrapped.wait(DEADLINE);
    assert_eq!(becomes(&home, &first, "running", Value::Null)["pid"], agent);

    // One run is asked to stop; the agent of the other is killed in the middle of its tool. Codex loses an interrupt that
    // comes before its turn has asked the model.
    model.wait_turn("[[hang]]", 0);
    direct.signal(Signal::INT);
    direct.wait(DEADLINE);
    becomes(&home, &second, "stopped", "interrupted");
    assert_eq!(becomes(&home, &first, "running", Value::Null)["pid"], agent, "its neighbour is not affected");
    let mut kill = home.command("kill");
    kill.args(["-9", &agent.to_string()]);
    let _ = home.run(kill).ok();
    let died = becomes(&home, &first, "stopped", "died");
    assert!(died["pid"].is_null());
    assert_eq!(died["tokens"], json!({"in": 105, "out": 10, "cacheRead": 20, "cacheWrite": 0}));
    assert!(live_ids(&home).is_empty(), "the lock file that was left behind is no sign of life");

    // The killed one is resumed under the same id, and this time to its end, from another folder.
    let elsewhere = home.git_repo("elsewhere");
    codex.resume(&home, &elsewhere, &first, "[[usage:1,2,3,0]] [[text:all done]]").wait(DEADLINE);
    let resumed = becomes(&home, &first, "stopped", "completed");
    assert_eq!(resumed["cwd"], json!(elsewhere.to_str().unwrap()));
    assert_eq!(resumed["prompt"], "[[bash:sleep 600]] [[text:never]]");
    assert_eq!(resumed["lastMessage"], "all done");
    // The agent lost the count of the killed turn; its own counter is shown.
    assert_eq!(resumed["tokens"], json!({"in": 1, "out": 2, "cacheRead": 3, "cacheWrite": 0}));
    let peeked = home.agentctl(&["peek", &first, "--json"]).ok().stdout;
    let last: Value = serde_json::from_str(peeked.lines().last().unwrap()).unwrap();
    assert_eq!((&last["role"], &last["text"]), (&json!("agent"), &json!("all done")));

    // One that the model refuses, and one that leaves nothing behind.
    let mut refused = codex.exec(&home, &cwd, &[], "[[err:400|not today]]");
    let third = Codex::thread_id(&mut refused);
    refused.wait(DEADLINE);
    let failed = becomes(&home, &third, "stopped", "failed");
    assert!(failed["statusDetail"].as_str().unwrap().contains("not today"), "{failed:#}");
    let mut ephemeral = codex.exec(&home, &cwd, &["--ephemeral"], "[[hang]]");
    Codex::thread_id(&mut ephemeral);
    let doctor = home.agentctl(&["doctor", "--json"]).json();
    assert_eq!(doctor["strays"].as_array().map(Vec::len), Some(1), "{doctor:#}");
    assert_eq!(doctor["strays"][0]["pid"], ephemeral.pid());
    assert_eq!(all(&home).len(), 3);
}

/// A starting Codex takes the locks of dead threads for a moment, to clear them away. It is surveyed all the
/// while.
#[test]
fn a_starting_codex_does_not_wake_the_dead() {
    const ROUNDS: usize = 4;
    const LEFT_BEHIND: usize = 300;
    const AGE: Duration = Duration::from_hours(1);
    let model = FakeModel::start();
    let mut home = home();
    let codex = match Codex::settle(&mut home, &model.url()) {
        Ok(codex) => codex,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let root = home.path().join(".codex");
    let mut run = codex.exec(&home, &cwd, &[], "[[hang]]");
    let dead = Codex::thread_id(&mut run);
    becomes(&home, &dead, "running", Value::Null);
    run.signal(Signal::KILL);
    run.wait(DEADLINE);
    becomes(&home, &dead, "stopped", "died");

    let source = Source { adapter: &CodexAdapter, root: Root::at(&root), timeout: DEADLINE };
    let fleet = Fleet::new(vec![source], agentctl_process::system());
    let mut looks = 0;
    for _ in 0..ROUNDS {
        // So many that clearing them takes longer than a survey. One has a conversation, the others never had
        // a turn.
        let others = (0..LEFT_BEHIND).map(|number| format!("01a1de02-0000-7000-8000-{number:012}"));
        for id in others.chain([dead.clone()]) {
            let lock = fs::File::create(root.join(format!("thread-writer-locks/{id}.lock"))).unwrap();
            // The start of a process is known to a hundredth of a second only, and what is left behind is old.
            lock.set_modified(SystemTime::now() - AGE).unwrap();
        }
        let mut starting = codex.exec(&home, &cwd, &[], "[[hang]]");
        loop {
            let began = starting.stdout().contains("thread.started");
            let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
            looks += 1;
            let live: Vec<_> = survey.sessions.iter().filter(|seen| seen.session.is_live()).collect();
            assert!(live.len() <= 1, "after {looks} looks: {live:#?}");
            assert!(live.iter().all(|seen| seen.key.id != dead), "after {looks} looks: {live:#?}");
            assert!(live.iter().all(|seen| seen.session.status != Status::Unknown), "{live:#?}");
            if began {
                break;
            }
        }
        let own = Codex::thread_id(&mut starting);
        becomes(&home, &own, "running", Value::Null);
        starting.signal(Signal::KILL);
        starting.wait(DEADLINE);
    }
}

#[test]
fn a_server_says_who_waits_and_what_it_merely_opened() {
    let model = FakeModel::start();
    let mut home = home();
    let codex = match Codex::settle(&mut home, &model.url()) {
        Ok(codex) => codex,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let mut server = codex.app_server(&home);
    let pid = server.process.pid();
    assert!(live_ids(&home).is_empty(), "a server without threads is no session");

    // Before the first turn there is only a lock.
    let settings = json!({"cwd": cwd, "approvalPolicy": "on-request", "sandbox": "read-only"});
    let id = server.call("thread/start", &settings)["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(becomes(&home, &id, "idle", Value::Null)["pid"], pid);

    // The rollout cannot show that a person is asked; the server can.
    let prompt = r#"[[tool:exec_command|{"cmd":"touch x","sandbox_permissions":"require_escalated","justification":"may I?"}]]"#;
    server.call("turn/start", &json!({"threadId": id, "input": [{"type": "text", "text": prompt}]}));
    becomes(&home, &id, "waiting", Value::Null);
    // This waits for the rollout, which may be written a moment after the server reports it.
    let waiting = until_seen(DEADLINE, "what it waits for", || {
        let waiting = becomes(&home, &id, "waiting", Value::Null);
        if waiting["pending"][0]["summary"].is_null() { Err(format!("{waiting:#}")) } else { Ok(waiting) }
    });
    assert_eq!(waiting["pending"][0]["kind"], "approval");
    // The server tells it whole: the command as it will run, where, and why.
    let summary = waiting["pending"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("touch x") && summary.contains("may I?"), "{summary}");
    assert_eq!(waiting["pending"][0]["answerable"], true);
    assert_eq!(waiting["processes"][0]["role"], "server");
    assert_eq!(live_ids(&home), [id.as_str()]);

    // A run that died in its turn is opened by the server, which is older than that turn.
    let mut run = codex.exec(&home, &cwd, &[], "[[hang]]");
    let dead = Codex::thread_id(&mut run);
    becomes(&home, &dead, "running", Value::Null);
    run.signal(Signal::KILL);
    run.wait(DEADLINE);
    becomes(&home, &dead, "stopped", "died");
    server.call("thread/resume", &json!({"threadId": dead}));
    // The server reports that no turn is open; the lock file that the dead run left cannot show since when
    // the server holds it.
    assert_eq!(becomes(&home, &dead, "idle", Value::Null)["pid"], pid);

    server.process.signal(Signal::KILL);
    server.process.wait(DEADLINE);
    becomes(&home, &id, "stopped", "died");
    assert!(live_ids(&home).is_empty());
}

#[test]
fn the_old_version_is_told_by_the_file_it_holds_open() {
    let model = FakeModel::start();
    let mut home = home();
    let codex = match Codex::settle_without_locks(&mut home, &model.url()) {
        Ok(codex) => codex,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let mut hanging = codex.exec(&home, &cwd, &[], "[[hang]]");
    let mut quick = codex.exec(&home, &cwd, &[], "[[text:quick]]");
    let (first, second) = (Codex::thread_id(&mut hanging), Codex::thread_id(&mut quick));
    assert_eq!(becomes(&home, &first, "running", Value::Null)["pid"], hanging.pid());
    quick.wait(DEADLINE);
    let done = becomes(&home, &second, "stopped", "completed");
    assert_eq!((&done["lastMessage"], &done["meta"]["version"]), (&json!("quick"), &json!("0.104.0")));
    assert_eq!(live_ids(&home), [first.as_str()]);
    hanging.signal(Signal::KILL);
    hanging.wait(DEADLINE);
    becomes(&home, &first, "stopped", "died");
}
