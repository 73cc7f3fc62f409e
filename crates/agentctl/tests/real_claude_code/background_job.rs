//! `--bg`: a session owned by a worker, among helper processes that own none.

use std::collections::BTreeSet;

use agentctl_testkit::{Pty, until_seen};
use serde_json::Value;

use crate::scene::{Scene, TIMEOUT, verdict};

/// Live Claude Code processes of this home that are helpers by their own title or argv.
fn helpers(scene: &Scene) -> BTreeSet<u32> {
    let home = format!("HOME={}", scene.home.path().display());
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let is_helper = |pid: &u32| {
        let argv = String::from_utf8_lossy(&read(*pid, "cmdline")).replace('\0', " ");
        let ours = read(*pid, "environ").split(|byte| *byte == 0).any(|entry| entry == home.as_bytes());
        ours && ["daemon run", "--bg-pty-host", "--bg-spare"].iter().any(|word| argv.contains(word))
    };
    pids.filter(is_helper).collect()
}

#[test]
fn a_background_job_is_one_session_and_its_helpers_are_none() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    agentctl_testkit::agents::claude::trust(&scene.home, &cwd);
    let mut command = scene.home.command(scene.claude.executable());
    command.args(["--bg", "in the background [[hang:job]]"]).current_dir(&cwd);
    let said = scene.home.run(command).ok().stdout;
    scene.model.wait_turn("in the background", 0);
    let job = until_seen(TIMEOUT, "the job", || {
        let rows = scene.rows(&[]);
        let job = rows.iter().find(|row| verdict(row) == "running").cloned();
        job.ok_or_else(|| format!("{rows:#?}"))
    });
    let id = job["id"].as_str().unwrap().to_owned();
    assert!(said.contains(&id[..8]), "{said}");
    assert_eq!(job["meta"]["kind"], "bg");
    let helpers = until_seen(TIMEOUT, "the daemon, a pty host and a spare", || {
        let helpers = helpers(&scene);
        if helpers.len() >= 3 { Ok(helpers) } else { Err(format!("{helpers:?}")) }
    });
    let is_alone = |rows: &[Value]| {
        assert_eq!(rows.len(), 1, "a helper is no session: {rows:#?}");
        assert_eq!(rows[0]["id"], id.as_str());
        assert_eq!(rows[0]["processes"].as_array().unwrap().len(), 1, "{rows:#?}");
    };
    is_alone(&scene.rows(&[]));
    is_alone(&scene.rows(&["--since", "all", "--all-agents"]));
    let doctor = scene.ask(&["doctor", "--json"]);
    let strays = doctor["strays"].as_array().unwrap();
    assert!(strays.is_empty(), "helpers {helpers:?} are no strays: {strays:#?}");

    scene.model.open("job");
    scene.wait_verdict(&id, "idle/completed");
    let mut command = scene.home.command(scene.claude.executable());
    command.args(["stop", &id[..8]]).current_dir(&cwd);
    let _ = scene.home.run(command).ok();
    scene.wait_verdict(&id, "stopped/completed");
    assert!(scene.rows(&[]).is_empty(), "the daemon that stays is no session");
}

/// The overview of agents keeps a session ready for the next job, and registers it like a session.
#[test]
fn a_spare_is_no_session_and_holds_no_folder() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    agentctl_testkit::agents::claude::trust(&scene.home, &cwd);
    let mut command = scene.home.command(scene.claude.executable());
    command.arg("agents").current_dir(&cwd);
    let overview = Pty::spawn(&command);
    let notes = || {
        let folder = std::fs::read_dir(scene.home.path().join(".claude/sessions"));
        let files = folder.into_iter().flatten().flatten();
        let notes = files.filter_map(|file| serde_json::from_slice(&std::fs::read(file.path()).ok()?).ok());
        notes.collect::<Vec<Value>>()
    };
    let spare = until_seen(TIMEOUT, "a spare", || {
        let spare = notes().into_iter().find(|note| note["spare"] == true && note["status"] == "idle");
        spare.ok_or_else(|| format!("{:#?}\n{}", notes(), overview.screen_text()))
    });
    for flags in [&[][..], &["--all", "--all-agents"]] {
        let rows = scene.rows(flags);
        assert!(rows.is_empty(), "{spare:#} is no session: {rows:#?}");
    }
    let locks = scene.ask(&["locks", "--json"]);
    assert_eq!(locks["locks"], Value::Array(Vec::new()), "{locks:#}");
    let strays = &scene.ask(&["doctor", "--json"])["strays"];
    assert_eq!(*strays, Value::Array(Vec::new()), "{strays:#}");
    assert!(
        notes().iter().any(|note| note["pid"] == spare["pid"] && note["spare"] == true),
        "it was one all along"
    );
}

#[test]
fn a_background_job_is_stopped_for_good() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    agentctl_testkit::agents::claude::trust(&scene.home, &cwd);
    let mut command = scene.home.command(scene.claude.executable());
    command.args(["--bg", "in the background [[hang]]"]).current_dir(&cwd);
    let _ = scene.home.run(command).ok();
    scene.model.wait_turn("in the background", 0);
    let id = until_seen(TIMEOUT, "the job", || {
        let rows = scene.rows(&[]);
        let job = rows.iter().find(|row| verdict(row) == "running");
        job.map(|row| row["id"].as_str().unwrap().to_owned()).ok_or_else(|| format!("{rows:#?}"))
    });
    let stopped = scene.ask(&["stop", &id, "--json"]);
    let stopped = &stopped["sessions"][0];
    // A worker that is only killed is restarted, so the agent's own command must have ended it.
    assert_eq!(stopped["how"], format!("`claude stop {}`", &id[..8]), "{stopped:#}");
    assert_eq!(stopped["survived"], Value::Array(Vec::new()), "{stopped:#}");
    assert!(scene.rows(&[]).is_empty());
    let state =
        std::fs::read(scene.home.path().join(format!(".claude/jobs/{}/state.json", &id[..8]))).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    assert_eq!(state["state"].as_str().or_else(|| state["status"].as_str()), Some("stopped"), "{state:#}");
}
