//! Cron jobs and hooks, which once produced ghosts.

use agentctl_testkit::until_seen;
use serde_json::{Value, json};

use crate::scene::{Scene, TIMEOUT, words};

/// Posts to the hook: a few show the same as many, which `AGENTCTL_LONG` sends.
#[expect(clippy::disallowed_methods, reason = "a test may ask how long it shall be")]
fn posts() -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { 50 } else { 5 }
}

#[test]
fn automations_leave_no_ghosts() {
    let Some(scene) = Scene::set() else { return };
    a_job_is_one_session_however_often_it_runs(&scene);
    posts_to_a_hook_end(&scene);
}

fn a_job_is_one_session_however_often_it_runs(scene: &Scene) {
    let rpc = || scene.openclaw.rpc(&[]);
    let job = json!({
        "name": "nightly", "enabled": true, "schedule": {"kind": "every", "everyMs": 86_400_000},
        "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "[[hang:cron]] cron work"},
    });
    let job = rpc().call("cron.add", &job).expect("a cron job");
    let id = job["id"].as_str().or(job["job"]["id"].as_str()).expect("its id").to_owned();
    let key = format!("agent:main:cron:{id}");
    let mut generations = Vec::new();
    for run in 1..=2 {
        rpc().call("cron.run", &json!({"id": id, "mode": "force"})).expect("a run");
        // It runs until it was seen: a look takes longer than many a run.
        scene.wait_for(&key, "the running job", |row| row["status"] == "running");
        scene.model.open("cron");
        let row = scene.wait_for(&key, "its end", |row| row["status"] == "stopped");
        scene.model.close("cron");
        assert_eq!(words(&row), ("stopped", Some("completed")), "run {run}: {row:#}");
        assert!(row["name"].as_str().is_some_and(|name| name.contains("nightly")), "{row:#}");
        generations.push(row["meta"]["sessionId"].clone());
        let is_cron = |row: &&Value| row["id"].as_str().is_some_and(|id| id.contains(":cron:"));
        assert_eq!(scene.rows().iter().filter(is_cron).count(), 1, "one session, however often it runs");
    }
    assert_ne!(generations[0], generations[1], "each run has its own transcript");
    rpc().call("cron.remove", &json!({"id": id})).expect("remove the job");
    until_seen(TIMEOUT, "the job's row to go", || {
        let rows = scene.rows();
        if rows.iter().any(|row| row["id"] == key.as_str()) { Err(format!("{rows:#?}")) } else { Ok(()) }
    });
}

fn posts_to_a_hook_end(scene: &Scene) {
    let posts = posts();
    for post in 0..posts {
        // On a busy machine the gateway rejects some of them: they are sent again.
        until_seen(TIMEOUT, "the hook to take a post", || {
            let answer = scene.openclaw.post_hook(&format!("[[text:post {post}]]"));
            if answer["ok"] == true { Ok(()) } else { Err(answer) }
        });
    }
    // The gateway is asked over one connection, and agentctl only when the gateway is idle: a survey costs it
    // more than a run.
    let mut rpc = scene.openclaw.rpc(&[]);
    let mut own = || {
        let list = rpc.call("sessions.list", &json!({"limit": 1000})).expect("the list");
        let rows = list["sessions"].as_array().expect("rows").clone();
        let busy = rows.iter().filter(|row| row["hasActiveRun"] == true).count();
        (rows.len(), busy)
    };
    until_seen(2 * TIMEOUT, "the end of every post", || match own() {
        (rows, 0) if rows >= posts => Ok(()),
        (rows, busy) => Err(format!("{rows} of {posts} rows, {busy} busy")),
    });
    let settled = until_seen(TIMEOUT, "the same in our list", || {
        let rows = scene.rows();
        let active = rows.iter().filter(|row| row["status"] == "running").count();
        let (count, busy) = own();
        let same = rows.len() == count && active == busy;
        if same && busy == 0 {
            Ok(rows)
        } else {
            Err(format!("{} of {count}, {active} of {busy}", rows.len()))
        }
    });
    assert_eq!(settled.len(), posts, "one session for each post: {settled:#?}");
    assert!(settled.iter().all(|row| row["status"] == "stopped"), "{settled:#?}");
    assert!(scene.home.agentctl(&["list", "-q"]).ok().stdout.is_empty(), "nobody is live");
}
