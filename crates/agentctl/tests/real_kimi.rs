//! A real Kimi Code against the fake model, seen through the command line. It chooses its ids itself, and
//! only its directory ties a run to its session.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod node_agent;

use std::time::{Duration, Instant};

use agentctl_testkit::{NodeAgent, Pty, Signal, until_seen};
use jiff::Timestamp;
use node_agent::{Scene, TIMEOUT, words};
use serde_json::Value;

/// The row of the only session with this prompt, once it looks like this.
fn row_of(scene: &Scene, prompt: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until_seen(TIMEOUT, what, || {
        let list = scene.list();
        let says = |row: &&Value| row["prompt"].as_str().map(str::trim) == Some(prompt);
        let rows: Vec<&Value> = list["sessions"].as_array().unwrap().iter().filter(says).collect();
        match rows[..] {
            [row] if fits(row) => Ok(row.clone()),
            _ => Err(format!("{list:#}")),
        }
    })
}

#[test]
fn a_finished_and_a_failed_run() {
    let Some(scene) = Scene::set("kimi", NodeAgent::kimi) else { return };
    let (odd, plain) = (scene.home.work_dir("odd dir. ünï/My Project.v2"), scene.home.work_dir("plain"));
    let prompt = "[[bash:echo hi]] [[text:All is well.]]";
    let mut run = scene.agent.nameless(&scene.home, &odd, prompt);
    assert!(run.wait(TIMEOUT).success(), "{} {}", run.stdout(), run.stderr());
    let mut refused = scene.agent.nameless(&scene.home, &plain, "[[err:400|scripted]]");
    assert!(!refused.wait(TIMEOUT).success(), "{}", refused.stdout());

    let row = row_of(&scene, prompt, "the finished one", |_| true);
    assert_eq!(words(&row), ("stopped", Some("completed")), "{row:#}");
    let id = row["id"].as_str().unwrap();
    assert!(run.stdout().contains(id), "{id} is not the agent's own: {}", run.stdout());
    assert_eq!(row["cwd"].as_str(), odd.to_str());
    assert_eq!((&row["model"], &row["pid"]), (&"fake-model".into(), &Value::Null), "{row:#}");
    assert!(row["name"].is_null() && row["startedAt"].is_string(), "{row:#}");
    // Twice the usage of the fake model; tokens written to a cache count as input in this protocol.
    let tokens = &row["tokens"];
    assert_eq!((&tokens["in"], &tokens["out"], &tokens["cacheRead"]), (&210.into(), &20.into(), &40.into()));
    let peek = scene.home.agentctl(&["peek", id, "--json"]).ok().stdout;
    let entries: Vec<Value> = peek.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = entries.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "tool-call", "tool-result", "message"], "{peek}");
    assert_eq!((&entries[2]["text"], &entries[3]["text"]), (&"hi\n".into(), &"All is well.".into()));

    let row = row_of(&scene, "[[err:400|scripted]]", "the failed one", |_| true);
    assert_eq!(words(&row), ("stopped", Some("failed")), "{row:#}");
    assert!(row["statusDetail"].as_str().unwrap().contains("scripted"), "{row:#}");
}

#[test]
fn one_at_work_is_its_directorys_and_two_are_nobodys_until_they_die() {
    let Some(scene) = Scene::set("kimi", NodeAgent::kimi) else { return };
    let cwd = scene.home.git_repo("project");
    let (tool, stream) = ("[[bash:tail -f /dev/null]] [[hang]] in a tool", "[[hang]] in a stream");
    let mut in_tool = scene.agent.nameless(&scene.home, &cwd, tool);
    let detail = "Bash: tail -f /dev/null";
    let first = row_of(&scene, tool, "the first at work", |row| row["statusDetail"] == detail);
    assert_eq!(words(&first), ("running", None), "{first:#}");
    assert_eq!((&first["pid"], &first["branch"]), (&in_tool.pid().into(), &"main".into()), "{first:#}");
    let live = scene.home.agentctl(&["list", "--json", "--adapter", "kimi"]).ok().json();
    assert_eq!(live["sessions"][0]["id"], first["id"], "{live:#}");

    let mut in_stream = scene.agent.nameless(&scene.home, &cwd, stream);
    let second = row_of(&scene, stream, "the second, beside the first", |row| row["status"] == "unknown");
    let first = row_of(&scene, tool, "the first, beside the second", |_| true);
    assert_eq!(first["status"], "unknown", "nothing tells the two apart: {first:#}");

    // One process may have owned either session, so the other is in doubt until both are gone.
    in_tool.signal(Signal::KILL);
    in_stream.signal(Signal::KILL);
    in_tool.wait(TIMEOUT);
    in_stream.wait(TIMEOUT);
    for prompt in [tool, stream] {
        let row = row_of(&scene, prompt, "the end of a killed one", |row| row["status"] == "stopped");
        assert_eq!(words(&row), ("stopped", Some("died")), "{row:#}");
    }

    let id = second["id"].as_str().unwrap();
    let mut again = scene.agent.resumed(&scene.home, &cwd, id, "[[text:Back again.]] go on");
    assert!(again.wait(TIMEOUT).success(), "{} {}", again.stdout(), again.stderr());
    let row = row_of(&scene, stream, "the one that was taken up", |_| true);
    assert_eq!(words(&row), ("stopped", Some("completed")), "{row:#}");
    assert_eq!((&row["id"], &row["lastMessage"]), (&second["id"], &"Back again.".into()), "{row:#}");
}

/// Types a line and enters it. The agent drops input while it still draws its first screen, and gives no sign
/// of when it is ready, so text that did not appear is typed again. Right after the text, Enter may still be
/// taken for a part of it.
fn enter(terminal: &mut Pty, line: &str) {
    let mut typed: Option<Instant> = None;
    until_seen(TIMEOUT, "the line in the terminal", || {
        let screen = terminal.screen_text();
        if screen.contains(line) {
            return Ok(());
        }
        if typed.is_none_or(|at| at.elapsed() > Duration::from_secs(3)) {
            // Whatever remains of the last try is removed.
            terminal.send(format!("\x15{line}"));
            typed = Some(Instant::now());
        }
        Err(screen)
    });
    terminal.press_until_gone("\r", &format!("> {line}"));
}

#[test]
fn a_terminal_waits_for_an_approval_is_idle_and_dies() {
    let Some(scene) = Scene::set("kimi", NodeAgent::kimi) else { return };
    let cwd = scene.home.git_repo("project");
    let mut terminal = scene.agent.interactive(&scene.home, &cwd);
    terminal.wait_for("Trust this folder?");
    terminal.press_until_gone("\r", "Trust this folder?");
    terminal.wait_for("No session yet");
    let empty = scene.home.agentctl(&["list", "--json", "--adapter", "kimi"]).ok().json();
    assert_eq!(empty["sessions"].as_array().map(Vec::len), Some(0), "nothing is stored yet: {empty:#}");

    let prompt = "[[bash:rm -rf nothing]] [[text:Allowed.]]";
    enter(&mut terminal, prompt);
    let waiting = row_of(&scene, prompt, "the approval", |row| row["status"] == "waiting");
    let pending = &waiting["pending"][0];
    assert_eq!((&pending["kind"], &pending["summary"]), (&"approval".into(), &"Bash: rm -rf nothing".into()));
    assert_eq!((&waiting["pid"], &waiting["name"]), (&terminal.pid().into(), &Value::Null), "{waiting:#}");

    // It is recorded before it is drawn.
    terminal.wait_for("Run this command?");
    terminal.press_until_gone("1", "Run this command?");
    let idle = row_of(&scene, prompt, "the end of the turn", |row| row["status"] == "idle");
    assert_eq!(
        (&idle["outcome"], &idle["lastMessage"]),
        (&"completed".into(), &"Allowed.".into()),
        "{idle:#}"
    );

    // The agent records its requests and answers: the timeline has the wait between the two questions to the model.
    let id = idle["id"].as_str().unwrap();
    let asked = |turn: usize| {
        let at = scene.model.look(|seen| seen.iter().filter(|one| one.ask.is_some()).nth(turn).unwrap().at);
        Timestamp::try_from(at).unwrap()
    };
    assert_eq!(statuses(&scene, id), ["running", "waiting", "running", "idle"]);
    let spans = lane(&scene, id);
    assert_eq!(spans[3]["to"], Value::Null, "it still rests: {spans:#}");
    let time = |span: usize, end: &str| spans[span][end].as_str().unwrap().parse::<Timestamp>().unwrap();
    let (first, second) = (asked(0), asked(1));
    assert!(
        time(0, "from") <= first && first <= time(0, "to"),
        "it worked when it asked the model: {first} {spans:#}"
    );
    assert!(
        time(1, "from") >= first && time(1, "to") <= second,
        "it waited in between: {first} {second} {spans:#}"
    );
    assert!(time(2, "from") <= second && second <= time(2, "to"), "and worked again: {second} {spans:#}");

    enter(&mut terminal, "[[hang]] once more");
    let _ = row_of(&scene, prompt, "the second turn", |row| row["status"] == "running");
    drop(terminal);
    let died = row_of(&scene, prompt, "the end of the terminal", |row| row["status"] == "stopped");
    assert_eq!(words(&died), ("stopped", Some("died")), "{died:#}");
    assert_eq!(statuses(&scene, id), ["running", "waiting", "running", "idle", "running"]);
    let end = lane(&scene, id)[4]["to"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let last = died["updatedAt"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(end <= last, "nothing is drawn beyond the last record: {end} {last}");
}

fn lane(scene: &Scene, id: &str) -> Value {
    let timeline = scene.home.agentctl(&["timeline", id, "--since", "all", "--json"]).ok().json();
    timeline["lanes"][0]["spans"].clone()
}

fn statuses(scene: &Scene, id: &str) -> Vec<String> {
    let spans = lane(scene, id);
    spans.as_array().unwrap().iter().map(|span| span["status"].as_str().unwrap().to_owned()).collect()
}
