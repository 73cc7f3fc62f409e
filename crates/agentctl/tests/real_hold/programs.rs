//! Programs that reach a session on another machine: an agent over MCP, an editor over ACP.

use std::fs;

use agentctl_testkit::clients::Clients;
use agentctl_testkit::{skip, until_seen};
use serde_json::{Value, json};

use crate::claude::CLAUDE_CODE;
use crate::editor::{self, Editor};
use crate::line::Client;
use crate::road::Road;
use crate::{PATIENCE, Stage};

/// Two machines are configured: one answers, the other does not exist.
fn stage() -> Option<Stage> {
    let stage = Stage::set(&CLAUDE_CODE, Road::Ssh)?;
    let near = stage.near();
    let program = near.program_of(&stage.scene.home, "agentctl");
    let absent = program.with_file_name("no-such-program");
    let host = |name: &str, program: &std::path::Path| {
        format!("[hosts.{name}]\nssh = \"box\"\nprogram = \"{}\"\ntimeout = \"60s\"\n", program.display())
    };
    near.configure(&[host("box", &program), host("dead", &absent)].concat());
    Some(stage)
}

fn ids(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn an_agent_launches_reads_answers_and_stops_on_another_machine() {
    let Some(stage) = stage() else { return };
    let cwd = &stage.scene.cwd;
    let mut client = Client::greeted(&stage.near().home, "launch,send,answer,interrupt,stop");
    let prompt = "[[bash:touch allowed]] [[text:did it]]";
    let launch = json!({"adapter": "claude-code", "prompt": prompt, "cwd": cwd, "hold": true, "host": "box"});
    let launched = client.done("launch_session", &launch);
    let id = launched["session"]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("box/") && launched["session"]["host"] == "box", "{launched:#}");
    let bare = id.strip_prefix("box/").unwrap();
    let waiting = client.done("wait_for", &json!({"id": id, "until": ["waiting"], "timeout": "3m"}));
    assert_eq!(ids(&waiting["reached"]), [&id], "{waiting:#}");

    // Here nobody knows it, and a machine that is not heard is said so.
    assert!(client.refused("session_status", &json!({"id": bare})).starts_with("not-found"));
    assert_eq!(client.done("list_sessions", &json!({}))["sessions"], json!([]));
    let all = client.done("list_sessions", &json!({"host": "all"}));
    assert_eq!(ids(&all["sessions"]), [&id], "{all:#}");
    let unheard: Vec<&Value> = all["notHeard"].as_array().unwrap().iter().map(|one| &one["host"]).collect();
    assert_eq!(unheard, ["dead"], "{all:#}");
    assert!(client.refused("list_sessions", &json!({"host": "nobody"})).starts_with("usage"));
    assert!(client.refused("session_status", &json!({"id": "dead/x"})).starts_with("incomplete"));

    // A request is answered only once it was shown, under the id of its machine.
    let status = stage.status(bare);
    let request = status["pending"][0]["id"].as_str().unwrap();
    let answer = json!({"id": id, "request": request, "decision": "approve"});
    assert!(client.refused("answer_request", &answer).contains("was not shown"));
    let inbox = client.done("inbox", &json!({"host": "all"}));
    let item = &inbox["items"][0];
    assert_eq!(
        (&item["session"]["id"], &item["pending"][0]["id"]),
        (&json!(id), &json!(request)),
        "{inbox:#}"
    );
    client.done("answer_request", &answer);
    let done = client.done("wait_for", &json!({"id": id, "timeout": "3m"}));
    assert_eq!(
        (&done["reached"][0]["status"], &done["wentWell"]),
        (&json!("idle"), &json!(true)),
        "{done:#}"
    );
    assert!(cwd.join("allowed").exists());
    let read = client.done("read_messages", &json!({"id": id}));
    assert!(read["entries"].to_string().contains("did it"), "{read:#}");
    let explained = client.done("explain_status", &json!({"id": id}));
    assert_eq!((&explained["id"], &explained["status"]), (&json!(id), &json!("idle")), "{explained:#}");

    let sent = client.done("send_message", &json!({"id": id, "message": "[[hang]] on"}));
    assert_eq!((&sent["accepted"], &sent["id"]), (&json!("now"), &json!(id)), "{sent:#}");
    client.done("wait_for", &json!({"id": id, "until": ["running"], "timeout": "3m"}));
    let broken = client.done("interrupt_session", &json!({"id": id}));
    assert_eq!(broken["interrupted"], true, "{broken:#}");
    let stopped = client.done("stop_session", &json!({"id": id}));
    assert_eq!(
        (&stopped["session"]["status"], &stopped["id"]),
        (&json!("stopped"), &json!(id)),
        "{stopped:#}"
    );
    stage.wait_for_silence();
    client.done("send_message", &json!({"id": id, "message": "[[text:taken up]] go", "resume": true}));
    client.done("wait_for", &json!({"id": id, "timeout": "3m"}));
    let after = client.done("session_status", &json!({"id": id}));
    assert!(after["session"]["lastMessage"].as_str().unwrap().contains("taken up"), "{after:#}");
    client.done("stop_session", &json!({"id": id}));
    stage.wait_for_silence();
}

#[test]
fn an_editor_opens_prompts_and_approves_on_another_machine() {
    let Some(stage) = stage() else { return };
    let clients = match Clients::call() {
        Ok(clients) => clients,
        Err(reason) => return skip(reason),
    };
    let held = stage.hold("[[text:begun there]] first", &[]);
    held.idle("begun there");
    let id = format!("box/{}", held.id);
    let mut editor = Editor::open(&stage.near().home, &clients, &["--host", "all"]);
    editor.greet();
    let listed = editor.ask("session/list", &json!({}));
    let row = &listed["sessions"][0];
    assert_eq!(
        (&row["sessionId"], &row["_meta"]["agentctl"]["host"]),
        (&json!(id), &json!("box")),
        "{listed:#}"
    );
    let open = json!({"sessionId": id, "cwd": stage.scene.cwd, "mcpServers": []});
    let opened = editor.ask("session/load", &open);
    assert_eq!(opened["_meta"]["agentctl"]["readOnly"], Value::Null, "that is known there: {opened:#}");
    editor.wait_for_words("user_message_chunk", "[[text:begun there]] first");
    editor.wait_for_words("agent_message_chunk", "begun there");

    let done = editor.prompt(&id, "[[bash:touch allowed]] [[text:did it there]]");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    let told = editor.updates();
    let said = |words| told.iter().filter(|update| editor::words(update) == words).count();
    assert_eq!(said(("agent_message_chunk", "did it there")), 1, "{told:#?}");
    assert!(!told.iter().any(|update| editor::words(update).0 == "user_message_chunk"), "{told:#?}");
    assert_eq!(editor.permissions().len(), 1);
    assert!(fs::exists(stage.scene.cwd.join("allowed")).unwrap());

    // What is said by another road is seen here, and the editor ends a turn there.
    held.send("[[text:by another road]] go on");
    editor.wait_for_words("user_message_chunk", "[[text:by another road]] go on");
    editor.wait_for_words("agent_message_chunk", "by another road");
    held.idle("by another road");
    let tag = editor.begin_prompt(&id, "[[bash:touch working; tail -f /dev/null]] [[hang]]");
    until_seen(PATIENCE, "the tool at work", || {
        if stage.scene.cwd.join("working").exists() { Ok(()) } else { Err("not yet") }
    });
    editor.notify("session/cancel", &json!({"sessionId": id}));
    let done = editor.answer(tag);
    assert_eq!(done["result"]["stopReason"], "cancelled", "{done:#}");

    // Nobody runs it any more: it is taken up there.
    held.done("stop", &[]);
    assert_eq!(held.status()["status"], "stopped");
    let done = editor.prompt(&id, "[[text:taken up there]] again");
    assert_eq!(done["result"]["stopReason"], "end_turn", "{done:#}");
    editor.wait_for_words("agent_message_chunk", "taken up there");
    assert_eq!(held.status()["status"], "idle");
    held.done("stop", &[]);
    assert_eq!(editor.close()["exited"], 0);
    stage.wait_for_silence();
}
