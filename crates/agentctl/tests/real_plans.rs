//! A resume that is planned for the end of a limit: the real Claude Code goes on once, whenever the daemon dies.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start processes and stop at surprises"
)]

#[path = "steer/mod.rs"]
mod steer;

use agentctl_testkit::{Background, Claude, Output, Signal, skip, until_seen};
use jiff::Timestamp;
use serde_json::Value;
use steer::{Scene, TIMEOUT};

/// Every step of a plan at which the daemon may die.
///
/// The second write of the fuses records that the plan is being carried out, the third that it is done.
const POINTS: [&str; 20] = [
    "plan.begun",
    "plan.ready",
    "plan.launched",
    "plan.acted",
    "plan.told",
    "fuses.begin#2",
    "fuses.written#2",
    "fuses.synced#2",
    "fuses.renamed#2",
    "fuses.done#2",
    "launch.begin",
    "launch.written",
    "launch.synced",
    "launch.renamed",
    "launch.done",
    "fuses.begin#3",
    "fuses.written#3",
    "fuses.synced#3",
    "fuses.renamed#3",
    "fuses.done#3",
];

/// The full scenes are for the long run.
fn is_long() -> bool {
    std::env::var_os("AGENTCTL_LONG").is_some()
}

fn scene() -> Option<Scene> {
    Scene::set("claude-code", |home, url| {
        Claude::settle(home, url)?;
        home.set_env("ANTHROPIC_API_KEY", "");
        home.set_env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-of-a-test");
        Ok(())
    })
}

fn daemon(scene: &Scene, fault: Option<&str>) -> Background {
    let mut command = scene.home.agentctl_command(&["daemon", "run"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    if let Some(point) = fault {
        command.env("AGENTCTL_FAULT", point);
    }
    let daemon = Background::spawn(&scene.home, command);
    until_seen(TIMEOUT, "a daemon that answers", || {
        let status = asked(scene, &["daemon", "status", "--json"]);
        if status.code == Some(0) { Ok(()) } else { Err(format!("{status:#?} {}", daemon.stderr())) }
    });
    daemon
}

/// Runs a command that uses the daemon.
fn asked(scene: &Scene, arguments: &[&str]) -> Output {
    let mut command = scene.home.agentctl_command(arguments);
    command.env_remove("AGENTCTL_NO_DAEMON");
    scene.home.run(command)
}

/// A session that its provider refused, and when the limit ends.
fn limited(scene: &Scene, seconds: i64) -> (String, Timestamp) {
    let refusals = format!("[[limit:{seconds}]] ").repeat(6);
    let launched = scene.launch(&format!("{refusals} work"), &["--wait"]);
    assert_eq!(launched.code, Some(1), "{launched:#?}");
    let session = until_seen(TIMEOUT, "a session that was refused and has ended", || {
        let list = scene.agentctl(&["list", "--all", "--json"]).ok().json();
        let is_limited =
            |session: &&Value| session["status"] == "stopped" && session["pending"][0]["kind"] == "limit";
        list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(is_limited)
            .cloned()
            .ok_or_else(|| format!("{list:#}"))
    });
    let until = session["pending"][0]["limitedUntil"].as_str().unwrap().parse().unwrap();
    (session["id"].as_str().unwrap().to_owned(), until)
}

fn plans(scene: &Scene) -> Vec<Value> {
    let fuses = asked(scene, &["fuses", "--json"]).ok().json();
    let is_plan = |fuse: &&Value| fuse["resume"].is_object();
    fuses["fuses"].as_array().unwrap().iter().filter(is_plan).cloned().collect()
}

/// How often the agent was told this, by its own records.
fn told(scene: &Scene, id: &str, words: &str) -> usize {
    let log = scene.agentctl(&["logs", id, "--json", "-n", "1000"]).ok();
    let entries = log.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.filter(|entry| entry["role"] == "user" && entry["text"].as_str().unwrap().contains(words)).count()
}

#[track_caller]
fn goes_on_once(scene: &Scene, id: &str, words: &str) {
    until_seen(TIMEOUT, "the end of the planned turn", || {
        let now = scene.status(id);
        if now["outcome"] == "completed" { Ok(()) } else { Err(format!("{now:#} {:#?}", plans(scene))) }
    });
    until_seen(TIMEOUT, "that the plan is done", || {
        let left = plans(scene);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    });
    assert_eq!(told(scene, id, words), 1, "it is told once");
}

#[test]
fn a_limited_session_goes_on_when_the_limit_ends_and_not_before() {
    let Some(scene) = scene() else { return };
    let mut daemon_now = daemon(&scene, None);
    let words = "[[text:done]] go on at the reset";
    // A short limit may end on a busy machine before everything was looked at; then the next one is longer.
    let mut limits = [if is_long() { 20 } else { 12 }, 45, 90].into_iter();
    let (id, until) = loop {
        let (id, until) = limited(&scene, limits.next().expect("a limit that is long enough"));
        let planned = asked(&scene, &["resume", &id, "--at", "reset", words, "--json"]).ok().json();
        assert_eq!(
            planned["expiresAt"].as_str().unwrap().parse::<Timestamp>().unwrap(),
            until,
            "{planned:#}"
        );
        assert_eq!(planned["resume"]["message"], words);
        let (shown, heard) = (plans(&scene), told(&scene, &id, "at the reset"));
        if Timestamp::now() < until {
            assert_eq!((shown.len(), &shown[0]["id"], heard), (1, &planned["id"], 0));
            break (id, until);
        }
        goes_on_once(&scene, &id, "at the reset");
    };
    // The plan outlives the daemon.
    daemon_now.signal(Signal::KILL);
    daemon_now.wait(TIMEOUT);
    let _daemon = daemon(&scene, None);
    goes_on_once(&scene, &id, "at the reset");
    let launch = &scene.status(&id)["launch"];
    let at: Timestamp =
        launch["launchedAt"].as_str().or(launch["at"].as_str()).map_or(until, |at| at.parse().unwrap());
    assert!(at >= until, "not before: {launch:#}");
    is_told_once(&scene, &id);
}

/// A further plan of this session is one event.
fn is_told_once(scene: &Scene, id: &str) {
    let mut command =
        scene.home.agentctl_command(&["events", "--type", "fuse.set", "--type", "fuse.expired"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let events = Background::spawn(&scene.home, command);
    // An event that comes proves that those before it came, too.
    let until_heard = |label: &str| {
        until_seen(TIMEOUT, "an event of another fuse", || {
            let beside = scene.cwd.to_str().unwrap();
            let _ = asked(scene, &["fuse", "set", beside, "--ttl", "1h", "--label", label]).ok();
            let seen = events.stdout();
            if seen.contains(label) { Ok(seen) } else { Err(seen) }
        })
    };
    until_heard("the-listener-is-there");
    let planned =
        asked(scene, &["resume", id, "--at", "+1s", "[[text:done]] once more", "--json"]).ok().json();
    goes_on_once(scene, id, "once more");
    let seen = until_heard("everything-is-told");
    let seen = seen.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let expired =
        seen.filter(|event| event["type"] == "fuse.expired" && event["fuse"]["id"] == planned["id"]);
    assert_eq!(expired.count(), 1, "its end is told once");
}

#[test]
fn a_plan_is_cancelled_and_one_for_a_session_that_somebody_took_up_says_so() {
    let Some(scene) = scene() else { return };
    let mut first = daemon(&scene, None);
    let (id, _) = limited(&scene, 600);
    let planned = asked(&scene, &["resume", &id, "--at", "+1h", "[[text:x]] never", "--json"]).ok().json();
    let _ = asked(&scene, &["fuse", "cancel", planned["id"].as_str().unwrap()]).ok();
    assert!(plans(&scene).is_empty());
    let _ = asked(&scene, &["resume", &id, "--at", "+5s", "[[text:x]] too late"]).ok();
    // Nobody minds the plan until somebody else has taken the session up, however long that takes.
    first.signal(Signal::KILL);
    first.wait(TIMEOUT);
    let _ = scene.agentctl(&["resume", &id, "[[text:mine]] somebody", "--wait"]).ok();
    let _daemon = daemon(&scene, None);
    let left = until_seen(TIMEOUT, "what became of the plan", || {
        let left = plans(&scene);
        let problem = left.first().and_then(|plan| plan["resume"]["problem"].as_str()).map(str::to_owned);
        problem.ok_or_else(|| format!("{left:#?}"))
    });
    assert!(left.contains("somebody has taken it up"), "{left}");
    assert_eq!(told(&scene, &id, "too late"), 0);
    let inbox = scene.agentctl(&["inbox", "--json"]).ok().json();
    assert_eq!(inbox["fuses"][0]["resume"]["problem"], left.as_str(), "{inbox:#}");
    for (at, code) in [("soon", 2), ("25:00", 2), ("reset", 7)] {
        let refused = asked(&scene, &["resume", &id, "--at", at, "x"]);
        assert_eq!(refused.code, Some(code), "--at {at}: {refused:#?}");
    }
    // Nobody can resume what is no longer there, however often it is tried.
    let _ = asked(&scene, &["fuse", "cancel", inbox["fuses"][0]["id"].as_str().unwrap()]).ok();
    let _ = asked(&scene, &["resume", &id, "--at", "+5s", "[[text:x]] to nobody"]).ok();
    std::fs::remove_dir_all(scene.home.path().join(".claude/projects")).unwrap();
    until_seen(TIMEOUT, "a plan that says that the records are gone", || {
        let inbox = scene.agentctl(&["inbox", "--json"]).ok().json();
        let problem = inbox["fuses"][0]["resume"]["problem"].as_str().unwrap_or_default();
        if problem.contains("its records are gone") { Ok(()) } else { Err(format!("{inbox:#}")) }
    });
}

#[test]
fn a_daemon_that_dies_in_any_step_resumes_once() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    let Some(scene) = scene() else { return };
    for point in if is_long() { &POINTS[..] } else { &POINTS[1..4] } {
        let mut dying = daemon(&scene, Some(point));
        let (id, _) = limited(&scene, 600);
        let words = format!("after {point}").replace(['.', '#'], " ");
        let message = format!("[[text:done]] {words}");
        // A daemon that dies while it writes the plan has not taken it.
        let _ = asked(&scene, &["resume", &id, "--at", "+1s", &message]).ok();
        dying.wait(TIMEOUT);
        let mut next = daemon(&scene, None);
        goes_on_once(&scene, &id, &words);
        next.signal(Signal::TERM);
        next.wait(TIMEOUT);
        scene.wait_for_silence();
    }
}
