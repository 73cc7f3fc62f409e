//! The real Pi Rust, driven by a fake model on loopback. It runs where `cargo xtask pi-rust` has built it.
#![allow(clippy::disallowed_methods, reason = "tests start processes and wait")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::path::Path;
use std::time::Duration;

use agentctl_testkit::agents::pi;
use agentctl_testkit::{FakeModel, PiRust, Signal, TestHome, skip, until_seen};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(2);
const TOOL: &str = "[[bash:sleep 1234]] [[text:never]]";

/// A home with Pi Rust in it, or the reason why there is none.
macro_rules! home_with_pi_rust {
    ($model:expr) => {{
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        match PiRust::settle(&mut home, &$model.url()) {
            Ok(pi) => (home, pi),
            Err(reason) => return skip(reason),
        }
    }};
}

fn rows(home: &TestHome, flags: &[&str]) -> Vec<Value> {
    let arguments = [&["list", "--json", "--strict"][..], flags].concat();
    home.agentctl(&arguments).ok().json()["sessions"].as_array().unwrap().clone()
}

/// Waits for the only live session.
fn wait_live(home: &TestHome, status: &str) -> Value {
    until_seen(TIMEOUT, status, || match &rows(home, &[])[..] {
        [row] if row["status"] == status => Ok(row.clone()),
        other => Err(format!("{other:#?}")),
    })
}

fn wait_for_tool(home: &TestHome) {
    until_seen(TIMEOUT, "the tool", || match tools(home) {
        0 => Err("none"),
        _ => Ok(()),
    });
}

fn tools(home: &TestHome) -> usize {
    home.processes().iter().filter(|(_, line)| line.contains("sleep 1234")).count()
}

fn status(home: &TestHome, id: &str) -> Value {
    home.agentctl(&["status", id, "--json"]).ok().json()
}

fn launch(home: &TestHome, cwd: &Path, words: &[&str]) -> Value {
    let first = ["launch", "pi-rust", "--model", pi::MODEL, "--permission-mode", "bypass", "--json"];
    let mut command = home.agentctl_command(&[&first[..], words].concat());
    command.current_dir(cwd);
    home.run(command).ok().json()
}

/// What it writes only at the end of a run: until then its file says no more than the prompt.
#[test]
fn a_session_of_a_person_is_seen_at_work_and_after_its_death() {
    let model = FakeModel::start();
    let (home, pi) = home_with_pi_rust!(model);
    let cwd = home.work_dir("my proj.v1 (x) ünï—日本");
    let mut run = pi.headless(&home, &cwd, TOOL, &["--approval-mode=yolo"]);
    let live = wait_live(&home, "running");
    wait_for_tool(&home);
    assert_eq!(live["adapter"], "pi-rust", "{live:#}");
    assert_eq!((live["cwd"].as_str(), live["pid"].as_u64()), (cwd.to_str(), Some(u64::from(run.pid()))));
    assert_eq!(live["model"], "fake/fake-1");
    let id = live["id"].as_str().unwrap();
    assert!(run.stdout().contains(id), "its own words name it");
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    let dead = status(&home, id);
    assert_eq!(
        (dead["status"].as_str(), dead["outcome"].as_str()),
        (Some("stopped"), Some("died")),
        "{dead:#}"
    );

    let resumed =
        home.agentctl(&["resume", id, "[[usage:7,3,2,0]] [[text:resumed fine]]", "--wait", "--json"]);
    assert_eq!(resumed.ok().json()["id"], id);
    let done = status(&home, id);
    let seen = (done["status"].as_str(), done["outcome"].as_str(), done["lastMessage"].as_str());
    assert_eq!(seen, (Some("stopped"), Some("completed"), Some("resumed fine")), "{done:#}");
    assert_eq!(rows(&home, &["--all"]).len(), 1, "two processes, one session");
}

#[test]
fn a_launch_is_stopped_with_its_tools_and_taken_up_again() {
    let model = FakeModel::start();
    let (home, _pi) = home_with_pi_rust!(model);
    let cwd = home.git_repo("project");
    let launched = launch(&home, &cwd, &["-p", TOOL]);
    let id = launched["id"].as_str().unwrap();
    wait_for_tool(&home);
    assert_eq!(status(&home, id)["status"], "running");
    let stopped = home.agentctl(&["stop", id, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["stopped"], true, "{stopped:#}");
    assert_eq!(tools(&home), 0, "an interrupt ends the tools too");
    let after = status(&home, id);
    assert_eq!(
        (after["status"].as_str(), after["outcome"].as_str()),
        (Some("stopped"), Some("interrupted")),
        "{after:#}"
    );
    let whole = launch(&home, &cwd, &["-p", "[[bash:echo hi > made]] [[text:done]]", "--wait"]);
    assert_eq!((whole["outcome"].as_str(), whole["lastMessage"].as_str()), (Some("completed"), Some("done")));
    assert!(cwd.join("made").exists());

    // Without a person it denies what it would have to ask for, and says so with its exit code.
    let mut denied =
        home.agentctl_command(&["launch", "pi-rust", "--model", pi::MODEL, "--json", "--wait", "-p"]);
    denied.arg("[[bash:echo hi > denied]] [[text:not done]]").current_dir(&cwd);
    let denied = home.run(denied);
    assert!(!cwd.join("denied").exists(), "{denied:#?}");
    assert_eq!(denied.json()["launch"]["exitCode"], 3);
    let shown = rows(&home, &["--all"]);
    assert_eq!(shown.len(), 3, "{shown:#?}");
}

/// Named as an agent over ACP, it is the same session, and its own records tell of it.
#[test]
fn over_acp_it_is_one_session_that_is_kept() {
    let model = FakeModel::start();
    let (home, _pi) = home_with_pi_rust!(model);
    let cwd = home.work_dir("project");
    let mut command = home.agentctl_command(&["launch", "acp:pi-rust", "--model", pi::MODEL, "--json", "-p"]);
    command.arg("[[text:one]]").current_dir(&cwd);
    let launched = home.run(command).ok().json();
    let id = launched["id"].as_str().unwrap();
    let idle = until_seen(TIMEOUT, "idle", || match status(&home, id) {
        seen if seen["status"] == "idle" && seen["lastMessage"] == "one" => Ok(seen),
        seen => Err(format!("{seen:#}")),
    });
    assert_eq!(
        (&idle["adapter"], &idle["meta"]["via"]),
        (&"pi-rust".into(), &"acp:pi-rust".into()),
        "{idle:#}"
    );
    let _ = home.agentctl(&["send", id, "[[text:two]]"]).ok();
    until_seen(TIMEOUT, "the second turn", || match status(&home, id) {
        seen if seen["lastMessage"] == "two" && seen["status"] == "idle" => Ok(()),
        seen => Err(format!("{seen:#}")),
    });
    let _ = home.agentctl(&["stop", id]).ok();
    let all = rows(&home, &["--all"]);
    assert_eq!(
        (all.len(), &all[0]["id"], &all[0]["lastMessage"]),
        (1, &id.into(), &"two".into()),
        "{all:#?}"
    );
}
