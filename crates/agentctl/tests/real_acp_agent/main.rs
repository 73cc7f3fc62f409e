//! `agentctl acp` with the official SDK as the editor: every session is listed, opened with its history, prompted,
//! approved, cancelled and opened again; whoever started it.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run processes and stop at surprises"
)]

mod editor;

use std::path::PathBuf;
use std::time::Duration;

use agentctl_testkit::agents::pi;
use agentctl_testkit::clients::Clients;
use agentctl_testkit::{Claude, FakeModel, NodeAgent, Pi, Skip, TestHome, new_uuid, skip, until_seen};
use editor::Editor;
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

struct Scene {
    home: TestHome,
    _model: FakeModel,
    claude: Claude,
    clients: Clients,
    cwd: PathBuf,
}

impl Scene {
    fn set() -> Option<Self> {
        let model = FakeModel::start();
        let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
        home.set_env("AGENTCTL_NO_DAEMON", "1");
        let mut settled = || -> Result<(Claude, Clients), Skip> {
            let claude = Claude::settle(&mut home, &model.url())?;
            Pi::settle(&mut home, &model.url())?;
            Ok((claude, Clients::call()?))
        };
        let (claude, clients) = match settled() {
            Ok(both) => both,
            Err(reason) => {
                skip(reason);
                return None;
            }
        };
        let cwd = home.git_repo("project");
        Some(Self { home, _model: model, claude, clients, cwd })
    }

    fn editor(&self, arguments: &[&str]) -> Editor {
        Editor::open(&self.home, &self.clients, arguments)
    }

    fn status(&self, id: &str) -> Value {
        self.home.agentctl(&["status", id, "--json"]).ok().json()
    }

    fn becomes(&self, id: &str, status: &str) -> Value {
        until_seen(PATIENCE, &format!("{id} {status}"), || {
            let now = self.status(id);
            if now["status"] == status { Ok(now) } else { Err(format!("{now:#}")) }
        })
    }
}

/// A session that a person started in a terminal: shown with its history and live while it runs there, refused with words,
/// and taken up once nobody runs it.
#[test]
fn a_session_of_a_terminal_is_opened_followed_and_taken_up() {
    let Some(scene) = Scene::set() else { return };
    let id = new_uuid();
    let mut terminal =
        scene.claude.interactive(&scene.home, &scene.cwd, &id, &["[[text:typed in a terminal]] first"]);
    until_seen(PATIENCE, "the first turn", || {
        let list = scene.home.agentctl(&["list", "--json"]).ok().json();
        match list["sessions"].as_array().unwrap().first() {
            Some(row) if row["status"] == "idle" && row["lastMessage"] == "typed in a terminal" => Ok(()),
            _ => Err(format!("{list:#}")),
        }
    });
    let mut editor = scene.editor(&[]);
    let greeting = editor.greet();
    assert_eq!(
        (&greeting["protocolVersion"], &greeting["agentCapabilities"]["loadSession"]),
        (&1.into(), &true.into())
    );
    let listed = editor.ask("session/list", &json!({}));
    let row = &listed["sessions"][0];
    assert_eq!(
        (&row["sessionId"], &row["_meta"]["agentctl"]["status"]),
        (&id.as_str().into(), &"idle".into()),
        "{listed:#}"
    );

    let opened = editor.ask("session/load", &json!({"sessionId": id, "cwd": scene.cwd, "mcpServers": []}));
    assert_eq!(opened["_meta"]["agentctl"]["readOnly"], true, "{opened:#}");
    let history = editor.updates();
    let said: Vec<(&str, &str)> = history.iter().map(editor::words).collect();
    assert_eq!(said[0], ("user_message_chunk", "[[text:typed in a terminal]] first"), "{history:#?}");
    assert_eq!(said[1], ("agent_message_chunk", "typed in a terminal"), "{history:#?}");
    assert!(said[2].1.contains("read-only"), "{history:#?}");
    let refused = editor.prompt(&id, "from the editor");
    assert_eq!(refused["result"]["stopReason"], "refusal", "{refused:#}");
    assert!(editor.updates().iter().any(|update| editor::words(update).1.contains("offers no way in")));

    // What is typed there is seen here.
    terminal.send("[[text:seen live]] second\r");
    editor.wait_for_words("agent_message_chunk", "seen live");
    drop(terminal);
    scene.becomes(&id, "stopped");
    let _ = editor.updates();
    let answered = editor.prompt(&id, "[[text:from the editor]] third");
    assert_eq!(answered["result"]["stopReason"], "end_turn", "{answered:#}");
    let told = editor.updates();
    assert_eq!(
        told.iter()
            .filter(|update| editor::words(update) == ("agent_message_chunk", "from the editor"))
            .count(),
        1,
        "{told:#?}"
    );
    assert!(
        !told.iter().any(|update| editor::words(update).0 == "user_message_chunk"),
        "it is not told its own words: {told:#?}"
    );
    let now = scene.status(&id);
    assert_eq!(
        (&now["status"], &now["lastMessage"]),
        (&"idle".into(), &"from the editor".into()),
        "it is held now: {now:#}"
    );

    // Another editor finds all of it, and this session takes its words.
    let mut second = scene.editor(&[]);
    second.greet();
    let opened = second.ask("session/load", &json!({"sessionId": id, "cwd": scene.cwd, "mcpServers": []}));
    assert_eq!(opened["_meta"]["agentctl"]["readOnly"], false, "{opened:#}");
    let history = second.updates();
    let agent: Vec<&str> = history
        .iter()
        .map(editor::words)
        .filter(|(kind, _)| *kind == "agent_message_chunk")
        .map(|(_, words)| words)
        .collect();
    assert_eq!(agent, ["typed in a terminal", "seen live", "from the editor"], "{history:#?}");
    let _ = scene.home.agentctl(&["stop", &id]).ok();
}

#[test]
fn a_new_session_is_prompted_approved_cancelled_and_opened_again() {
    let Some(scene) = Scene::set() else { return };
    let mut editor = scene.editor(&["--adapter", "claude-code"]);
    editor.greet();
    let made = editor.ask("session/new", &json!({"cwd": scene.cwd, "mcpServers": []}));
    let id = made["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(made["modes"]["currentModeId"], "claude-code", "{made:#}");
    assert_eq!(
        scene.home.agentctl(&["list", "-a", "--json"]).ok().json()["sessions"],
        json!([]),
        "nothing is invented"
    );

    let done = editor.prompt(&id, "[[text:begun]] hello");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    assert!(editor.updates().iter().any(|update| editor::words(update) == ("agent_message_chunk", "begun")));
    let session = scene.status(&id);
    assert_eq!(
        (&session["id"], &session["launch"]["labels"]["via"]),
        (&id.as_str().into(), &"acp".into()),
        "{session:#}"
    );

    // Yes, then no: the agent's own options are what the editor chooses from.
    let done = editor.prompt(&id, "[[bash:touch allowed]] [[text:did it]]");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    let asked = editor.permissions();
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert!(asked[0]["toolCall"]["content"].to_string().contains("touch allowed"), "shown whole: {asked:#?}");
    let kinds: Vec<&str> = asked[0]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"allow_once") && kinds.contains(&"reject_once"), "{asked:#?}");
    assert!(scene.cwd.join("allowed").exists());
    assert!(editor.updates().iter().any(|update| update["sessionUpdate"] == "tool_call"));
    editor.choose("reject_once");
    let done = editor.prompt(&id, "[[bash:touch denied]] [[text:was told no]]");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    assert!(!scene.cwd.join("denied").exists());

    // A request that somebody else answers is taken back, and the turn goes on.
    editor.choose_nothing();
    let tag = editor.begin_prompt(&id, "[[bash:touch elsewhere]] [[text:by another road]]");
    until_seen(PATIENCE, "the request", || {
        let inbox = scene.home.agentctl(&["approve", &id]);
        if inbox.code == Some(0) { Ok(()) } else { Err(format!("{inbox:#?}")) }
    });
    let done = editor.answer(tag);
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    assert!(scene.cwd.join("elsewhere").exists());

    editor.choose("allow_once");
    let tag = editor.begin_prompt(&id, "[[bash:touch working; tail -f /dev/null]] [[hang]]");
    until_seen(PATIENCE, "the tool at work", || {
        if scene.cwd.join("working").exists() { Ok(()) } else { Err("not yet") }
    });
    let busy = editor.prompt(&id, "in between");
    assert!(busy["error"]["message"].as_str().unwrap().contains("another turn"), "{busy:#}");
    editor.notify("session/cancel", &json!({"sessionId": id}));
    let done = editor.answer(tag);
    assert_eq!(done["result"]["stopReason"], "cancelled", "{done:#}");
    // The agent may record that a moment after it was told.
    until_seen(PATIENCE, "the turn that was cut short", || match scene.status(&id) {
        now if now["status"] == "idle" && now["outcome"] == "interrupted" => Ok(()),
        now => Err(format!("{now:#}")),
    });
    let done = editor.prompt(&id, "[[err:400|no credit]]");
    assert!(done["error"]["message"].as_str().unwrap().contains("no credit"), "{done:#}");

    // The session stays when the editor leaves, and another one opens it.
    let held = scene.status(&id);
    let ended = editor.close();
    assert_eq!(ended["exited"], 0, "{ended}");
    let after = scene.status(&id);
    assert_eq!(
        (&after["status"], &after["pid"]),
        (&"idle".into(), &held["pid"]),
        "it is the same process: {after:#}"
    );
    let mut again = scene.editor(&[]);
    again.greet();
    let _ = again.ask("session/load", &json!({"sessionId": id, "cwd": scene.cwd, "mcpServers": []}));
    assert!(again.updates().iter().any(|update| editor::words(update) == ("agent_message_chunk", "did it")));
    let done = again.prompt(&id, "[[text:after the return]]");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    let _ = scene.home.agentctl(&["stop", &id]).ok();
}

/// The agent of a new session is chosen by a mode, until its first words.
#[test]
fn a_mode_chooses_the_agent_of_a_new_session() {
    let Some(scene) = Scene::set() else { return };
    scene.home.agentctl(&["config", "check"]);
    std::fs::create_dir_all(scene.home.agentctl_home()).unwrap();
    std::fs::write(
        scene.home.agentctl_home().join("config.toml"),
        format!("adapter = \"pi\"\nmodel = \"{}\"\n", pi::MODEL),
    )
    .unwrap();
    let mut editor = scene.editor(&["--adapter", "claude-code"]);
    editor.greet();
    let made = editor.ask("session/new", &json!({"cwd": scene.cwd, "mcpServers": []}));
    let id = made["sessionId"].as_str().unwrap().to_owned();
    let modes: Vec<&str> = made["modes"]["availableModes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mode| mode["id"].as_str().unwrap())
        .collect();
    assert!(modes.contains(&"pi") && modes.contains(&"claude-code"), "{made:#}");
    let _ = editor.ask("session/set_mode", &json!({"sessionId": id, "modeId": "pi"}));
    assert_eq!(
        editor.fault("session/set_mode", &json!({"sessionId": id, "modeId": "nobody"}))["code"],
        -32602
    );
    let done = editor.prompt(&id, "[[text:from pi]] hello");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    let list = scene.home.agentctl(&["list", "--json"]).ok().json();
    assert_eq!(
        (&list["sessions"][0]["adapter"], &list["sessions"][0]["lastMessage"]),
        (&"pi".into(), &"from pi".into()),
        "{list:#}"
    );
    let begun = editor.fault("session/set_mode", &json!({"sessionId": id, "modeId": "claude-code"}));
    assert!(begun["message"].as_str().unwrap().contains("cannot be asked for another mode"), "{begun:#}");
    // Whatever id its agent gave it, it can be opened by the one that the editor knows.
    let mut again = scene.editor(&[]);
    again.greet();
    let _ = again.ask("session/load", &json!({"sessionId": id, "cwd": scene.cwd, "mcpServers": []}));
    assert!(again.updates().iter().any(|update| editor::words(update) == ("agent_message_chunk", "from pi")));
    assert_eq!(
        again.fault("session/load", &json!({"sessionId": "no-such", "cwd": scene.cwd, "mcpServers": []}))["code"],
        -32002
    );
    let _ = scene.home.agentctl(&["stop", list["sessions"][0]["id"].as_str().unwrap()]).ok();
}

/// A held agent that has modes is asked for another one, and keeps to it.
#[test]
fn the_mode_of_a_held_session_is_chosen_in_the_editor() {
    let model = FakeModel::start();
    let mut home = TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"));
    home.set_env("AGENTCTL_NO_DAEMON", "1");
    let settled = NodeAgent::gemini(&mut home, &model.url()).and_then(|_| Clients::call());
    let clients = match settled {
        Ok(clients) => clients,
        Err(reason) => return skip(reason),
    };
    let cwd = home.git_repo("project");
    let mut command =
        home.agentctl_command(&["launch", "gemini", "-p", "[[text:begun]] hello", "--hold", "--json"]);
    command.current_dir(&cwd);
    let launched = home.run(command).ok().json();
    let id = launched["id"].as_str().unwrap();
    let _ = home.agentctl(&["wait", id, "--timeout", "2m"]).ok();
    let open = json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
    let mut editor = Editor::open(&home, &clients, &[]);
    editor.greet();
    let opened = editor.ask("session/load", &open);
    let offered = opened["modes"]["availableModes"].as_array().unwrap();
    assert!(offered.iter().any(|mode| mode["id"] == "yolo"), "{opened:#}");
    assert_eq!(opened["modes"]["currentModeId"], "default", "{opened:#}");

    editor.choose("reject_once");
    let done = editor.prompt(id, "[[bash:touch asked]] [[text:was told no]]");
    assert_eq!(
        (done["result"]["stopReason"].as_str(), editor.permissions().len()),
        (Some("end_turn"), 1),
        "{done:#}"
    );
    let _ = editor.ask("session/set_mode", &json!({"sessionId": id, "modeId": "yolo"}));
    let done = editor.prompt(id, "[[bash:touch unasked]] [[text:did it]]");
    assert_eq!(
        (done["result"]["stopReason"].as_str(), editor.permissions().len()),
        (Some("end_turn"), 0),
        "{done:#}"
    );
    assert!(cwd.join("unasked").exists() && !cwd.join("asked").exists());
    let again = editor.ask("session/load", &open);
    assert_eq!(again["modes"]["currentModeId"], "yolo", "{again:#}");
    let wrong = editor.fault("session/set_mode", &json!({"sessionId": id, "modeId": "nobody"}));
    assert!(wrong["message"].as_str().unwrap().contains("does not offer"), "{wrong:#}");

    // The model, where the agent lets it be chosen.
    let option = &opened["configOptions"][0];
    if let Some(other) = option["options"]
        .as_array()
        .and_then(|all| all.iter().map(|one| &one["value"]).find(|value| **value != option["currentValue"]))
    {
        let set = json!({"sessionId": id, "configId": "model", "value": other});
        let now = editor.ask("session/set_config_option", &set);
        assert_eq!(now["configOptions"][0]["currentValue"], *other, "{now:#}");
    }
    let _ = home.agentctl(&["stop", id]).ok();
}
