//! The real Pi, driven by a fake model on loopback: what agentctl reports of it while it lives and after it
//! died.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::path::Path;
use std::time::Duration;

use agentctl_testkit::{Background, FakeModel, Pi, Pty, Signal, TestHome, new_uuid, skip, until_seen};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);

/// A home with Pi in it, or the reason why there is none.
macro_rules! home_with_pi {
    ($model:expr, $settle:path) => {{
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        match $settle(&mut home, &$model.url()) {
            Ok(pi) => (home, pi),
            Err(reason) => return skip(reason),
        }
    }};
}

/// The rows of a list, by id.
fn rows(home: &TestHome, flags: &[&str]) -> Vec<Value> {
    let arguments = [&["list", "--json", "--strict"][..], flags].concat();
    home.agentctl(&arguments).ok().json()["sessions"].as_array().unwrap().clone()
}

fn row(home: &TestHome, flags: &[&str], id: &str) -> Option<Value> {
    let mut rows: Vec<Value> = rows(home, flags).into_iter().filter(|row| row["id"] == id).collect();
    assert!(rows.len() < 2, "{id} is listed twice: {rows:#?}");
    rows.pop()
}

/// Waits until the plain list of live sessions shows `id` with this status.
fn wait_live(home: &TestHome, run: &Background, id: &str, status: &str) -> Value {
    until_seen(TIMEOUT, &format!("{id} {status}"), || match row(home, &[], id) {
        Some(row) if row["status"] == status => Ok(row),
        other => Err(format!("{other:#?}\nstdout: {}\nstderr: {}", run.stdout(), run.stderr())),
    })
}

/// Waits until the list names the running tool.
fn wait_in_tool(home: &TestHome, id: &str) {
    until_seen(TIMEOUT, "the tool at work", || match row(home, &[], id) {
        Some(row) if row["statusDetail"] == "bash: sleep 1234" && row["status"] == "running" => Ok(()),
        other => Err(format!("{other:#?}")),
    });
}

/// The verdict on a session that no process runs, after checking that list and status agree.
fn stopped(home: &TestHome, id: &str) -> Value {
    let listed = row(home, &["--all", "--usage"], id).unwrap_or_else(|| panic!("{id} is not listed"));
    let status = home.agentctl(&["status", id, "--json"]).ok().json();
    for key in ["status", "outcome", "tokens", "cost", "name", "model", "pid"] {
        assert_eq!(listed[key], status[key], "{key}");
    }
    assert!(row(home, &[], id).is_none(), "a plain list shows live sessions only");
    assert_eq!(status["status"], "stopped", "{status:#?}");
    status
}

fn agent_texts(home: &TestHome, id: &str) -> Vec<String> {
    let peek = home.agentctl(&["peek", id, "--json"]).ok();
    let entries = peek.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let agent = entries.filter(|entry| entry["role"] == "agent");
    agent.map(|entry| entry["text"].as_str().unwrap().trim().to_owned()).collect()
}

#[test]
fn killed_in_a_tool_resumed_and_failed() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi!(model, Pi::settle);
    let cwd = home.work_dir("my proj.v1 (x) ünï—日本");
    let id = new_uuid();
    let named = ["--session-id", id.as_str(), "--name", "A title"];
    let mut run = pi.headless(&home, &cwd, "[[bash:sleep 1234]] [[text:never]]", &named);
    let live = wait_live(&home, &run, &id, "running");
    assert_eq!(live["cwd"], cwd.to_str().unwrap());
    assert_eq!((live["pid"].as_u64(), live["name"].as_str()), (Some(u64::from(run.pid())), Some("A title")));
    assert_eq!(live["model"], "fake/fake-1");
    wait_in_tool(&home, &id);
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    let dead = stopped(&home, &id);
    assert_eq!((dead["outcome"].as_str(), dead["pid"].as_u64()), (Some("died"), None), "its tool lives on");
    let tokens = &dead["tokens"];
    assert_eq!((tokens["in"].as_u64(), tokens["out"].as_u64()), (Some(105), Some(10)), "{tokens}");

    let resume = ["--session-id", id.as_str()];
    let mut run = pi.headless(&home, &cwd, "[[usage:7,3,2,0]] [[text:resumed fine]]", &resume);
    assert!(run.wait(TIMEOUT).success(), "{}", run.stderr());
    let done = stopped(&home, &id);
    assert_eq!(
        (done["outcome"].as_str(), done["lastMessage"].as_str()),
        (Some("completed"), Some("resumed fine"))
    );
    assert_eq!(done["tokens"]["in"], 112, "both runs count");
    assert!(done["cost"].as_f64().unwrap() > 0.0);
    assert_eq!(agent_texts(&home, &id).last().unwrap(), "resumed fine");

    let mut run = pi.headless(&home, &cwd, "[[err:401|no such key]]", &resume);
    run.wait(TIMEOUT);
    let failed = stopped(&home, &id);
    assert_eq!(failed["outcome"], "failed");
    assert!(failed["statusDetail"].as_str().unwrap().contains("no such key"), "{failed:#?}");
    assert_eq!(rows(&home, &["--all"]).len(), 1, "three processes, one session");
}

#[test]
fn two_in_one_directory_and_a_wrapper_that_dies() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi!(model, Pi::settle);
    let cwd = home.git_repo("project");
    let (in_tool, silent) = (new_uuid(), new_uuid());
    // The second one runs behind a shell that can be killed without it.
    let mut wrapper = home.command("/bin/bash");
    let script =
        r#"pi -p --mode json --model fake/fake-1 --session-id "$0" "[[hang:late]] [[text:unused]]"; true"#;
    wrapper.args(["-c", script, &silent]).current_dir(&cwd);
    let mut wrapper = Background::spawn(&home, wrapper);
    let alone = wait_live(&home, &wrapper, &silent, "running");
    assert_ne!(alone["pid"].as_u64(), Some(u64::from(wrapper.pid())), "the shell is not the agent");
    assert_eq!(alone["branch"], "main");
    assert_eq!(alone["processes"].as_array().unwrap().len(), 1);

    let run = pi.headless(&home, &cwd, "[[bash:sleep 1234]]", &["--session-id", &in_tool]);
    wait_live(&home, &run, &in_tool, "running");
    let both = until_seen(TIMEOUT, "both told apart by the tool", || {
        let both = [row(&home, &[], &in_tool), row(&home, &[], &silent)].map(Option::unwrap_or_default);
        if both.iter().all(|row| row["status"] == "running") { Ok(both) } else { Err(format!("{both:#?}")) }
    });
    assert_eq!(both[0]["pid"].as_u64(), Some(u64::from(run.pid())));
    assert_eq!(both[1]["pid"], alone["pid"]);

    wrapper.signal(Signal::KILL);
    wrapper.wait(TIMEOUT);
    assert_eq!(row(&home, &[], &silent).unwrap()["status"], "running", "the agent lives without its wrapper");
    model.open("late");
    let ended = until_seen(TIMEOUT, "the end of the silent one", || {
        let row = row(&home, &["--all"], &silent).unwrap();
        if row["status"] == "stopped" { Ok(row) } else { Err(format!("{row:#?}")) }
    });
    assert_eq!(ended["outcome"], "completed", "{ended:#?}");
    assert_eq!(row(&home, &[], &in_tool).unwrap()["status"], "running");
}

#[test]
fn an_interactive_run_is_idle_between_its_turns() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi!(model, Pi::settle);
    let cwd = home.work_dir("terminal");
    let id = new_uuid();
    let mut terminal = Pty::spawn(&pi.command(&home, &cwd, &["--session-id", &id]));
    terminal.wait_for("fake-1");
    assert!(row(&home, &["--all"], &id).is_none(), "nothing is written before the first prompt");
    let say = |terminal: &mut Pty, prompt: &str, status: &str| {
        terminal.send(prompt);
        terminal.wait_for(prompt);
        terminal.send("\r");
        until_seen(TIMEOUT, status, || match row(&home, &[], &id) {
            Some(row) if row["status"] == status => Ok(row),
            other => Err(format!("{other:#?}\n{}", terminal.screen_text())),
        })
    };
    let idle = say(&mut terminal, "[[text:first]]", "idle");
    assert_eq!(
        (idle["outcome"].as_str(), idle["pid"].as_u64()),
        (Some("completed"), Some(u64::from(terminal.pid())))
    );
    let running = say(&mut terminal, "[[hang]]", "running");
    assert_eq!(running["outcome"], Value::Null);
    drop(terminal);
    assert_eq!(stopped(&home, &id)["outcome"], "died");
}

#[test]
fn a_run_without_a_session_is_counted_and_not_listed() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi!(model, Pi::settle);
    let run = pi.headless(&home, &home.work_dir("w"), "[[hang]]", &["--no-session"]);
    model.wait_turn("[[hang]]", 0);
    let told = home.agentctl(&["list"]).ok();
    assert!(told.stdout.contains("1 live agent process belongs to no stored session"), "{told:#?}");
    assert_eq!(rows(&home, &["--all"]).len(), 0, "{}", run.stdout());
}

#[test]
fn the_last_version_under_the_old_name_is_read_too() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi!(model, Pi::settle_old);
    let cwd = home.work_dir("old");
    let id = new_uuid();
    // It accepts no id, but an existing header, which it writes a second time.
    let store = home.path().join(".pi/agent/sessions/--anything--");
    std::fs::create_dir_all(&store).unwrap();
    let file = store.join("chosen by hand.jsonl");
    write_header(&file, &id, &cwd);
    let arguments = ["--session", file.to_str().unwrap()];
    let mut run = pi.headless(&home, &cwd, "[[bash:sleep 1234]]", &arguments);
    let live = wait_live(&home, &run, &id, "running");
    assert_eq!(live["pid"].as_u64(), Some(u64::from(run.pid())));
    // Its first records come with the first reply. By then nothing names the file any more, and its folder is
    // not the one that Pi would have chosen.
    wait_in_tool(&home, &id);
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    assert_eq!(stopped(&home, &id)["outcome"], "died");
    let mut run = pi.headless(&home, &cwd, "[[text:old but well]]", &arguments);
    assert!(run.wait(TIMEOUT).success(), "{}", run.stderr());
    let done = stopped(&home, &id);
    assert_eq!(
        (done["outcome"].as_str(), done["lastMessage"].as_str()),
        (Some("completed"), Some("old but well"))
    );
    assert_eq!(done["tokens"]["out"], 20);
    assert_eq!(rows(&home, &["--all"]).len(), 1);
}

fn write_header(file: &Path, id: &str, cwd: &Path) {
    let header = serde_json::json!({"type": "session", "version": 3, "id": id,
                                    "timestamp": "2026-11-15T07:00:00.000Z", "cwd": cwd});
    std::fs::write(file, format!("{header}\n")).unwrap();
}
