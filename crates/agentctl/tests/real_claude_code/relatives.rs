//! Sessions that are easily confused: two in one folder, resumed ones, forks, sub-agents.

use agentctl_testkit::{new_uuid, until_seen};
use serde_json::json;

use crate::scene::{Scene, TIMEOUT, tokens, verdict};

#[test]
fn twins_in_one_folder_are_told_apart() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let (one, other) = (new_uuid(), new_uuid());
    let mut first = scene.run(&cwd, &one, "one [[hang:one]]");
    let mut second = scene.run(&cwd, &other, "other [[hang:other]]");
    scene.model.wait_turn("one [[hang:one]]", 0);
    scene.model.wait_turn("other [[hang:other]]", 0);
    let (seen, seen_other) = (scene.status(&one), scene.status(&other));
    assert_eq!((&seen["pid"], &seen_other["pid"]), (&first.pid().into(), &second.pid().into()));
    assert_eq!((verdict(&seen).as_str(), verdict(&seen_other).as_str()), ("running", "running"));
    scene.model.open("one");
    first.wait(TIMEOUT);
    assert_eq!(scene.verdict(&one), "stopped/completed");
    assert_eq!(scene.verdict(&other), "running", "the living twin is not stopped with it");
    scene.model.open("other");
    second.wait(TIMEOUT);
    assert_eq!(scene.verdict(&other), "stopped/completed");
}

#[test]
fn a_resumed_session_runs_again_and_a_fork_counts_only_its_own_tokens() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let id = new_uuid();
    let mut run = scene.run(&cwd, &id, "[[usage:10,20,30,40]] [[bash:echo hi]] [[text:first]]");
    run.wait(TIMEOUT);
    assert_eq!(scene.verdict(&id), "stopped/completed");

    let prompt = "more [[usage:1,2,3,4]] [[hang:resumed]]";
    let mut resumed = scene.run_again(&cwd, &["--resume", &id], prompt);
    scene.wait_registry(resumed.pid());
    // Its last recorded turn ended long ago; the new process makes it run.
    assert_eq!(scene.verdict(&id), "running");
    scene.model.wait_turn(prompt, 0);
    assert_eq!(scene.status(&id)["pid"], resumed.pid());
    scene.model.open("resumed");
    resumed.wait(TIMEOUT);
    assert_eq!(scene.verdict(&id), "stopped/completed");
    assert_eq!(tokens(&scene.status(&id)), [Some(21), Some(42), Some(63), Some(84)]);
    assert_eq!(scene.rows(&["--since", "all"]).len(), 1, "a resumed session is the same one");

    let fork = new_uuid();
    let prompt = "aside [[usage:500,600,700,800]] [[hang:forked]]";
    let mut forked =
        scene.run_again(&cwd, &["--resume", &id, "--fork-session", "--session-id", &fork], prompt);
    scene.model.wait_turn(prompt, 0);
    assert_eq!(scene.verdict(&fork), "running");
    assert_eq!(scene.verdict(&id), "stopped/completed", "the fork's process is not its parent's");
    assert_eq!(tokens(&scene.status(&fork)), [None; 4], "it said nothing of its own yet");
    scene.model.open("forked");
    forked.wait(TIMEOUT);
    assert_eq!(scene.verdict(&fork), "stopped/completed");
    assert_eq!(tokens(&scene.status(&fork)), [Some(500), Some(600), Some(700), Some(800)]);
    assert_eq!(tokens(&scene.status(&id)), [Some(21), Some(42), Some(63), Some(84)]);
    let listed = scene.rows(&["--since", "all", "--usage"]);
    let sum: u64 = listed.iter().filter_map(|row| row["tokens"]["in"].as_u64()).sum();
    assert_eq!((listed.len(), sum), (2, 521), "{listed:#?}");
}

#[test]
fn a_sub_agent_is_shown_under_its_parent_and_only_when_asked_for() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let id = new_uuid();
    let task = json!({"description": "look around", "subagent_type": "general-purpose",
        "prompt": "inner [[usage:1,1,1,1]] [[hang:inner]]"});
    let prompt = format!("[[usage:9,9,9,9]] [[tool:Agent|{task}]] [[text:outer]] [[text:all done]]");
    let mut run = scene.run(&cwd, &id, &prompt);
    scene.model.wait_turn("inner [[usage", 0);
    let sub = until_seen(TIMEOUT, "the sub-agent at work", || {
        let rows = scene.rows(&["--all-agents"]);
        let sub = rows.iter().find(|row| row["relation"] == "subagent" && verdict(row) == "running");
        sub.cloned().ok_or_else(|| format!("{rows:#?}"))
    });
    assert_eq!((&sub["parentId"], &sub["pid"]), (&json!(id), &json!(run.pid())), "{sub:#}");
    assert_eq!(sub["name"], "look around");
    let rows = scene.rows(&[]);
    assert_eq!(rows.len(), 1, "a plain list has the parent alone: {rows:#?}");
    assert_eq!(verdict(&rows[0]), "running");
    let tree = scene.home.agentctl(&["list", "--tree"]).ok().stdout;
    let lines: Vec<&str> = tree.lines().collect();
    let parent = lines.iter().position(|line| line.starts_with(&id[..8])).unwrap();
    assert!(lines[parent + 1].contains("└ ") && lines[parent + 1].contains("look around"), "{tree}");

    scene.model.open("inner");
    assert!(run.wait(TIMEOUT).success(), "{}", run.stdout());
    assert_eq!(scene.verdict(&id), "stopped/completed");
    let sub_id = sub["id"].as_str().unwrap();
    assert_eq!(scene.verdict(sub_id), "stopped/completed");
    assert_eq!(tokens(&scene.status(sub_id))[0], Some(1));
    assert_eq!(tokens(&scene.status(&id))[0].map(|input| input % 9), Some(0), "the sub-agent's are its own");
    let stored = scene.rows(&["--since", "all"]);
    assert_eq!(stored.len(), 1, "{stored:#?}");
}
