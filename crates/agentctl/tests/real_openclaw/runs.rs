//! From launch to end, with our own commands.

use agentctl_testkit::agents::openclaw::CAREFUL;
use agentctl_testkit::until_seen;
use serde_json::{Value, json};

use crate::scene::{Scene, TIMEOUT, words};

#[test]
fn runs_are_launched_seen_stopped_and_taken_up_again() {
    let Some(scene) = Scene::set() else { return };
    assert_eq!(scene.list()["sources"][0]["root"], scene.openclaw.url(), "found by OpenClaw's own config");
    assert!(scene.rows().is_empty());

    // Launched: the gateway's own id, and a survey that shows the turn.
    let launched = scene.launch("[[slow:1200|500]] tell me", &["--label", "who=me"]);
    assert_eq!(words(&launched), ("running", None), "{launched:#}");
    let slow = launched["id"].as_str().expect("its key").to_owned();
    let running = scene.wait_for(&slow, "a run", |row| words(row) == ("running", None));
    assert_eq!(running["model"], "fake/fake-1", "{running:#}");
    assert_eq!((&running["pid"], &running["evidence"][0]["source"]), (&Value::Null, &json!("gateway")));
    assert_eq!(running["launch"]["labels"]["who"], "me", "{running:#}");
    assert!(running["meta"]["runtime"].is_string(), "by which another agent behind it is known: {running:#}");
    assert!(
        running["capabilities"].as_array().is_some_and(|can| can.contains(&json!("stop"))),
        "{running:#}"
    );
    let peeked = until_seen(TIMEOUT, "words of the running turn", || {
        let said = scene.home.agentctl(&["peek", &slow, "--json"]).ok().stdout;
        if said.contains("part 2") { Ok(said) } else { Err(said) }
    });
    assert!(peeked.contains("tell me"), "{peeked}");

    // One that ends well in a folder of our choice, and one that fails, while the first one continues.
    let folder = scene.home.work_dir("elsewhere");
    let folder = folder.to_str().expect("a path in text");
    let prompt = "[[usage:7,3,0,0]] [[bash:echo hi]] [[text:All is well.]] go";
    let done = scene.launch(prompt, &["--cwd", folder, "--wait"]);
    assert_eq!((words(&done), done["cwd"].as_str()), (("idle", Some("completed")), Some(folder)), "{done:#}");
    let done = done["id"].as_str().expect("its key");
    let status = scene.home.agentctl(&["status", done, "--json"]).ok().json();
    assert_eq!(status["lastMessage"], "All is well.", "{status:#}");
    assert!(
        status["prompt"].as_str().is_some_and(|prompt| prompt.contains("[[bash:echo hi]]")),
        "{status:#}"
    );
    assert_eq!((&status["tokens"]["in"], &status["tokens"]["out"]), (&json!(14), &json!(6)), "{status:#}");
    let peeked = scene.home.agentctl(&["peek", done, "--json"]).ok().stdout;
    assert!(peeked.contains("echo hi") && peeked.contains("All is well."), "{peeked}");
    let failed = scene.home.agentctl(&["launch", "openclaw", "-p", "[[err:400|no such thing]] go", "--wait"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let refused = scene.home.agentctl(&["launch", "openclaw", "-p", "go", "--model", "nope/nope"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("sessions.create"), "{refused:?}");

    // A plain list shows the sessions at work, and not the idle ones of a gateway.
    let live = scene.home.agentctl(&["list", "-q"]).ok().stdout;
    assert_eq!(live.lines().collect::<Vec<_>>(), [slow.as_str()]);

    // Stopped: the session stays, and accepts the next message.
    let stopped = scene.home.agentctl(&["stop", &slow, "--json"]).ok().json();
    let stopped = &stopped["sessions"][0];
    assert_eq!(
        (&stopped["wasStopped"], &stopped["session"]["outcome"]),
        (&json!(false), &json!("interrupted"))
    );
    let again = scene.home.agentctl(&["stop", &slow]).ok().stdout;
    assert!(again.contains("was idle already"), "{again}");
    let resumed = scene.home.agentctl(&["resume", &slow, "[[text:Back again.]] go on", "--wait", "--json"]);
    let resumed = resumed.ok().json();
    assert_eq!(words(&resumed), ("idle", Some("completed")), "{resumed:#}");
    assert_eq!(resumed["meta"]["sessionId"], launched["meta"]["sessionId"], "the same conversation");
    let _ = scene.home.agentctl(&["send", &slow, "[[text:And again.]] go on"]).ok();
    let _ = scene.home.agentctl(&["wait", &slow]).ok();
    let last = || scene.home.agentctl(&["status", &slow, "--json"]).ok().json()["lastMessage"].clone();
    until_seen(TIMEOUT, "the last words", || if last() == "And again." { Ok(()) } else { Err(last()) });
    waits_for_an_approval(&scene);
    assert!(scene.model.requests().len() > 4);
}

/// A guarded command waits for a person; if it is allowed it continues, if it is denied it does not.
fn waits_for_an_approval(scene: &Scene) {
    // Approvals are raised only while a client is connected that can show them.
    let _person = scene.openclaw.rpc(&["exec-approvals", "approvals"]).stay();
    for (answer, made) in [("approve", true), ("deny", false)] {
        let file = format!("made-after-{answer}");
        let message = format!("[[bash:touch {file} && echo made]] [[text:Over.]] go");
        let created =
            scene.openclaw.rpc(&[]).call("sessions.create", &json!({"message": message, "agentId": CAREFUL}));
        let key = created.expect("a guarded run")["key"].as_str().expect("its key").to_owned();
        let item = until_seen(TIMEOUT, "the question", || {
            let inbox = scene.home.agentctl(&["inbox", "--json"]).ok().json();
            let items = inbox["items"].as_array().expect("items").clone();
            items
                .into_iter()
                .find(|item| item["session"]["id"] == key.as_str() && item["kind"] == "approval")
                .ok_or(inbox)
        });
        assert!(item["summary"].as_str().is_some_and(|words| words.contains(&file)), "{item:#}");
        assert_eq!(item["next"][0], format!("agentctl approve {key}"));
        // The list shows the same at the same moment.
        assert_eq!(scene.wait_for(&key, "the row", |row| !row.is_null())["status"], "waiting");
        let _ = scene.home.agentctl(&[answer, &key]).ok();
        let row = scene.wait_for(&key, "its end", |row| row["status"] == "idle");
        assert_eq!(words(&row), ("idle", Some("completed")), "{row:#}");
        let place = row["cwd"].as_str().map(|cwd| std::path::Path::new(cwd).join(&file));
        assert_eq!(place.is_some_and(|place| place.exists()), made, "{answer}: {row:#}");
    }
}
