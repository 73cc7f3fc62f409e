//! A live headless run is running until it ends, whatever it records on the way; and one failure is announced
//! once.

use std::fs;
use std::time::Instant;

use agentctl_testkit::until_seen;
use serde_json::Value;

use super::{Scene, TIMEOUT};

/// What the first tool of the run does: it waits for the test, so that the launch is over before anything
/// else happens.
pub(crate) const WAIT: &str = "until test -e go; do sleep 0.1; done";

/// A prompt whose first tool waits, followed by these replies.
pub(crate) fn prompt(replies: &str) -> String {
    format!("[[bash:{WAIT}]] {replies} to its end")
}

/// Launches a run whose first tool [waits](WAIT), lets it continue, and surveys it again and again.
/// `outcomes` are the permitted ends; a failure must be announced once, and nothing else but the end.
pub(crate) fn runs_until_its_end(scene: &Scene, prompt: &str, outcomes: &[&str]) {
    let heard = scene.home.path().join("heard");
    fs::create_dir_all(scene.home.agentctl_home()).unwrap();
    let config = format!(
        "[notify]\ncommand = 'echo \"$AGENTCTL_EVENT $AGENTCTL_OUTCOME\" >> {}'\non = [\"idle\", \"failed\", \"died\", \"stopped\"]\n",
        heard.display()
    );
    fs::write(scene.home.agentctl_home().join("config.toml"), config).unwrap();
    let _ = scene.agentctl(&["daemon", "start"]).ok();
    let launched = scene.launch(prompt, &[]).ok().json();
    let id = launched["id"].as_str().unwrap();
    fs::write(scene.cwd.join("go"), "").unwrap();

    never_at_rest(scene, id);
    // The outcome is known once its runner has recorded it.
    scene.agentctl(&["wait", id]);
    let ended = scene.status(id);
    let outcome = ended["outcome"].as_str().unwrap_or_default();
    assert!(outcomes.contains(&outcome), "{ended:#}");
    // One line for the status `stopped`, and one for the outcome if that is a failure.
    let told = vec![format!("session.stopped {outcome}"); if outcome == "completed" { 1 } else { 2 }];
    let lines = || -> Vec<String> {
        fs::read_to_string(&heard).unwrap_or_default().lines().map(|line| line.trim().to_owned()).collect()
    };
    until_seen(TIMEOUT, "the notices", || match lines() {
        lines if lines.len() >= told.len() => Ok(()),
        lines => Err(format!("{lines:?}")),
    });
    let _ = scene.agentctl(&["daemon", "stop"]).ok();
    assert_eq!(lines(), told);
}

/// Surveys the session until it has stopped: until then it is running, and no outcome is reported.
fn never_at_rest(scene: &Scene, id: &str) {
    let (began, mut looks) = (Instant::now(), 0);
    while began.elapsed() < TIMEOUT {
        let list = scene.agentctl(&["list", "--all", "--json"]).ok().json();
        let rows = list["sessions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{list:#}"));
        looks += 1;
        match row["status"].as_str() {
            Some("running") => assert_eq!(row["outcome"], Value::Null, "look {looks}: {row:#}"),
            Some("stopped") => return,
            _ => panic!("look {looks}: {row:#}"),
        }
    }
    panic!("{id} did not end");
}
