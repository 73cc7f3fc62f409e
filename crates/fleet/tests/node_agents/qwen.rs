use agentctl_adapters::agents::qwen::Qwen;
use agentctl_model::{Outcome, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess};

use super::stage::{Stage, minute, roles, session, unreadable_is_no_verdict};

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";
const SCRIPT: &str = "/n/.bin/qwen";
const INNER: &str = "/n/@qwen-code/qwen-code/cli.js";

fn record(id: &str, kind: &str, at: i64, more: &str) -> String {
    format!(
        r#"{{"uuid":"{kind}{at}","sessionId":"{id}","timestamp":"{}","type":"{kind}","cwd":"/w","version":"0.24.4"{more}}}"#,
        minute(at)
    )
}

fn prompt(id: &str, at: i64) -> String {
    record(id, "user", at, r#","message":{"parts":[{"text":"do it"}]}"#)
}

fn call(id: &str, at: i64) -> String {
    let call = r#"{"functionCall":{"name":"run_shell_command","args":{"command":"make"}}}"#;
    record(id, "assistant", at, &format!(r#","model":"m","message":{{"parts":[{call}]}}"#))
}

fn words(id: &str, at: i64) -> String {
    record(id, "assistant", at, r#","model":"m","message":{"parts":[{"text":"done"}]}"#)
}

fn error(id: &str, at: i64) -> String {
    let event = format!(
        r#"{{"event.name":"qwen-code.api_error","prompt_id":"{id}########0","error_message":"503"}}"#
    );
    record(id, "system", at, &format!(r#","subtype":"ui_telemetry","systemPayload":{{"uiEvent":{event}}}"#))
}

fn stage(sessions: &[(&str, &[String])]) -> Stage {
    let stage = Stage::new(&Qwen);
    for (id, lines) in sessions {
        stage.write(&format!(".qwen/projects/-w/chats/{id}.jsonl"), lines);
    }
    stage
}

fn note(stage: &Stage, id: &str, pid: u32, at: i64) {
    let text = format!(
        r#"{{"schema_version":1,"pid":{pid},"session_id":"{id}","work_dir":"/w","hostname":"h","started_at":{}}}"#,
        minute(at).as_second()
    );
    stage.write(&format!(".qwen/projects/-w/chats/{id}.runtime.json"), &[text]);
}

/// The three processes of a run, outermost first.
fn chain(stage: &Stage, pid: u32, args: &[&str]) -> [ScriptedProcess; 3] {
    let process = |pid, parent, start: &[&'static str]| {
        let command: Vec<&str> = start.iter().chain(args).copied().collect();
        stage.process(pid, &command).parent(parent)
    };
    [
        process(pid, 1, &["node", SCRIPT]),
        process(pid + 1, pid, &["node", "--expose-gc", INNER]),
        process(pid + 2, pid + 1, &["node", "--expose-gc", INNER]),
    ]
}

fn table(processes: &[ScriptedProcess]) -> Scripted {
    processes.iter().cloned().fold(Scripted::new(), Scripted::process)
}

#[test]
fn the_innermost_of_three_is_the_agent_and_lives_without_the_others() {
    let stage = stage(&[(A, &[prompt(A, 11), call(A, 12)])]);
    let three = chain(&stage, 40, &["do it", "--session-id", A]);
    assert_eq!(stage.verdict(A, || table(&three)), (Status::Running, None));
    let survey = stage.all(table(&three));
    assert_eq!(roles(session(&survey, A)), [(42, "agent"), (40, "wrapper"), (41, "wrapper")]);
    assert_eq!(session(&survey, A).status_detail.as_deref(), Some("run_shell_command: make"));
    assert!(survey.strays.is_empty());
    let orphan = [three[2].clone().parent(1)];
    assert_eq!(stage.verdict(A, || table(&orphan)), (Status::Running, None));
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
}

/// An agent that starts a tool is two equal processes for a moment.
#[test]
fn the_copy_through_which_an_agent_starts_a_program_is_not_the_agent() {
    let stage = stage(&[(A, &[prompt(A, 11), call(A, 12)])]);
    let [outer, middle, inner] = chain(&stage, 40, &["do it", "--session-id", A]);
    let copy = stage.process(43, &["node", "--expose-gc", INNER, "do it", "--session-id", A]).parent(42);
    let four = [outer, middle, inner, copy.clone().forked()];
    assert_eq!(stage.verdict(A, || table(&four)), (Status::Running, None));
    let survey = stage.all(table(&four));
    assert_eq!(roles(session(&survey, A)), [(42, "agent"), (40, "wrapper"), (41, "wrapper")]);

    // A copy whose original is gone is all that is left of the agent.
    assert_eq!(roles(session(&stage.all(table(&[copy.forked()])), A)), [(43, "agent")]);
}

#[test]
fn a_note_ties_an_interactive_process_and_a_reused_pid_does_not() {
    let stage = stage(&[(A, &[prompt(A, 11), words(A, 12)]), (B, &[prompt(B, 11), call(B, 12)])]);
    note(&stage, A, 42, 10);
    let alive = || table(&[stage.process(42, &["node", INNER])]);
    assert_eq!(stage.verdict(A, alive), (Status::Idle, Some(Outcome::Completed)));
    assert_eq!(
        stage.verdict(B, alive),
        (Status::Stopped, Some(Outcome::Died)),
        "it is no candidate for another"
    );
    // The pid belongs to a Qwen Code that started after the note was written: it may own either session.
    let later = || table(&[stage.process(42, &["node", INNER]).started_at(minute(60))]);
    assert_eq!(stage.verdict(A, later).0, Status::Stopped);
    let editor = || table(&[stage.process(42, &["vim", INNER])]);
    assert_eq!(stage.verdict(A, editor).0, Status::Stopped);
    assert!(stage.all(editor()).strays.is_empty());
}

#[test]
fn an_empty_prompt_is_a_session_as_long_as_it_lives() {
    let stage = stage(&[]);
    note(&stage, A, 42, 10);
    assert_eq!(stage.verdict(A, || table(&[stage.process(42, &["node", INNER])])), (Status::Idle, None));
    assert!(stage.all(Scripted::new()).sessions.is_empty());
}

#[test]
fn nothing_ties_a_run_without_an_id_but_its_directory() {
    let stage = stage(&[(A, &[prompt(A, 11), call(A, 12)]), (B, &[prompt(B, 1), call(B, 2)])]);
    let one = || table(&[stage.process(42, &["node", INNER, "do it"])]);
    assert_eq!(stage.verdict(A, one), (Status::Running, None));
    assert_eq!(stage.verdict(B, one), (Status::Stopped, Some(Outcome::Died)), "older than the process");
    let two = || {
        table(&[stage.process(42, &["node", INNER, "do it"]), stage.process(43, &["node", INNER, "do that"])])
    };
    assert_eq!(stage.verdict(A, two).0, Status::Unknown);
}

#[test]
fn a_killed_turn_is_not_the_next_processs_and_an_error_is_tried_again() {
    let stage = stage(&[(A, &[prompt(A, 11), call(A, 12)]), (B, &[prompt(B, 11), error(B, 12)])]);
    let reopened = || table(&[stage.process(42, &["node", INNER, "-r", A]).started_at(minute(20))]);
    assert_eq!(stage.verdict(A, reopened), (Status::Idle, Some(Outcome::Died)));
    let trying = || table(&[stage.process(43, &["node", INNER, "do it", "--session-id", B])]);
    assert_eq!(stage.verdict(B, trying), (Status::Running, None));
    assert_eq!(stage.verdict(B, Scripted::new), (Status::Stopped, Some(Outcome::Failed)));
}

#[test]
fn servers_and_commands_are_no_strays() {
    let stage = stage(&[(A, &[prompt(A, 1), words(A, 2)])]);
    let kernel = || {
        table(&[stage.process(42, &["node", SCRIPT, "--acp"]), stage.process(43, &["node", SCRIPT, "serve"])])
    };
    assert_eq!(stage.verdict(A, kernel), (Status::Stopped, Some(Outcome::Completed)));
    assert!(stage.all(kernel()).strays.is_empty());
}

#[test]
fn a_sub_agent_at_work_is_carried_by_its_parent() {
    let stage = stage(&[(A, &[prompt(A, 11), call(A, 12)])]);
    stage.write(&format!(".qwen/projects/-w/subagents/{A}/agent-x1.jsonl"), &[prompt(A, 12), call(A, 13)]);
    let survey = stage.all(table(&[stage.process(42, &["node", INNER, "do it", "--session-id", A])]));
    let sub = session(&survey, "x1");
    assert_eq!((sub.status, sub.parent_id.as_deref()), (Status::Running, Some(A)));
    assert_eq!(session(&stage.all(Scripted::new()), "x1").outcome, Some(Outcome::Died));
}

#[test]
fn a_root_that_cannot_be_read_gives_no_verdict() {
    let stage = Stage::new(&Qwen);
    assert_eq!(stage.all(Scripted::new()).sources[0].coverage.as_str(), "not-installed");
    unreadable_is_no_verdict(&stage, &stage.path().join(".qwen"));
}
