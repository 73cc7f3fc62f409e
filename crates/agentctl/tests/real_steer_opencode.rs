//! A real OpenCode, started, stopped and resumed through the command line.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod steer;

use agentctl_testkit::agents::opencode::Server;
use agentctl_testkit::{OpenCode, until_seen};
use serde_json::{Value, json};
use steer::{Scene, served, until_its_end};

const STORE: &str = ".local/share/opencode";

/// Its configuration asks before a command: what runs was allowed by the launch.
fn scene() -> Option<Scene> {
    Scene::set("opencode", |home, url| OpenCode::settle(home, url, &asking()).map(drop))
}

fn asking() -> Value {
    json!({"*": "ask", "bash": {"*": "ask"}, "question": "allow"})
}

#[test]
fn launched_stopped_and_resumed() {
    let Some(scene) = scene() else { return };
    steer::launched_stopped_and_resumed(&scene, STORE);
}

#[test]
fn version_1_1_is_launched_stopped_and_resumed() {
    let old = Scene::set("opencode", |home, url| OpenCode::settle_1_1(home, url).map(drop));
    let Some(scene) = old else { return };
    steer::launched_stopped_and_resumed(&scene, STORE);
}

/// It writes nothing while its model is silent: its records grow old, and it lives.
#[test]
fn a_window_does_not_hide_a_silent_run() {
    let Some(scene) = scene() else { return };
    let launched = scene.launch("[[hang]] silent", &[]).ok().json();
    let id = launched["id"].as_str().unwrap();
    until_seen(steer::TIMEOUT, "two seconds of silence", || {
        let list = scene.agentctl(&["list", "--json"]).ok().json();
        let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let silent = time(&list["asOf"]).duration_since(time(&list["sessions"][0]["updatedAt"]));
        if silent.as_secs() >= 2 { Ok(()) } else { Err(silent.to_string()) }
    });
    let list = scene.agentctl(&["list", "--all", "--since", "1s", "--json"]).ok().json();
    let row = &list["sessions"][0];
    assert_eq!((&row["id"], &row["status"]), (&id.into(), &"running".into()), "{list:#}");
    let table = scene.agentctl(&["list", "--all", "--since", "1s"]).ok().stdout;
    assert!(!table.contains("no stored session"), "its process is no stray: {table}");
    let _ = scene.agentctl(&["stop", id]).ok();
}

#[test]
fn a_run_that_fails_runs_until_its_end() {
    let Some(scene) = scene() else { return };
    until_its_end::runs_until_its_end(&scene, &until_its_end::prompt("[[err:400|for good]]"), &["failed"]);
}

#[test]
fn a_copy_goes_on_by_itself() {
    let Some(scene) = scene() else { return };
    served::forked(&scene, STORE);
}

#[test]
fn a_refused_key_leaves_nothing() {
    let Some(scene) = scene() else { return };
    steer::refused_by_the_model(&scene, "the key is wrong");
}

#[test]
fn an_unknown_model_is_told_in_the_agents_words() {
    let Some(scene) = scene() else { return };
    let refused = "Model not found: fake/nobody";
    steer::fails_in_its_words(&scene, "[[text:no]]", &["--model", "fake/nobody"], refused);
    let launches = scene.launches();
    let bare = scene.launch("[[text:no]]", &["--model", "fake-model"]);
    assert_eq!(bare.code, Some(7), "{bare:#?}");
    assert!(bare.stderr.contains("provider/model"), "{bare:#?}");
    assert_eq!(scene.launches(), launches, "the refused one left a record");
}

#[test]
fn a_missing_agent_leaves_nothing() {
    steer::not_installed("opencode");
}

/// A server, and the home it is in.
struct Served {
    server: Server,
    scene: Scene,
}

impl Served {
    fn set() -> Option<Self> {
        let mut server = None;
        let scene = Scene::set("opencode", |home, url| {
            let opencode = OpenCode::settle(home, url, &asking())?;
            server = Some(opencode.serve(home, &home.work_dir("elsewhere")));
            Ok(())
        })?;
        Some(Self { server: server?, scene })
    }

    fn ask(&self, path: &str, body: &Value) -> String {
        let target = format!("{path}?directory={}", self.scene.cwd.display());
        self.server.ask("POST", &target, &body.to_string()).expect("the server takes it")
    }

    fn session(&self) -> String {
        let made: Value = serde_json::from_str(&self.ask("/session", &json!({"title": "served"}))).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    fn prompt(&self, id: &str, words: &str) {
        let prompt = json!({"parts": [{"type": "text", "text": words}]});
        self.ask(&format!("/session/{id}/prompt_async"), &prompt);
    }
}

#[test]
fn a_session_of_a_server_is_answered_spoken_to_and_broken_off() {
    let Some(served) = Served::set() else { return };
    let scene = &served.scene;
    let id = served.session();
    served.prompt(&id, "[[bash:touch allowed]] [[hang:gate]] [[text:after]]");
    served::approved(scene, &id, &scene.cwd.join("allowed"));

    // A message to a working turn is taken up after it.
    scene.model.wait_turn("[[hang:gate]]", 1);
    let _ = scene.agentctl(&["send", &id, "[[text:heard you]] listen"]).ok();
    scene.model.open("gate");
    served::becomes(scene, &id, "its answer", |seen| {
        seen["status"] == "stopped" && seen["lastMessage"] == "heard you"
    });
    let gone = scene.agentctl(&["send", &id, "hello"]);
    assert_eq!(gone.code, Some(7), "nobody runs it: {gone:#?}");

    served.prompt(&id, "[[bash:touch forbidden]] [[text:after]]");
    served::denied(scene, &id, &scene.cwd.join("forbidden"));

    // In sessions of their own: a message that reaches a server at the moment in which a turn ends is lost
    // there.
    let id = served.session();
    let question = json!({"questions": [{"header": "Colour", "question": "Which colour?",
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}]}]});
    served.prompt(&id, &format!("[[tool:question|{question}]] [[text:thanks]]"));
    let waiting = served::becomes(scene, &id, "the question", |seen| seen["status"] == "waiting");
    assert_eq!(waiting["pending"][0]["kind"], "question", "{waiting:#}");
    let _ = scene.agentctl(&["answer", &id, "none of these"]).ok();
    served::becomes(scene, &id, "its thanks", |seen| seen["lastMessage"] == "thanks");

    // Byte for byte, and each request its own, whatever pattern the server derived from the command.
    let id = served.session();
    let command = "echo  'two  spaces'  &&  echo b | cat > 'made by both'; true";
    served.prompt(&id, &format!("[[bash:{command}]] [[text:after]]"));
    let waiting = served::becomes(scene, &id, "the request", |seen| seen["status"] == "waiting");
    let request = format!("bash: {command}");
    assert_eq!(
        (&waiting["pending"][0]["summary"], &waiting["statusDetail"]),
        (&request.as_str().into(), &request.as_str().into()),
        "{waiting:#}"
    );
    // Before and after the approval, at any width.
    let said = scene.agentctl(&["approve", &id]).ok();
    for shown in [&said.stderr, &said.stdout] {
        let whole: String = shown
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(['│', '┆']))
            .map(|line| &line[1..])
            .collect();
        assert_eq!(whole, request, "{said:#?}");
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{said:#?}");
    }
    served::becomes(scene, &id, "the end of the turn", |seen| {
        !matches!(seen["status"].as_str(), Some("waiting" | "running"))
    });
    assert!(scene.cwd.join("made by both").exists());

    let other = served.session();
    served.prompt(&other, &format!("[[bash:{}]] [[hang]]", steer::ENDLESS));
    served::becomes(scene, &other, "the request", |seen| seen["status"] == "waiting");
    let _ = scene.agentctl(&["approve", &other]).ok();
    served::broken_off(scene, &other, served.server.process.pid());
}

#[test]
fn a_terminal_is_ended_and_one_that_listens_is_asked() {
    let mut agent = None;
    let settled = Scene::set("opencode", |home, url| {
        agent = Some(OpenCode::settle(home, url, &json!("allow"))?);
        Ok(())
    });
    let (Some(scene), Some(opencode)) = (settled, agent) else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    for (flags, lives_on) in [(&["--port", &port][..], true), (&[], false)] {
        let mut terminal = opencode.terminal(&scene.home, &scene.cwd, flags);
        terminal.wait_for("Ask anything");
        let words = format!("[[hang]] typed {lives_on}");
        terminal.send(&words);
        terminal.wait_for(&words);
        terminal.send("\r");
        scene.model.wait_turn(&words, 0);
        let row = until_seen(steer::TIMEOUT, "the turn", || {
            let list = scene.agentctl(&["list", "--json"]).ok().json();
            let row = list["sessions"][0].clone();
            if row["status"] == "running" { Ok(row) } else { Err(format!("{list:#}")) }
        });
        assert_eq!(row["pid"], terminal.pid(), "{row:#}");
        let id = row["id"].as_str().unwrap();
        let stopped = scene.agentctl(&["stop", id, "--json"]).ok().json();
        assert_eq!(stopped["sessions"][0]["survived"], json!([]), "{stopped:#}");
        // A terminal records its turn before it exits.
        let status = if lives_on { "idle" } else { "stopped" };
        served::becomes(&scene, id, "its end", |seen| {
            seen["status"] == status && seen["outcome"] == "interrupted"
        });
        drop(terminal);
        scene.wait_for_silence();
    }
}
