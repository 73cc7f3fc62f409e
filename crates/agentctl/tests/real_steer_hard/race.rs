//! Many launches in one directory: one wins, and the others name it.

use agentctl_testkit::Background;
use serde_json::Value;

use crate::steer::TIMEOUT;
use crate::{count, scene};

#[test]
fn of_many_launches_at_one_directory_one_wins() {
    let Some(scene) = scene() else { return };
    let below = scene.cwd.join("deep/below");
    std::fs::create_dir_all(&below).unwrap();
    let mut racers: Vec<Background> = (0..count(6, 50))
        .map(|number| {
            let prompt = format!("[[hang]] racer {number}");
            let arguments = ["launch", "claude-code", "-p", &prompt, "--permission-mode", "bypass", "--json"];
            let mut command = scene.home.agentctl_command(&arguments);
            // Two directories of one working tree count as one.
            command.current_dir(if number % 2 == 0 { &scene.cwd } else { &below });
            Background::spawn(&scene.home, command)
        })
        .collect();
    let mut winners = Vec::new();
    let mut losers = Vec::new();
    for racer in &mut racers {
        match racer.wait(TIMEOUT * 2).code() {
            Some(0) => winners.push(serde_json::from_str::<Value>(&racer.stdout()).unwrap()),
            Some(7) => losers.push(racer.stderr()),
            other => panic!("{other:?}: {} {}", racer.stdout(), racer.stderr()),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:#?}");
    let id = winners[0]["id"].as_str().unwrap();
    for words in &losers {
        assert!(words.contains(id), "a loser does not name the winner {id}: {words}");
        assert!(words.contains("--worktree"), "{words}");
    }
    assert_eq!(scene.launches().len(), 1, "only the winner has a record");
    let stopped = scene.agentctl(&["stop", id]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
    scene.wait_for_silence();
    let locks = scene.agentctl(&["locks", "--json"]).ok().json();
    assert_eq!(locks["locks"].as_array().or_else(|| locks.as_array()).unwrap().len(), 0, "{locks:#}");
}
