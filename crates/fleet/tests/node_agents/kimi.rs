use agentctl_adapters::agents::kimi::Kimi;
use agentctl_model::{Outcome, PendingKind, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess};

use super::stage::{Stage, minute, roles, session, unreadable_is_no_verdict};

const A: &str = "session_aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "session_bbbbbbbb-0000-4000-8000-00000000000b";

fn record(kind: &str, at: i64, more: &str) -> String {
    format!(r#"{{"type":"{kind}","agentId":"main"{more},"time":{}}}"#, minute(at).as_millisecond())
}

fn prompt(at: i64) -> String {
    record(
        "turn.prompt",
        at,
        r#","input":[{"type":"text","text":"do it"}],"origin":{"kind":"user"},"turnId":0"#,
    )
}

fn call(at: i64) -> String {
    let call = r#"{"type":"tool.call","toolCallId":"c","name":"Bash","args":{"command":"make"}}"#;
    record("context.append_loop_event", at, &format!(r#","event":{call}"#))
}

fn ended(at: i64, reason: &str) -> String {
    record("turn.ended", at, &format!(r#","turnId":0,"reason":"{reason}""#))
}

/// Sessions of `/w`, each with its records.
fn stage(sessions: &[(&str, &[String])]) -> Stage {
    let stage = Stage::new(&Kimi);
    stage.write(
        ".kimi-code/workspaces.json",
        &[r#"{"version":1,"workspaces":{"wd_w_0":{"root":"/w"}}}"#.into()],
    );
    for (id, lines) in sessions {
        let folder = format!(".kimi-code/sessions/wd_w_0/{id}");
        let whole =
            format!(r#"{{"id":"{id}","version":2,"cwd":"/w","createdAt":{}}}"#, minute(1).as_millisecond());
        stage.write(&format!("{folder}/state.json"), &[whole]);
        stage.write(&format!("{folder}/agents/main/wire.jsonl"), lines);
    }
    stage
}

/// A process with the title that the agent gives itself.
fn titled(stage: &Stage, pid: u32) -> ScriptedProcess {
    stage.process(pid, &["kimi-code"]).comm("kimi-code")
}

fn table(processes: &[ScriptedProcess]) -> Scripted {
    processes.iter().cloned().fold(Scripted::new(), Scripted::process)
}

#[test]
fn one_process_and_one_newer_session_in_a_directory_are_a_pair() {
    let stage = stage(&[(A, &[prompt(11), call(12)]), (B, &[prompt(1), call(2)])]);
    let one = || table(&[titled(&stage, 42)]);
    assert_eq!(stage.verdict(A, one), (Status::Running, None));
    assert_eq!(stage.verdict(B, one), (Status::Stopped, Some(Outcome::Died)), "older than the process");
    let survey = stage.all(one());
    assert_eq!(roles(session(&survey, A)), [(42, "agent")]);
    assert_eq!(session(&survey, A).status_detail.as_deref(), Some("Bash: make"));
    assert!(survey.strays.is_empty());
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
    // This is before it has given itself a title.
    let early = || table(&[stage.process(42, &["node", "/n/.bin/kimi", "-p", "do it"])]);
    assert_eq!(stage.verdict(A, early), (Status::Running, None));
}

#[test]
fn a_run_that_agentctl_started_is_at_work_before_its_id_is_known() {
    let stage = stage(&[(A, &[prompt(11), call(12), ended(13, "failed")])]);
    let launched = || table(&[titled(&stage, 42).variable("AGENTCTL_LAUNCH_ID", "l-1")]);
    assert_eq!(stage.verdict(A, launched), (Status::Running, None));
    let terminal = || table(&[titled(&stage, 42)]);
    assert_eq!(stage.verdict(A, terminal), (Status::Idle, Some(Outcome::Failed)));
}

#[test]
fn two_in_one_directory_are_nobodys() {
    let stage = stage(&[(A, &[prompt(11), call(12)]), (B, &[prompt(11), ended(12, "completed")])]);
    let two = || table(&[titled(&stage, 42), titled(&stage, 43)]);
    assert_eq!(stage.verdict(A, two).0, Status::Unknown);
    assert_eq!(stage.verdict(B, two).0, Status::Unknown);
    let elsewhere = || table(&[titled(&stage, 42).cwd("/elsewhere")]);
    assert_eq!(stage.verdict(A, elsewhere), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(stage.all(elsewhere()).strays.len(), 1);
}

#[test]
fn ends_are_told_apart() {
    let stage =
        stage(&[(A, &[prompt(11), call(12), ended(13, "cancelled")]), (B, &[prompt(1), ended(2, "failed")])]);
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Interrupted)));
    assert_eq!(stage.verdict(B, Scripted::new), (Status::Stopped, Some(Outcome::Failed)));
    let alive = || table(&[titled(&stage, 42)]);
    assert_eq!(stage.verdict(A, alive), (Status::Idle, Some(Outcome::Interrupted)));
}

#[test]
fn an_approval_waits_as_long_as_its_process_lives() {
    let request =
        r#","id":"i","kind":"approval","request":{"toolName":"Bash","display":{"command":"rm -rf build"}}"#;
    let stage = stage(&[(A, &[prompt(11), record("interaction.request", 12, request)])]);
    let alive = || table(&[titled(&stage, 42)]);
    assert_eq!(stage.verdict(A, alive), (Status::Waiting, None));
    let survey = stage.all(alive());
    let pending = &session(&survey, A).pending;
    assert_eq!((pending.len(), pending[0].kind), (1, PendingKind::Approval));
    assert_eq!(pending[0].summary.as_deref(), Some("Bash: rm -rf build"));
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn another_home_is_another_source_and_a_command_is_no_stray() {
    let stage = stage(&[(A, &[prompt(11), call(12)])]);
    let moved = || table(&[titled(&stage, 42).variable("KIMI_CODE_HOME", "/other")]);
    assert_eq!(stage.verdict(A, moved), (Status::Stopped, Some(Outcome::Died)));
    let command = || table(&[stage.process(42, &["node", "/n/.bin/kimi", "session", "list"])]);
    assert_eq!(stage.verdict(A, command), (Status::Stopped, Some(Outcome::Died)));
    assert!(stage.all(moved()).strays.is_empty() && stage.all(command()).strays.is_empty());
}

#[test]
fn a_list_of_workspaces_that_cannot_be_read_changes_no_answer() {
    let stage = stage(&[(A, &[prompt(11), call(12)])]);
    stage.write(".kimi-code/workspaces.json", &["{\"worksp".to_owned()]);
    assert_eq!(stage.verdict(A, || table(&[titled(&stage, 42)])), (Status::Running, None));
}

#[test]
fn a_root_that_cannot_be_read_is_no_verdict() {
    let stage = Stage::new(&Kimi);
    unreadable_is_no_verdict(&stage, &stage.path().join(".kimi-code"));
}
