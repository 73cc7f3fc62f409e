use agentctl_adapters::agents::copilot::Copilot;
use agentctl_model::{Outcome, PendingKind, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess};

use super::stage::{Stage, minute, roles, session, unreadable_is_no_verdict};

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";
const NATIVE: &str = "/n/@github/copilot-linux-x64/copilot";
const WRAPPER: &str = "/usr/bin/copilot";

fn event(kind: &str, at: i64, data: &str) -> String {
    format!(r#"{{"type":"{kind}","data":{{{data}}},"id":"e{at}","timestamp":"{}"}}"#, minute(at))
}

/// Prompted at minute 11, with a tool running since minute 12.
fn at_work() -> Vec<String> {
    vec![
        event("session.start", 11, r#""context":{"cwd":"/w"}"#),
        event("user.message", 11, r#""content":"do it""#),
        event("assistant.turn_start", 12, ""),
        event(
            "tool.execution_start",
            12,
            r#""toolCallId":"t","toolName":"bash","arguments":{"command":"make"}"#,
        ),
    ]
}

fn done() -> Vec<String> {
    let mut events = at_work();
    events.truncate(3);
    events.push(event("assistant.message", 13, r#""content":"done","model":"m","toolRequests":[]"#));
    events.push(event("assistant.turn_end", 13, ""));
    events
}

fn stage(id: &str, events: &[String], pid: u32) -> Stage {
    let stage = Stage::new(&Copilot);
    add(&stage, id, events, pid);
    stage
}

fn add(stage: &Stage, id: &str, events: &[String], pid: u32) {
    let folder = format!(".copilot/session-state/{id}");
    let yaml = format!("id: {id}\ncwd: /w\nname: do it\nuser_named: false\ncreated_at: {}", minute(11));
    stage.write(&format!("{folder}/workspace.yaml"), &[yaml]);
    stage.write(&format!("{folder}/inuse.{pid}.lock"), &[pid.to_string()]);
    stage.write(&format!("{folder}/inuse.{pid}.hold"), &[]);
    if !events.is_empty() {
        stage.write(&format!("{folder}/events.jsonl"), events);
    }
}

fn native(stage: &Stage, pid: u32, id: &str, args: &[&str]) -> ScriptedProcess {
    let command: Vec<&str> = std::iter::once(NATIVE).chain(args.iter().copied()).collect();
    let hold = stage.path().join(format!(".copilot/session-state/{id}/inuse.{pid}.hold"));
    stage.process(pid, &command).open(hold, true)
}

#[test]
fn the_holder_of_the_file_carries_the_session_and_the_wrapper_stands_beside_it() {
    let stage = stage(A, &at_work(), 42);
    let args = ["-p", "x", "--session-id", A];
    let wrapper = stage.process(41, &["node", WRAPPER, "-p", "x", "--session-id", A]);
    let kernel = || Scripted::new().process(wrapper.clone()).process(native(&stage, 42, A, &args).parent(41));
    assert_eq!(stage.verdict(A, kernel), (Status::Running, None));
    let survey = stage.all(kernel());
    let running = session(&survey, A);
    assert_eq!(roles(running), [(42, "agent"), (41, "wrapper")]);
    assert_eq!((running.pid, running.status_detail.as_deref()), (Some(42), Some("bash: make")));
    assert_eq!((running.cwd.as_deref(), running.name.as_deref()), (Some("/w"), None));
    assert!(survey.strays.is_empty());
    // The wrapper was killed, but the agent continues (N1).
    let orphan = || Scripted::new().process(native(&stage, 42, A, &args).parent(1));
    assert_eq!(stage.verdict(A, orphan), (Status::Running, None));
}

#[test]
fn a_note_that_nobody_holds_is_nobody() {
    let stage = stage(A, &at_work(), 42);
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
    // The pid now belongs to an editor, and then to a Copilot that holds another session's file.
    let editor = || Scripted::new().process(stage.process(42, &["vim"]));
    assert_eq!(stage.verdict(A, editor), (Status::Stopped, Some(Outcome::Died)));
    assert!(stage.all(editor()).strays.is_empty(), "an editor is no stray agent");
    add(&stage, B, &done(), 42);
    let other = || Scripted::new().process(native(&stage, 42, B, &[]));
    assert_eq!(stage.verdict(A, other), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(stage.verdict(B, other), (Status::Idle, Some(Outcome::Completed)));
}

#[test]
fn a_turn_left_by_a_killed_process_is_not_the_next_ones() {
    let stage = stage(A, &at_work(), 42);
    let reopened = || Scripted::new().process(native(&stage, 42, A, &["--resume", A]).started_at(minute(20)));
    assert_eq!(stage.verdict(A, reopened), (Status::Idle, Some(Outcome::Died)));
    let asked_again = || {
        Scripted::new().process(native(&stage, 42, A, &["--resume", A, "-p", "go on"]).started_at(minute(20)))
    };
    assert_eq!(stage.verdict(A, asked_again), (Status::Running, None));
}

#[test]
fn two_in_one_directory_are_told_apart_and_an_empty_prompt_is_idle() {
    let stage = stage(A, &done(), 42);
    add(&stage, B, &[], 43);
    let kernel = || Scripted::new().process(native(&stage, 42, A, &[])).process(native(&stage, 43, B, &[]));
    assert_eq!(stage.verdict(A, kernel), (Status::Idle, Some(Outcome::Completed)));
    assert_eq!(stage.verdict(B, kernel), (Status::Idle, None));
    let gone = stage.all(Scripted::new());
    assert_eq!(
        gone.sessions.len(),
        1,
        "a folder in which nothing was asked is no session when nobody is there"
    );
}

#[test]
fn an_approval_is_waited_for() {
    let mut events = at_work();
    let asked = r#""requestId":"r","permissionRequest":{"kind":"shell","fullCommandText":"make"}"#;
    events.push(event("permission.requested", 12, asked));
    let stage = stage(A, &events, 42);
    let kernel = || Scripted::new().process(native(&stage, 42, A, &[]));
    assert_eq!(stage.verdict(A, kernel), (Status::Waiting, None));
    let survey = stage.all(kernel());
    let pending = &session(&survey, A).pending;
    assert_eq!(
        (pending[0].kind, pending[0].summary.as_deref()),
        (PendingKind::Approval, Some("shell: make"))
    );
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn files_that_cannot_be_seen_make_it_unknown_and_never_stopped() {
    let stage = stage(A, &at_work(), 42);
    add(&stage, B, &done(), 99);
    let closed = || Scripted::new().process(stage.process(42, &[NATIVE]).closed("not permitted"));
    assert_eq!(stage.verdict(A, closed).0, Status::Unknown);
    assert_eq!(
        stage.verdict(B, closed),
        (Status::Stopped, Some(Outcome::Completed)),
        "its note names another pid"
    );
}

#[test]
fn processes_of_another_home_and_commands_are_neither_owners_nor_strays() {
    let stage = stage(A, &done(), 42);
    let other = ScriptedProcess::new(50, &["node", WRAPPER, "--session-id", A]).variable("HOME", "/else");
    let command = stage.process(51, &[NATIVE, "mcp", "list"]);
    let kernel = || Scripted::new().process(other.clone()).process(command.clone());
    assert_eq!(stage.verdict(A, kernel), (Status::Stopped, Some(Outcome::Completed)));
    assert!(stage.all(kernel()).strays.is_empty());
    let starting = || Scripted::new().process(stage.process(52, &["node", WRAPPER, "--session-id", B]));
    assert_eq!(stage.all(starting()).strays.len(), 1);
}

#[test]
fn a_root_that_cannot_be_read_gives_no_verdict() {
    let stage = Stage::new(&Copilot);
    assert_eq!(stage.all(Scripted::new()).sources[0].coverage.as_str(), "not-installed");
    unreadable_is_no_verdict(&stage, &stage.path().join(".copilot"));
}
