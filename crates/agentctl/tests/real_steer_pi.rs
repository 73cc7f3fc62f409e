//! A real Pi, started, stopped and resumed through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]

mod steer;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentctl_testkit::agents::pi;
use agentctl_testkit::{Act, Background, FakeModel, Pi, Reply, Signal, until_seen};
use serde_json::Value;
use steer::{Scene, until_its_end};

fn scene() -> Option<Scene> {
    let scene = Scene::set("pi", |home, url| Pi::settle(home, url).map(drop))?;
    Some(Scene { model_name: Some(pi::MODEL), ..scene })
}

/// The scene, and a Pi at work in the same directory that stores no session.
fn scene_with_bystander() -> Option<(Scene, Background)> {
    let mut pi = None;
    let scene = Scene::set("pi", |home, url| {
        pi = Some(Pi::settle(home, url)?);
        Ok(())
    })?;
    let bystander = pi?.headless(&scene.home, &scene.cwd, "[[hang]] nobody's", &["--no-session"]);
    scene.model.wait_request("the bystander at work", |_| true);
    Some((Scene { model_name: Some(pi::MODEL), ..scene }, bystander))
}

/// The session has stopped with this outcome, and no process owns it.
fn assert_ended(session: &Value, outcome: &str) {
    let seen = (&session["status"], &session["outcome"], &session["pid"]);
    assert_eq!(seen, (&"stopped".into(), &outcome.into(), &Value::Null), "{session:#}");
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, ".pi/agent/sessions");
}

/// Pi records an error, and a moment later that it tries again.
#[test]
fn it_runs_until_its_end_however_often_it_tries() {
    let asked = AtomicUsize::new(0);
    let model = FakeModel::with_rule(move |_| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::shell(until_its_end::WAIT),
        1 => Reply::new(Act::Status(500, "later".to_owned())),
        _ => Reply::text("at last"),
    });
    let scene = Scene::with_model(model, "pi", |home, url| Pi::settle(home, url).map(drop));
    let Some(scene) = scene else { return };
    let scene = Scene { model_name: Some(pi::MODEL), ..scene };
    until_its_end::runs_until_its_end(&scene, "go on", &["completed"]);
}

#[test]
fn a_run_that_tried_again_fails_once() {
    let Some(scene) = scene() else { return };
    let prompt = until_its_end::prompt("[[err:500|not now]]");
    until_its_end::runs_until_its_end(&scene, &prompt, &["failed"]);
}

/// With events on its stdout Pi exits with 0 whatever the model answered.
#[test]
fn a_refused_key_leaves_nothing() {
    let Some(scene) = scene() else { return };
    steer::refused_by_the_model(&scene, "the key is wrong");
}

/// A turn that is over before any survey is a launch all the same, and another process in that folder does
/// not own it.
#[test]
fn a_short_turn_is_not_given_to_a_bystander() {
    let Some((scene, mut bystander)) = scene_with_bystander() else { return };
    for _ in 0..3 {
        let launched = scene.launch("[[text:at once]]", &["--wait"]).ok().json();
        let after = scene.status(launched["id"].as_str().unwrap());
        assert_ended(&after, "completed");
        assert!(after["launch"]["exitCode"] == 0, "{after:#}");
    }
    assert!(bystander.try_wait().is_none(), "somebody ended the bystander");
}

/// Contract row N2: a killed session is not the one that another process in the same directory runs, and
/// stopping it ends no process.
#[test]
fn a_killed_launch_is_not_given_to_a_bystander() {
    let Some((scene, mut bystander)) = scene_with_bystander() else { return };
    for signal in [Signal::KILL, Signal::TERM] {
        let launched = scene.launch("[[hang]] mine", &["--force"]).ok().json();
        let (id, pid) = (launched["id"].as_str().unwrap(), launched["pid"].as_u64().unwrap());
        scene.home.signal(u32::try_from(pid).unwrap(), signal);
        let outcome = if signal == Signal::KILL { "died" } else { "interrupted" };
        let after = until_seen(steer::TIMEOUT, "its end", || {
            let now = scene.status(id);
            // Between its end and the record of its runner the outcome is unknown.
            let is_open = now["status"] == "unknown" || (now["status"] == "running" && now["pid"] == pid);
            if is_open { Err(format!("{now:#}")) } else { Ok(now) }
        });
        assert_ended(&after, outcome);
        let stopped = scene.agentctl(&["stop", id, "--json"]).ok().json();
        assert_eq!(stopped["sessions"][0]["wasStopped"], true, "{stopped:#}");
    }
    assert!(bystander.try_wait().is_none(), "somebody ended the bystander");
}

/// Pi records nothing about its end: what its runner saw shows that it was ended by request, and the hook
/// gets that.
#[test]
fn when_its_time_is_up_it_was_interrupted() {
    let Some(scene) = scene() else { return };
    let heard = scene.home.path().join("heard");
    let hook = format!("echo \"$AGENTCTL_OUTCOME $AGENTCTL_BRANCH\" > '{}'", heard.display());
    // What has not begun when its time is up leaves nothing, and is given more: an agent starts slowly on a busy machine.
    let launch = |time: &str| {
        let launched = scene.launch("[[hang]] too slow", &["--timeout", time, "--on-complete", &hook]);
        let is_late = launched.stderr.contains("its time was up before there was a session");
        assert!(launched.code == Some(0) || is_late, "{launched:#?}");
        launched
    };
    let begun = ["15s", "45s", "90s"].into_iter().map(launch).find(|launched| launched.code == Some(0));
    let launched = begun.expect("a session that begins in time").json();
    scene.wait_for_silence();
    let after = scene.status(launched["id"].as_str().unwrap());
    assert_eq!(
        (&after["status"], &after["outcome"], &after["stoppedAt"]),
        (&"stopped".into(), &"interrupted".into(), &after["launch"]["exitedAt"]),
        "{after:#}"
    );
    assert_eq!(fs::read_to_string(heard).unwrap(), "interrupted main\n");
    for file in steer::folders(&scene.launches()[0]) {
        let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
    }
}

#[test]
fn a_missing_agent_leaves_nothing() {
    steer::not_installed("pi");
}

/// Only the records of their launches tie the two to their sessions: their arguments are gone, and neither
/// has a tool that could distinguish them.
#[test]
fn two_in_one_directory_are_told_apart_while_they_think() {
    let Some(scene) = scene() else { return };
    let launched = |prompt, more: &[&str]| {
        let row = scene.launch(prompt, more).ok().json();
        (row["id"].as_str().unwrap().to_owned(), row["pid"].clone())
    };
    let (one, other) = (launched("[[hang]] one", &[]), launched("[[hang]] other", &["--force"]));
    assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
    let told = scene.agentctl(&["explain", &one.0]).ok().stdout;
    assert!(told.contains("our launch record names this session"), "{told}");
    let stopped = scene.agentctl(&["stop", &one.0, "--json"]).ok().json();
    assert_eq!(stopped["sessions"][0]["ended"][0]["pid"], one.1, "{stopped:#}");
    let left = scene.status(&other.0);
    assert_eq!((&left["status"], &left["pid"]), (&"running".into(), &other.1), "{left:#}");
}

#[test]
fn a_fork_is_a_session_of_its_own() {
    let Some(scene) = scene() else { return };
    steer::forked(&scene);
}

/// The last version under the old name accepts no id. It reports that, and stored sessions can be resumed all
/// the same.
#[test]
fn a_pi_that_takes_no_id_is_resumed_and_not_launched() {
    let Some(scene) = Scene::set("pi", |home, url| {
        let pi = Pi::settle_old(home, url)?;
        let mut run = pi.headless(home, &home.work_dir("project"), "[[text:first]] begun by hand", &[]);
        assert!(run.wait(steer::TIMEOUT).success(), "{}", run.stderr());
        Ok(())
    }) else {
        return;
    };
    let failed = scene.launch("[[text:no]]", &["--model", pi::MODEL]);
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("Unknown option: --session-id"), "{failed:#?}");
    scene.assert_nothing_left();
    let list = scene.agentctl(&["list", "--all", "--json"]).ok().json();
    let id = list["sessions"][0]["id"].as_str().unwrap();
    let resumed = scene.agentctl(&["resume", id, "[[text:second]] go on", "--json"]).ok().json();
    assert_eq!(resumed["id"], id, "{resumed:#}");
    scene.wait_for_silence();
    let done = scene.status(id);
    assert_eq!((&done["outcome"], &done["lastMessage"]), (&"completed".into(), &"second".into()), "{done:#}");
}

#[test]
fn permission_modes_that_mean_nothing_are_refused() {
    let Some(scene) = scene() else { return };
    let refused = scene.agentctl(&["launch", "pi", "-p", "x", "--permission-mode", "plan"]);
    assert_eq!(refused.code, Some(7), "{refused:#?}");
    assert!(refused.stderr.contains("Pi has no permission mode `plan`"), "{refused:#?}");
    scene.assert_nothing_left();
}
