//! What every held agent must do.

use agentctl_testkit::{FakeModel, Reply, until_seen};
use serde_json::json;

use crate::steer::{ENDLESS, Scene};
use crate::{Held, PATIENCE, wait_for};

/// How the agents differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// It has a queue of its own; elsewhere the sender waits.
    pub(crate) queues: bool,
    /// A denial has a place for its reason.
    pub(crate) reason: &'static str,
    /// After a denial the turn goes on.
    pub(crate) goes_on: bool,
    pub(crate) always: Always,
    pub(crate) has_questions: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Always {
    Session,
    /// Everything it offers reaches further than the session.
    Wider,
}

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

/// The first turn, and a second one.
pub(crate) fn speaks(scene: &Scene) -> Held<'_> {
    let held = Held::launch(scene, "[[text:one]] first", &[]);
    let idle = held.idle("one");
    let said = idle["evidence"].to_string();
    assert!(said.contains("the runner that holds it says"), "{idle:#}");
    assert_eq!(held.send("[[text:two]] second"), "now");
    held.idle("two");
    held
}

/// A message in the middle of a turn.
pub(crate) fn hears_in_mid_turn(held: &Held<'_>, manner: Manner) {
    assert_eq!(held.send("[[hang:third]] third"), "now");
    held.scene.model.wait_turn("[[hang:third]] third", 0);
    assert_eq!(held.scene.status(&held.id)["status"], "running");
    if manner.queues {
        assert_eq!(held.send("[[text:four]] fourth"), "queued");
        held.scene.model.open("third");
    } else {
        let late = held.run("send", &["withdrawn words", "--timeout", "300ms"]);
        assert_eq!(late.code, Some(124), "{late:#?}");
        assert!(late.stderr.contains("not delivered"), "{late:#?}");
        let mut sender = held.begin("send", &["[[text:four]] fourth"]);
        assert!(sender.try_wait().is_none(), "{} {}", sender.stdout(), sender.stderr());
        held.scene.model.open("third");
        assert!(sender.wait(PATIENCE).success(), "{}", sender.stderr());
        assert!(sender.stdout().contains(r#""now""#), "{}", sender.stdout());
    }
    held.scene.model.wait_turn("[[text:four]] fourth", 0);
    held.idle("four");
    assert!(!held.model_heard("withdrawn words"));
}

/// Permissions: one given, one denied with a reason, and answers that come too late.
pub(crate) fn asks(held: &Held<'_>, manner: Manner) {
    let pending = held.asks_to_run("touch allowed", "[[text:five]]");
    let request = pending["id"].as_str().unwrap();
    let kinds: Vec<_> = pending["options"].as_array().unwrap().iter().map(|option| &option["kind"]).collect();
    assert!(kinds.contains(&&json!("allow-once")), "{pending:#}");
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
    assert_eq!((&taken["decision"], &taken["message"]), (&"deny".into(), &manner.reason.into()), "{taken:#}");
    until_seen(PATIENCE, "the reason at the model", || {
        if held.model_heard("not on a Tuesday") {
            Ok(())
        } else {
            Err(held.scene.status(&held.id).to_string())
        }
    });
    if manner.goes_on {
        held.idle("six");
    } else {
        held.becomes("the end of the turn", |seen| seen["status"] == "idle");
    }
    assert!(!held.exists("denied"));
}

/// Allowed always: for the session, or not at all.
pub(crate) fn asks_once(held: &Held<'_>, manner: Manner, settings: &str) {
    let settings = held.scene.home.path().join(settings);
    let before = std::fs::read(&settings).ok();
    let command = "touch allowed";
    std::fs::remove_file(held.scene.cwd.join("allowed")).unwrap();
    let pending = held.asks_to_run(command, "[[text:seven]]");
    if manner.always == Always::Wider {
        let refused = held.refused("approve", &["--always"]);
        assert!(refused.contains("further than this session"), "{refused}");
        assert_eq!(held.asked("approval")["id"], pending["id"], "it still waits");
        let _ = held.done("approve", &[]);
        held.idle("seven");
    } else {
        assert_eq!(held.done("approve", &["--always"])["decision"], "allow-always");
        held.idle("seven");
        std::fs::remove_file(held.scene.cwd.join("allowed")).unwrap();
        assert_eq!(held.send(&format!("[[bash:{command}]] [[text:eight]]")), "now");
        held.idle("eight");
    }
    assert_eq!(std::fs::read(&settings).ok(), before, "the settings were written");
    assert_eq!(held.untracked(), "?? allowed\n");
}

/// Turns that are cut short, in a stream, in a tool and while it waits.
pub(crate) fn is_interrupted(held: &Held<'_>) {
    let cut = |words: &str| {
        let done = held.done("interrupt", &[]);
        assert_eq!(
            (&done["interrupted"], &done["stillQueued"]),
            (&true.into(), &0.into()),
            "{words}: {done:#}"
        );
        let idle = held.becomes("the end of the turn", |seen| seen["status"] == "idle");
        assert_eq!(idle["outcome"], "interrupted", "{words}: {idle:#}");
    };
    assert_eq!(held.send("[[hang:stream]] in a stream"), "now");
    held.scene.model.wait_turn("[[hang:stream]] in a stream", 0);
    cut("in a stream");
    assert_eq!(held.done("interrupt", &[])["interrupted"], false);
    at_work(held);
    cut("in a tool");
    held.wait_for_end_of_tool();
}

/// Leaves the session in the middle of a tool.
pub(crate) fn at_work(held: &Held<'_>) {
    assert_eq!(held.send(&format!("[[bash:touch running; {ENDLESS}]] [[text:never]]")), "now");
    let seen = held.becomes("the tool", |seen| seen["status"] == "waiting" || held.exists("running"));
    if seen["status"] == "waiting" {
        let _ = held.done("approve", &[]);
    }
    wait_for(held, "running");
    held.scene.wait_for_tool();
    std::fs::remove_file(held.scene.cwd.join("running")).unwrap();
}

/// A request that is interrupted is gone.
pub(crate) fn is_interrupted_while_it_waits(held: &Held<'_>) {
    let pending = held.asks_to_run("mkdir late", "[[text:never]]");
    assert_eq!(held.done("interrupt", &[])["interrupted"], true);
    held.refused("approve", &["--request", pending["id"].as_str().unwrap()]);
    held.becomes("the end of the turn", |seen| seen["status"] == "idle");
    assert!(!held.exists("late"));
}

/// The model answers with an error: the session is still there.
pub(crate) fn survives_an_error(held: &Held<'_>, words: &str) {
    held.send(FAILS);
    let failed = held.becomes("the error", |seen| seen["status"] == "idle" && seen["outcome"] == "failed");
    assert!(failed["statusDetail"].as_str().unwrap_or_default().contains(words), "{failed:#}");
    assert_eq!(held.send(SUCCEEDS), "now");
    let idle = held.idle("nine");
    assert_ne!(idle["outcome"], "failed", "{idle:#}");
}

/// Stopped, and taken up again under the same id.
pub(crate) fn is_resumed<'s>(held: &Held<'s>) -> Held<'s> {
    held.stop("completed");
    let resumed = held.done("resume", &["[[text:ten]] again", "--hold"]);
    assert_eq!(resumed["id"], held.id.as_str(), "{resumed:#}");
    held.idle("ten");
    assert_eq!(held.send("[[text:eleven]] and again"), "now");
    held.idle("eleven");
    Held { scene: held.scene, id: held.id.clone() }
}

/// A question of the agent's own tool.
pub(crate) fn answers_a_question(held: &Held<'_>, tool: &str) {
    let question = r#"{"questions": [ {"question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [ {"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"} ] } ] }"#;
    assert_eq!(held.send(&format!("[[tool:{tool}|{question}]] [[text:asked]]")), "now");
    let pending = held.asked("question");
    assert!(pending["summary"].as_str().unwrap().contains("Which colour?"), "{pending:#}");
    held.refused("approve", &[]);
    let taken = held.done("answer", &["rather green"]);
    assert_eq!(taken["decision"], "answer", "{taken:#}");
    held.idle("asked");
    assert!(held.model_heard("rather green"));
}
