//! The runner is killed in the middle of a turn: nothing changes in the reports about the session.

use agentctl_testkit::{Signal, until_seen};
use serde_json::Value;

use crate::scene;
use crate::steer::{Scene, TIMEOUT};

#[test]
fn a_session_outlives_its_runner() {
    let Some(scene) = scene() else { return };
    for signal in [Signal::TERM, Signal::KILL] {
        let gate = format!("gate-{}", signal.as_raw());
        let prompt = format!("[[hang:{gate}]] [[text:All is well.]] at work");
        let id = scene.launch(&prompt, &[]).ok().json()["id"].as_str().unwrap().to_owned();
        let runner = runner(&scene);
        scene.home.signal(runner, signal);
        until_seen(TIMEOUT, "the end of the runner", || {
            let left = scene.processes();
            if left.iter().any(|(pid, _)| *pid == runner) { Err(format!("{left:#?}")) } else { Ok(()) }
        });
        let listed = scene.agentctl(&["list", "--json"]).ok().json();
        let rows: Vec<&Value> =
            listed["sessions"].as_array().unwrap().iter().filter(|row| row["id"] == id.as_str()).collect();
        assert_eq!(rows.len(), 1, "{listed:#}");
        assert_eq!(rows[0]["status"], "running", "{listed:#}");
        let status = scene.status(&id);
        assert_eq!((&status["status"], &status["pid"]), (&rows[0]["status"], &rows[0]["pid"]));
        assert!(status["launch"]["id"].is_string(), "the record is still known: {status:#}");

        scene.model.open(&gate);
        let waited = scene.agentctl(&["wait", &id, "--until", "stopped"]);
        assert_eq!(waited.code, Some(0), "{waited:#?}");
        let over = scene.status(&id);
        assert_eq!((&over["status"], &over["outcome"]), (&"stopped".into(), &"completed".into()), "{over:#}");
        assert!(over["launch"]["exitedAt"].is_null(), "nobody saw the exit: {over:#}");
        scene.wait_for_silence();
    }
}

fn runner(scene: &Scene) -> u32 {
    let processes = scene.processes();
    let runners: Vec<u32> =
        processes.iter().filter(|(_, line)| line.contains(" __run ")).map(|(pid, _)| *pid).collect();
    assert_eq!(runners.len(), 1, "{processes:#?}");
    runners[0]
}
