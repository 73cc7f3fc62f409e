//! A real OpenCode, observed from outside: headless, as a server, in a terminal, and in its last version with
//! files.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_testkit::agents::opencode::MODEL;
use agentctl_testkit::{Background, FakeModel, OpenCode, Signal, TestHome, skip, until, until_seen};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_mins(3);

fn settled() -> TestHome {
    TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"))
}

fn sessions(home: &TestHome) -> Vec<Value> {
    let arguments = ["list", "--all", "--since", "all", "--usage", "--adapter", "opencode", "--json"];
    let answer = home.agentctl(&arguments).ok().json();
    let coverage = answer["sources"][0]["coverage"].as_str().unwrap_or_default();
    assert!(matches!(coverage, "complete" | "not-installed"), "{answer:#}");
    answer["sessions"].as_array().cloned().unwrap_or_default()
}

/// Waits until some session fits; checks that `status` reports the same as the list (N7).
fn wait_for(home: &TestHome, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let seen = until_seen(TIMEOUT, what, || {
        let all = sessions(home);
        all.iter().find(|session| fits(session)).cloned().ok_or_else(|| format!("{all:#?}"))
    });
    let id = seen["id"].as_str().expect("an id");
    let one = home.agentctl(&["status", id, "--json"]).ok().json();
    if one["updatedAt"] == seen["updatedAt"] {
        assert_eq!((&one["status"], &one["outcome"]), (&seen["status"], &seen["outcome"]), "{one:#}");
    }
    seen
}

/// A run that has spoken with its model. On a busy machine the very first start of OpenCode was once seen to come to nothing:
/// it had neither a session nor a request to the model after three minutes. Such a run is started again; from its first
/// request on it is for agentctl to see it.
fn begun(model: &FakeModel, start: impl Fn() -> Background) -> Background {
    let mut printed = Vec::new();
    for _ in 0..3 {
        let run = start();
        let patience = Instant::now() + TIMEOUT / 3;
        while Instant::now() < patience {
            if model.look(|requests| !requests.is_empty()) {
                return run;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        printed.push(run.stdout() + &run.stderr());
    }
    panic!("no run sent a request to its model; they printed {printed:#?}");
}

fn is(session: &Value, status: &str, outcome: &Value) -> bool {
    session["status"] == status && session["outcome"] == *outcome
}

fn data(home: &TestHome) -> BTreeSet<OsString> {
    let folder = home.path().join(".local/share/opencode");
    std::fs::read_dir(folder).expect("the data folder").flatten().map(|entry| entry.file_name()).collect()
}

fn path(cwd: &Path) -> &str {
    cwd.to_str().expect("a path that is text")
}

#[test]
fn headless_runs_are_seen_from_their_first_row_to_their_end() {
    let model = FakeModel::start();
    let mut home = settled();
    let opencode = match OpenCode::settle(&mut home, &model.url(), &json!("allow")) {
        Ok(opencode) => opencode,
        Err(reason) => return skip(reason),
    };
    let cwd = home.work_dir("odd dir.v1 ünï");

    // Only the directory ties this run to its session.
    let mut first =
        begun(&model, || opencode.run(&home, &cwd, "[[bash:sleep 1000]] [[text:done]]", &["--auto"]));
    let running = wait_for(&home, "the running tool", |session| {
        session["status"] == "running" && session["statusDetail"] == "bash: sleep 1000"
    });
    assert_eq!(running["pid"], first.pid(), "{running:#}");
    assert_eq!((running["cwd"].as_str(), running["model"].as_str()), (Some(path(&cwd)), Some(MODEL)));
    assert_eq!(running["name"], "a test");
    let id = running["id"].as_str().expect("an id").to_owned();

    first.signal(Signal::KILL);
    first.wait(TIMEOUT);
    let died = wait_for(&home, "its death", |session| is(session, "stopped", &json!("died")));
    assert_eq!((died["id"].as_str(), &died["pid"]), (Some(id.as_str()), &Value::Null));

    let mut refused = opencode.run(&home, &cwd, "[[err:401|no such key]]", &[]);
    refused.wait(TIMEOUT);
    let failed = wait_for(&home, "the failure", |session| is(session, "stopped", &json!("failed")));
    assert!(failed["statusDetail"].as_str().is_some_and(|words| words.contains("no such key")), "{failed:#}");
    let other = failed["id"].as_str().expect("an id").to_owned();

    // Both again, at once, in one directory: now the arguments distinguish them.
    let again = |id: &str, prompt: &str| opencode.run(&home, &cwd, prompt, &["--session", id]);
    let mut resumed = again(&id, "[[hang:a]] [[usage:7,3,2,1]] [[text:resumed well]]");
    let hanging = again(&other, "[[hang:b]]");
    for (id, run) in [(&id, &resumed), (&other, &hanging)] {
        let seen = wait_for(&home, "both resumed", |session| {
            session["id"] == id.as_str() && session["status"] == "running"
        });
        assert_eq!(seen["pid"], run.pid(), "{seen:#}");
    }
    model.wait_turn("[[hang:a]]", 0);
    model.open("a");
    resumed.wait(TIMEOUT);
    let done = wait_for(&home, "the resumed turn's end", |session| {
        session["id"] == id.as_str() && session["status"] == "stopped"
    });
    assert_eq!(done["outcome"], "completed", "{done:#}");
    assert!(done["tokens"]["out"].as_u64().is_some_and(|count| count > 0), "{done:#}");
    assert!(done["cost"].as_f64().is_some_and(|cost| cost > 0.0), "{done:#}");
    drop(hanging);

    // No process lives: reading must leave no trace.
    wait_for(&home, "the end of all", |session| {
        session["id"] == other.as_str() && is(session, "stopped", &json!("died"))
    });
    let before = data(&home);
    assert_eq!(sessions(&home).len(), 2);
    assert_eq!(data(&home), before);
    let said = home.agentctl(&["peek", &id, "--json"]).ok().stdout;
    assert!(said.lines().count() >= 3, "{said}");
}

fn quoted<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let from = text.find(start)?;
    text[from..].split('"').next()
}

#[test]
fn a_server_is_asked_what_its_sessions_wait_for() {
    let model = FakeModel::start();
    let mut home = settled();
    let opencode = match OpenCode::settle(&mut home, &model.url(), &json!({"bash": "ask"})) {
        Ok(opencode) => opencode,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let server = opencode.serve(&home, &home.work_dir("elsewhere"));
    let query = format!("?directory={}", path(&cwd));
    let made = server.ask("POST", &format!("/session{query}"), r#"{"title":"asked"}"#).expect("a session");
    let id = quoted(&made, "ses_").expect("an id").to_owned();
    let prompt = r#"{"parts":[{"type":"text","text":"[[bash:touch made-by-tool]] [[hang:end]]"}]}"#;
    server.ask("POST", &format!("/session/{id}/prompt_async{query}"), prompt).expect("the prompt is taken");

    let waiting = wait_for(&home, "the permission", |session| session["status"] == "waiting");
    assert_eq!((waiting["id"].as_str(), &waiting["pid"]), (Some(id.as_str()), &json!(server.process.pid())));
    assert_eq!(waiting["pending"][0]["kind"], "approval", "{waiting:#}");
    let summary = waiting["pending"][0]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("touch made-by-tool"), "{waiting:#}");

    let requests = server.ask("GET", &format!("/permission{query}"), "").expect("the requests");
    let request = quoted(&requests, "per_").expect("its id");
    let reply = format!("/permission/{request}/reply{query}");
    server.ask("POST", &reply, r#"{"reply":"once"}"#).expect("the reply is taken");
    model.wait_turn("[[hang:end]]", 1);
    let running = wait_for(&home, "the turn goes on", |session| session["status"] == "running");
    assert_eq!(running["pid"], server.process.pid());
    assert!(cwd.join("made-by-tool").exists());

    model.open("end");
    let done = wait_for(&home, "the end of the turn", |session| session["outcome"] == "completed");
    assert_eq!(
        (&done["status"], &done["pid"]),
        (&json!("stopped"), &Value::Null),
        "a server keeps nothing open"
    );
}

#[test]
fn a_terminal_carries_what_is_typed_into_it() {
    let model = FakeModel::start();
    let mut home = settled();
    let opencode = match OpenCode::settle(&mut home, &model.url(), &json!("allow")) {
        Ok(opencode) => opencode,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let mut terminal = opencode.terminal(&home, &cwd, &[]);
    terminal.wait_for("Ask anything");
    assert_eq!(sessions(&home).len(), 0, "an empty prompt is no session yet");
    terminal.send("[[hang:gate]] [[text:typed]]");
    terminal.wait_for("[[text:typed]]");
    terminal.send("\r");
    model.wait_turn("[[hang:gate]]", 0);
    let running = wait_for(&home, "the turn", |session| session["status"] == "running");
    assert_eq!(running["pid"], terminal.pid(), "{running:#}");
    model.open("gate");
    let idle = wait_for(&home, "the end of the turn", |session| session["status"] == "idle");
    assert_eq!((idle["outcome"].as_str(), &idle["pid"]), (Some("completed"), &json!(terminal.pid())));
    drop(terminal);
    wait_for(&home, "the end of the terminal", |session| is(session, "stopped", &json!("completed")));
}

#[test]
fn version_1_1_with_its_wrapper_and_its_tree_of_files() {
    let model = FakeModel::start();
    let mut home = settled();
    let opencode = match OpenCode::settle_1_1(&mut home, &model.url()) {
        Ok(opencode) => opencode,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let mut wrapper = opencode.run(&home, &cwd, "[[bash:sleep 1000]] [[text:done]]", &[]);
    let running = wait_for(&home, "the running tool", |session| {
        session["status"] == "running" && session["statusDetail"] == "bash: sleep 1000"
    });
    let native = running["pid"].as_u64().expect("a pid");
    assert_ne!(native, u64::from(wrapper.pid()), "the wrapper is not the agent: {running:#}");
    let roles: Vec<&str> = running["processes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["role"].as_str())
        .collect();
    assert_eq!(roles, ["agent", "wrapper"]);
    assert!(
        home.path().join(".local/share/opencode/storage/session").is_dir(),
        "it is the version with files"
    );

    wrapper.signal(Signal::KILL);
    wrapper.wait(TIMEOUT);
    let orphan =
        wait_for(&home, "the orphan", |session| session["processes"].as_array().map(Vec::len) == Some(1));
    assert_eq!((&orphan["status"], orphan["pid"].as_u64()), (&json!("running"), Some(native)));
    end(native);
    let died = wait_for(&home, "its death", |session| is(session, "stopped", &json!("died")));

    let id = died["id"].as_str().expect("an id");
    let mut again = opencode.run(&home, &cwd, "[[usage:7,3,2,1]] [[text:resumed well]]", &["--session", id]);
    again.wait(TIMEOUT);
    let done =
        wait_for(&home, "the resumed turn's end", |session| is(session, "stopped", &json!("completed")));
    assert_eq!((done["id"].as_str(), done["lastMessage"].as_str()), (Some(id), Some("resumed well")));
    assert_eq!(done["tokens"]["out"], 3, "{done:#}");
}

/// Kills the native program, which is no longer this test's own child.
fn end(pid: u64) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    rustix::process::kill_process(pid, Signal::KILL).expect("send a signal");
    until(TIMEOUT, "its end", || rustix::process::test_kill_process(pid).is_err().then_some(()));
}
