//! Headless runs: seen at work, and with each of their ends.

use std::time::Instant;

use agentctl_testkit::{Background, Signal, new_uuid, until_seen};
use serde_json::Value;

use crate::scene::{Scene, TIMEOUT, is_alive, tokens, verdict, wait_number};

/// What `peek --json` or `logs --json` printed: role, kind and text of each entry.
fn entries(lines: &str) -> Vec<(String, String, String)> {
    let read = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        (word("role"), word("kind"), word("text"))
    };
    lines.lines().map(read).collect()
}

#[test]
fn a_run_is_seen_at_work_followed_and_seen_completed() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let id = new_uuid();
    let launched = Instant::now();
    let prompt = "[[usage:7,3,2,1]] [[bash:echo tool-says-hi]] [[usage:1000,200,30,4]] [[hang:end]]";
    let mut run = scene.run(&cwd, &id, prompt);
    scene.wait_registry(run.pid());
    let registered = Instant::now();
    // The very first listing after the entry is right: no second one is needed.
    let rows = scene.rows(&[]);
    let seen = registered.elapsed();
    println!("launch to registry entry {:?}, entry to listing {seen:?}", registered - launched);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(
        (rows[0]["id"].as_str(), verdict(&rows[0]).as_str()),
        (Some(id.as_str()), "running"),
        "{rows:#?}"
    );

    scene.model.wait_turn("[[hang:end]]", 1);
    let status = scene.status(&id);
    assert_eq!(verdict(&status), "running");
    assert_eq!(status["pid"], run.pid());
    assert_eq!(status["cwd"], cwd.to_str().unwrap());
    assert_eq!(status["branch"], "main");
    assert_eq!(status["prompt"].as_str().map(str::trim), Some(prompt));
    let explained = scene.home.agentctl(&["explain", &id]).ok().stdout;
    for word in ["running", "registry", "kernel", &format!("{}.json", run.pid())] {
        assert!(explained.contains(word), "{word} is not in {explained}");
    }
    // The agent asks the model again before the tool's answer is on disk.
    let peeked = until_seen(TIMEOUT, "the tool's answer in a peek", || {
        let peeked = entries(&scene.home.agentctl(&["peek", &id, "--json"]).ok().stdout);
        let kinds: Vec<(&str, &str)> = peeked.iter().map(|(role, kind, _)| (&**role, &**kind)).collect();
        let whole = kinds == [("user", "message"), ("tool", "tool-call"), ("tool", "tool-result")];
        if whole { Ok(peeked) } else { Err(format!("{peeked:#?}")) }
    });
    assert!(peeked[1].2.contains("tool-says-hi") && peeked[2].2.contains("tool-says-hi"), "{peeked:#?}");

    let command = scene.home.agentctl_command(&["logs", "-f", &id, "--json"]);
    let mut logs = Background::spawn(&scene.home, command);
    until_seen(TIMEOUT, "the backlog of the log", || {
        let seen = logs.stdout();
        if entries(&seen).len() == 3 { Ok(()) } else { Err(seen) }
    });
    assert!(logs.try_wait().is_none(), "the log ended before its session: {}", logs.stderr());
    scene.model.open("end");
    assert!(run.wait(TIMEOUT).success(), "{}", run.stdout());

    // The run was waited for: from now on every answer must be final.
    assert_eq!(scene.verdict(&id), "stopped/completed");
    let status = scene.status(&id);
    assert_eq!(status["lastMessage"], "released");
    assert!(status["pid"].is_null() && status["processes"].as_array().unwrap().is_empty(), "{status:#}");
    assert_eq!(tokens(&status), [Some(1007), Some(203), Some(32), Some(5)]);
    assert!(scene.rows(&[]).is_empty(), "a plain list shows what lives");
    assert_eq!(logs.wait(TIMEOUT).code(), Some(0), "{}", logs.stderr());
    let last = entries(&logs.stdout()).pop().unwrap();
    assert_eq!(last, ("agent".into(), "message".into(), "released".into()));

    let doctor = scene.ask(&["doctor", "--json"]);
    assert_eq!(doctor["healthy"], true, "{doctor:#}");
    assert!(doctor["strays"].as_array().unwrap().is_empty(), "{doctor:#}");
    let claude =
        doctor["adapters"].as_array().unwrap().iter().find(|one| one["name"] == "claude-code").unwrap();
    assert!(claude["drift"].as_object().unwrap().is_empty(), "records of unknown types: {claude:#}");
}

#[test]
fn errors_of_the_model_are_failures_with_their_words() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.work_dir("plain");
    let cases = [(500, "the kettle is empty"), (401, "who are you")];
    let mut runs = cases.map(|(code, words)| {
        let id = new_uuid();
        let run = scene.run(&cwd, &id, &format!("[[err:{code}|{words}]]"));
        (id, run, code, words)
    });
    for (id, run, code, words) in &mut runs {
        assert_eq!(run.wait(TIMEOUT).code(), Some(1), "{}", run.stdout());
        assert_eq!(scene.verdict(id), "stopped/failed");
        let status = scene.status(id);
        let detail = status["statusDetail"].as_str().unwrap_or_default();
        assert!(detail.contains(&code.to_string()) && detail.contains(*words), "{status:#}");
        assert!(status["tokens"].is_null(), "no reply, no usage: {status:#}");
        assert!(status["model"].is_null(), "the placeholder is no model: {status:#}");
    }
}

#[test]
fn an_interrupt_is_an_interruption_whatever_it_hits() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.work_dir("plain");
    let (in_reply, in_tool) = (new_uuid(), new_uuid());
    let mut replying = scene.run(&cwd, &in_reply, "first [[hang]]");
    let mut calling =
        scene.run(&cwd, &in_tool, "[[bash:echo $$ > tool; while true; do sleep 0.1; done]] [[text:x]]");
    scene.model.wait_turn("first [[hang]]", 0);
    wait_number(&cwd.join("tool"));
    assert_eq!(scene.verdict(&in_reply), "running");
    assert_eq!(scene.verdict(&in_tool), "running");
    for (id, run) in [(&in_reply, &mut replying), (&in_tool, &mut calling)] {
        run.signal(Signal::INT);
        run.wait(TIMEOUT);
        assert_eq!(scene.verdict(id), "stopped/interrupted");
    }
}

#[test]
fn killed_in_a_tool_is_died_although_its_note_and_its_tool_live_on() {
    let Some(scene) = Scene::open() else { return };
    let cwd = scene.home.git_repo("project");
    let id = new_uuid();
    let mut run = scene.run(&cwd, &id, "[[bash:echo $$ > tool; while true; do sleep 0.1; done]] [[text:x]]");
    let tool = wait_number(&cwd.join("tool"));
    assert_eq!(scene.verdict(&id), "running");
    let pid = run.pid();
    run.signal(Signal::KILL);
    run.wait(TIMEOUT);
    assert!(scene.registry_file(pid).is_file(), "the agent cannot have taken its note away");
    assert!(is_alive(tool), "the tool was meant to outlive its agent");
    assert_eq!(scene.verdict(&id), "stopped/died");
    let status = scene.status(&id);
    assert!(status["pid"].is_null(), "{status:#}");
    assert!(scene.rows(&[]).is_empty(), "nothing lives");
    let doctor = scene.ask(&["doctor", "--json"]);
    assert!(doctor["strays"].as_array().unwrap().is_empty(), "a tool is no agent: {doctor:#}");
}
