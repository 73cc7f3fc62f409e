//! What every held agent must do.

use std::fs;
use std::path::Path;

use agentctl_testkit::{FakeModel, Reply, until_seen};
use serde_json::json;

use crate::manner::{Always, Asks, AtInterrupt, MidTurn};
use crate::steer::ENDLESS;
use crate::{Held, PATIENCE, Stage, wait_for};

/// Some agents repeat what failed in the next message, so no script can do this.
const FAILS: &str = "please fail for good";
const SUCCEEDS: &str = "please do it after all";

/// A model that knows what these words mean.
pub(crate) fn model() -> FakeModel {
    FakeModel::with_rule(|ask| match &ask.prompt {
        words if words.contains(SUCCEEDS) => Reply::text("nine"),
        words if words.contains(FAILS) => Reply::status(400, "for good"),
        _ => Reply::text("ok"),
    })
}

/// From the launch to the stop of a session that was resumed.
pub(crate) fn all(stage: &Stage) {
    let held = speaks(stage);
    hears_in_mid_turn(&held);
    if let Some(asks) = stage.agent.asks {
        is_asked(&held, asks);
        is_asked_once(&held, asks);
    }
    if let Some(question) = stage.agent.question {
        answers_a_question(&held, &question());
    }
    is_interrupted(&held);
    if stage.agent.asks.is_some() {
        is_interrupted_while_it_waits(&held);
    }
    if let MidTurn::Queued(queue) = stage.agent.mid_turn {
        is_interrupted_with_a_queue(&held, queue);
    }
    survives_an_error(&held);
    let held = is_resumed(&held);
    at_work(&held);
    held.stop("interrupted");
}

/// The first turn, and a second one.
pub(crate) fn speaks(stage: &Stage) -> Held<'_> {
    let held = stage.hold("[[text:one]] first", &[]);
    let idle = held.idle("one");
    assert!(idle["evidence"].to_string().contains(stage.agent.witness), "{idle:#}");
    assert_eq!(held.send("[[text:two]] second"), "now");
    held.idle("two");
    held
}

/// A message in the middle of a turn.
fn hears_in_mid_turn(held: &Held<'_>) {
    assert_eq!(held.send("[[hang:third]] third"), "now");
    held.scene.model.wait_turn("[[hang:third]] third", 0);
    assert_eq!(held.status()["status"], "running");
    held.is_told_alike();
    let fourth = "[[text:four]] fourth";
    match held.stage.agent.mid_turn {
        MidTurn::Now => {
            assert_eq!(held.send(fourth), "now");
            // The turn that it was taken into is still open for the model.
            held.scene.model.wait_turn(fourth, 0);
        }
        MidTurn::Queued(_) => {
            assert_eq!(held.send(fourth), "queued");
            assert!(!held.model_heard(fourth), "it was not queued");
        }
        MidTurn::Waits => {
            let late = held.run("send", &["withdrawn words", "--timeout", "300ms"]);
            assert_eq!(late.code, Some(124), "{late:#?}");
            assert!(late.stderr.contains("not delivered"), "{late:#?}");
            let mut sender = held.begin("send", &[fourth]);
            assert!(!sender.is_over(), "{:#?}", sender.end());
            held.scene.model.open("third");
            let sent = sender.end().ok().json();
            assert_eq!(sent["accepted"], "now", "{sent:#}");
        }
    }
    held.scene.model.open("third");
    held.scene.model.wait_turn(fourth, 0);
    held.idle("four");
    assert!(!held.model_heard("withdrawn words"));
}

/// Permissions: one given, one denied with a reason, and answers that come too late.
fn is_asked(held: &Held<'_>, asks: Asks) {
    let pending = held.asks_to_run("touch allowed", "[[text:five]]");
    let request = pending["id"].as_str().unwrap();
    let kinds: Vec<_> = pending["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert!(kinds.contains(&&json!("allow-once")), "{pending:#}");
    held.is_told_alike();
    let wrong = held.refused("approve", &["--request", "another"]);
    assert!(wrong.contains("does not wait"), "{wrong}");
    held.refused("answer", &["some words"]);
    assert!(!held.exists("allowed"));
    let taken = held.done("approve", &["--request", request]);
    assert_eq!(
        (&taken["request"], &taken["decision"], &taken["message"]),
        (&request.into(), &"allow-once".into(), &json!(null)),
        "{taken:#}"
    );
    held.idle("five");
    assert!(held.exists("allowed"));
    held.refused("approve", &[]);

    let second = held.asks_to_run("touch denied", "[[text:six]]");
    assert_ne!(second["id"], pending["id"], "no id names two requests");
    held.refused("approve", &["--request", request]);
    let taken = held.done("deny", &["--message", "not on a Tuesday"]);
    assert_eq!((&taken["decision"], &taken["message"]), (&"deny".into(), &asks.reason.into()), "{taken:#}");
    until_seen(PATIENCE, "the reason at the model", || {
        if held.model_heard("not on a Tuesday") { Ok(()) } else { Err(held.status().to_string()) }
    });
    if asks.goes_on {
        held.idle("six");
    } else {
        held.becomes("the end of the turn", |seen| seen["status"] == "idle");
    }
    assert!(!held.exists("denied"));
}

/// Allowed always: for the session, or not at all.
fn is_asked_once(held: &Held<'_>, asks: Asks) {
    let settings = || {
        let content = |path: &&str| content(&held.scene.home.path().join(path));
        asks.settings.iter().map(content).collect::<Vec<_>>()
    };
    let before = (settings(), held.files());
    let command = "touch allowed";
    fs::remove_file(held.scene.cwd.join("allowed")).unwrap();
    let pending = held.asks_to_run(command, "[[text:seven]]");
    if asks.always == Always::Session {
        assert_eq!(held.done("approve", &["--always"])["decision"], "allow-always");
        held.idle("seven");
        fs::remove_file(held.scene.cwd.join("allowed")).unwrap();
        assert_eq!(held.send(&format!("{} [[text:eight]]", held.runs(command))), "now");
        held.idle("eight");
        assert!(held.exists("allowed"));
    } else {
        let refused = held.refused("approve", &["--always"]);
        let is_wider = refused.contains("further than this session");
        assert_eq!(is_wider, asks.always == Always::Wider, "{refused}");
        assert_eq!(held.asked("approval")["id"], pending["id"], "it still waits");
        let _ = held.done("approve", &[]);
        held.idle("seven");
    }
    assert_eq!((settings(), held.files()), before, "it was kept in a file");
}

/// What is in a file; of a folder, that it is there.
fn content(path: &Path) -> Option<Vec<u8>> {
    if path.is_dir() { Some(Vec::new()) } else { fs::read(path).ok() }
}

/// A question of the agent's own tool.
fn answers_a_question(held: &Held<'_>, question: &str) {
    assert_eq!(held.send(&format!("{question} [[text:asked]]")), "now");
    let pending = held.asked("question");
    assert!(pending["summary"].as_str().unwrap().contains("Which colour?"), "{pending:#}");
    held.refused("approve", &[]);
    let taken = held.done("answer", &["rather green"]);
    assert_eq!(taken["decision"], "answer", "{taken:#}");
    held.idle("asked");
    assert!(held.model_heard("rather green"));
}

/// Turns that are cut short, in a stream and in a tool.
fn is_interrupted(held: &Held<'_>) {
    let cut = |words: &str| {
        let done = held.done("interrupt", &[]);
        assert_eq!(
            (&done["interrupted"], &done["stillQueued"]),
            (&true.into(), &0.into()),
            "{words}: {done:#}"
        );
        // The agent may record how the turn ended a moment after its runner has heard of it.
        held.becomes("the end of the turn that was cut short", |seen| {
            seen["status"] == "idle" && seen["outcome"] == "interrupted"
        });
    };
    assert_eq!(held.send("[[hang:stream]] in a stream"), "now");
    held.scene.model.wait_turn("[[hang:stream]] in a stream", 0);
    cut("in a stream");
    assert_eq!(held.done("interrupt", &[])["interrupted"], false);
    at_work(held);
    cut("in a tool");
    held.wait_for_end_of_tool();
}

/// What waits in the agent's queue when its turn is cut short is told, and is true.
fn is_interrupted_with_a_queue(held: &Held<'_>, queue: AtInterrupt) {
    assert_eq!(held.send("[[hang:cut]] to be cut"), "now");
    held.scene.model.wait_turn("[[hang:cut]] to be cut", 0);
    assert_eq!(held.send("[[text:behind]] behind it"), "queued");
    let done = held.done("interrupt", &[]);
    assert_eq!(done["interrupted"], true, "{done:#}");
    assert_eq!(done["stillQueued"], u8::from(queue != AtInterrupt::Dropped), "{done:#}");
    if queue != AtInterrupt::GoesOn {
        held.becomes("the end of the turn", |seen| seen["status"] == "idle");
        assert!(!held.model_heard("behind it"));
        assert_eq!(held.send("[[text:ahead]] ahead of it"), "now");
    }
    if queue == AtInterrupt::Dropped {
        held.idle("ahead");
        // The model may read it among the earlier messages, but it has no turn.
        let requests = held.scene.model.requests();
        let mut asks = requests.iter().filter_map(|seen| seen.ask.as_ref());
        assert!(!asks.any(|ask| !ask.is_side_request() && ask.prompt.contains("behind it")));
    } else {
        held.scene.model.wait_turn("[[text:behind]] behind it", 0);
        held.idle("behind");
    }
}

/// Leaves the session in the middle of a tool.
pub(crate) fn at_work(held: &Held<'_>) {
    let runs = held.runs(&format!("touch running; {ENDLESS}"));
    assert_eq!(held.send(&format!("{runs} [[text:never]]")), "now");
    let seen = held.becomes("the tool", |seen| seen["status"] == "waiting" || held.exists("running"));
    if seen["status"] == "waiting" {
        let _ = held.done("approve", &[]);
    }
    wait_for(held, "running");
    held.scene.wait_for_tool();
    fs::remove_file(held.scene.cwd.join("running")).unwrap();
}

/// A request that is interrupted is gone.
fn is_interrupted_while_it_waits(held: &Held<'_>) {
    let pending = held.asks_to_run("mkdir late", "[[text:never]]");
    assert_eq!(held.done("interrupt", &[])["interrupted"], true);
    held.refused("approve", &["--request", pending["id"].as_str().unwrap()]);
    let idle = held.becomes("the end of the turn", |seen| seen["status"] == "idle");
    assert_eq!(idle["pending"], json!([]), "{idle:#}");
    assert!(!held.exists("late"));
}

/// The model answers with an error: the session is still there.
fn survives_an_error(held: &Held<'_>) {
    held.send(FAILS);
    let failed = held.becomes("the error", |seen| seen["status"] == "idle" && seen["outcome"] == "failed");
    let words = failed["statusDetail"].as_str().unwrap_or_default();
    assert!(words.contains(held.stage.agent.failure), "{failed:#}");
    assert_eq!(held.send(SUCCEEDS), "now");
    let idle = held.idle("nine");
    assert_ne!(idle["outcome"], "failed", "{idle:#}");
}

/// Stopped, and taken up again under the same id.
fn is_resumed<'s>(held: &Held<'s>) -> Held<'s> {
    held.stop("completed");
    let resumed = held.done("resume", &["[[text:ten]] again", "--hold"]);
    assert_eq!(resumed["id"], held.id.as_str(), "{resumed:#}");
    held.idle("ten");
    assert_eq!(held.send("[[text:eleven]] and again"), "now");
    held.idle("eleven");
    Held { id: held.id.clone(), ..*held }
}

/// A launch that waits returns with the end of the first turn, and the session is still there.
pub(crate) fn waits_for_the_first_turn(stage: &Stage) {
    let wait = |prompt: &str| {
        let own = (stage.agent.arguments)(&stage.scene);
        stage.begin(&stage.launching(prompt, &["--wait"], &own))
    };
    let runs = (stage.agent.runs)("touch waited");
    let mut launch = wait(&format!("{runs} [[text:waited]]"));
    let id = until_seen(PATIENCE, "the request", || {
        let list = stage.run(&["list", "--json"]).ok().json();
        let row = list["sessions"].as_array().unwrap().iter().find(|row| row["status"] == "waiting").cloned();
        row.and_then(|row| Some(row["id"].as_str()?.to_owned())).ok_or(format!("{list:#}"))
    });
    let held = Held { stage, scene: &stage.scene, id };
    held.asked("approval");
    assert!(!launch.is_over(), "{:#?}", launch.end());
    let _ = held.done("approve", &[]);
    let ended = launch.end().ok().json();
    assert_eq!(
        (&ended["id"], &ended["status"], &ended["lastMessage"]),
        (&held.id.as_str().into(), &"idle".into(), &"waited".into()),
        "{ended:#}"
    );
    assert_eq!(held.send("[[text:go on]] next"), "now");
    held.idle("go on");
    held.stop("completed");

    let failed = wait(FAILS).end();
    assert_eq!(failed.code, Some(1), "{failed:#?}");
    assert!(failed.stderr.contains("failed") && failed.stderr.contains(stage.agent.failure), "{failed:#?}");
    let held = Held { stage, scene: &stage.scene, id: failed.json()["id"].as_str().unwrap().to_owned() };
    let now = held.status();
    assert_eq!((&now["status"], &now["outcome"]), (&"idle".into(), &"failed".into()), "{now:#}");
    assert_eq!(held.send(SUCCEEDS), "now");
    held.idle("nine");
    held.stop("completed");
}

/// Two sessions in two worktrees at once, of which each has its own requests and its own end.
pub(crate) fn two_in_two_worktrees(stage: &Stage) {
    let launch = |branch: &str| {
        let runs = (stage.agent.runs)(&format!("touch {branch}"));
        let repository = stage.scene.cwd.to_str().unwrap();
        stage.hold(&format!("{runs} [[text:{branch}]]"), &["--worktree", repository, "--branch", branch])
    };
    let (one, other) = (launch("left"), launch("right"));
    let (asked, _) = (one.asked("approval"), other.asked("approval"));
    // The id of one session's request is nothing to the other.
    other.refused("approve", &["--request", asked["id"].as_str().unwrap()]);
    let _ = one.done("approve", &[]);
    let row = one.idle("left");
    assert!(Path::new(row["cwd"].as_str().unwrap()).join("left").exists(), "{row:#}");
    other.asked("approval");
    let _ = other.done("deny", &[]);
    let row = other.becomes("the end of the turn", |seen| seen["status"] == "idle");
    assert!(!Path::new(row["cwd"].as_str().unwrap()).join("right").exists(), "{row:#}");
    let stopped = one.done("stop", &[]);
    assert_eq!(stopped["sessions"][0]["stopped"], true, "{stopped:#}");
    assert_eq!(other.send("[[text:still here]] go on"), "now");
    other.idle("still here");
    other.stop("completed");
}
