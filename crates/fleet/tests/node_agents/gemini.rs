use agentctl_adapters::agents::gemini::Gemini;
use agentctl_model::{Outcome, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess};

use super::stage::{Stage, minute, roles, session, unreadable_is_no_verdict};

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";
const SCRIPT: &str = "/n/.bin/gemini";

fn header(id: &str, at: i64) -> String {
    let at = minute(at);
    format!(
        r#"{{"sessionId":"{id}","projectHash":"h","startTime":"{at}","lastUpdated":"{at}","kind":"main"}}"#
    )
}

fn context(at: i64) -> String {
    let at = minute(at);
    format!(
        r#"{{"$set":{{"messages":[{{"id":"c","timestamp":"{at}","type":"user","content":[{{"text":"<session_context>"}}]}}],"lastUpdated":"{at}"}}}}"#
    )
}

fn prompt(at: i64) -> String {
    format!(r#"{{"id":"u{at}","timestamp":"{}","type":"user","content":[{{"text":"do it"}}]}}"#, minute(at))
}

fn reply(at: i64, text: &str) -> String {
    format!(
        r#"{{"id":"g{at}","timestamp":"{}","type":"gemini","content":"{text}","model":"m","tokens":{{"input":10,"output":2,"cached":1}}}}"#,
        minute(at)
    )
}

fn file(stage: &Stage, id: &str, clock: &str, lines: &[String]) {
    let name = format!("session-2026-11-15T{clock}-{}.jsonl", &id[..8]);
    stage.write(&format!(".gemini/tmp/w/chats/{name}"), lines);
}

fn stage(sessions: &[(&str, &[String])]) -> Stage {
    let stage = Stage::new(&Gemini);
    stage.write(".gemini/projects.json", &[r#"{"projects":{"/w":"w"}}"#.to_owned()]);
    stage.write(".gemini/tmp/w/.project_root", &["/w".to_owned()]);
    for (id, lines) in sessions {
        let whole = [&[header(id, 11), context(11)], *lines].concat();
        file(&stage, id, "07-05", &whole);
    }
    stage
}

fn table(processes: &[ScriptedProcess]) -> Scripted {
    processes.iter().cloned().fold(Scripted::new(), Scripted::process)
}

#[test]
fn the_relaunched_child_is_the_agent_and_lives_without_its_wrapper() {
    let stage = stage(&[(A, &[prompt(12), reply(13, "")])]);
    let outer = stage.process(41, &["node", SCRIPT, "-p", "x", "--session-id", A]);
    let inner = stage
        .process(42, &["node", "--max-old-space-size=99", SCRIPT, "-p", "x", "--session-id", A])
        .parent(41);
    let both = [outer, inner.clone()];
    assert_eq!(stage.verdict(A, || table(&both)), (Status::Running, None));
    let survey = stage.all(table(&both));
    assert_eq!(roles(session(&survey, A)), [(42, "agent"), (41, "wrapper")]);
    assert_eq!(session(&survey, A).processes[0].command, "gemini");
    assert!(survey.strays.is_empty());
    assert_eq!(stage.verdict(A, || table(&[inner.clone().parent(1)])), (Status::Running, None));
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn a_session_lives_by_its_process_even_without_a_file() {
    let stage = stage(&[]);
    let headless = || table(&[stage.process(42, &["node", SCRIPT, "-p", "x", "--session-id", A])]);
    assert_eq!(stage.verdict(A, headless), (Status::Running, None));
    let resting = || table(&[stage.process(42, &["node", SCRIPT, "-r", A])]);
    assert_eq!(stage.verdict(A, resting), (Status::Idle, None));
    // The next start of the agent deleted it: it is gone, and the source has not failed.
    let survey = stage.all(Scripted::new());
    assert!(survey.sessions.is_empty());
    assert_eq!(survey.sources[0].coverage.as_str(), "complete");
}

#[test]
fn two_files_with_one_id_are_one_session() {
    let stage = stage(&[(A, &[prompt(12), reply(13, "one")])]);
    file(&stage, A, "07-30", &[header(A, 30), context(30)]);
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Completed)));
    file(&stage, A, "07-40", &[header(A, 40), context(40), prompt(41), reply(42, "two")]);
    let survey = stage.all(Scripted::new());
    let one = session(&survey, A);
    assert_eq!((one.last_message.as_deref(), one.started_at), (Some("two"), Some(minute(11))));
    file(&stage, B, "07-50", &[header(B, 50), context(50)]);
    assert_eq!(stage.all(Scripted::new()).sessions.len(), 1, "a file without a conversation is a ghost");
}

#[test]
fn a_killed_turn_is_not_the_next_processs() {
    let again = context(20).replace(
        "}],",
        &format!(
            r#"}},{{"id":"u12","timestamp":"{}","type":"user","content":[{{"text":"do it"}}]}}],"#,
            minute(20)
        ),
    );
    let lines =
        [prompt(12), header(A, 20), context(20), format!(r#"{{"$set":{{"sessionId":"{A}"}}}}"#), again];
    let stage = stage(&[(A, &lines)]);
    let reopened = || table(&[stage.process(42, &["node", SCRIPT, "-r", A]).started_at(minute(19))]);
    assert_eq!(stage.verdict(A, reopened), (Status::Idle, Some(Outcome::Died)));
}

#[test]
fn a_headless_run_goes_on_until_its_process_ends() {
    let stage = stage(&[(A, &[prompt(12), reply(13, "I will run it")]), (B, &[prompt(12), context(13)])]);
    let run =
        |id: &'static str| table(&[stage.process(42, &["node", SCRIPT, "-p", "x", "--session-id", id])]);
    assert_eq!(stage.verdict(A, || run(A)), (Status::Running, None));
    assert_eq!(stage.verdict(B, || run(B)), (Status::Running, None));
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Completed)));
    assert_eq!(stage.verdict(B, Scripted::new), (Status::Stopped, Some(Outcome::Failed)));
}

#[test]
fn two_in_one_directory_are_told_apart_by_their_ids_and_uncertain_without() {
    let stage = stage(&[(A, &[prompt(12), reply(13, "")]), (B, &[prompt(12), reply(13, "done")])]);
    let named = || {
        table(&[
            stage.process(42, &["node", SCRIPT, "-p", "x", "--session-id", A]),
            stage.process(43, &["node", SCRIPT, "-r", B]),
        ])
    };
    assert_eq!(stage.verdict(A, named), (Status::Running, None));
    assert_eq!(stage.verdict(B, named), (Status::Idle, Some(Outcome::Completed)));
    let nameless = || table(&[stage.process(42, &["node", SCRIPT])]);
    assert_eq!(stage.verdict(A, nameless).0, Status::Unknown);
    let foreign =
        || table(&[ScriptedProcess::new(42, &["node", SCRIPT]).cwd("/w").variable("HOME", "/else")]);
    assert_eq!(stage.verdict(A, foreign).0, Status::Stopped);
    assert!(stage.all(foreign()).strays.is_empty());
}

#[test]
fn an_older_document_is_a_session_too() {
    let stage = stage(&[]);
    let messages = [prompt(12), reply(13, "done")].join(",");
    let document = format!(
        r#"{{"sessionId":"{A}","projectHash":"h","startTime":"{}","lastUpdated":"{}","messages":[{messages}]}}"#,
        minute(11),
        minute(13)
    );
    stage.write(".gemini/tmp/w/chats/session-2026-11-15T07-05-aaaaaaaa.json", &[document]);
    assert_eq!(stage.verdict(A, Scripted::new), (Status::Stopped, Some(Outcome::Completed)));
    let survey = stage.all(Scripted::new());
    let old = session(&survey, A);
    assert_eq!(
        (old.prompt.as_deref(), old.last_message.as_deref(), old.cwd.as_deref()),
        (Some("do it"), Some("done"), Some("/w"))
    );
}

#[test]
fn a_root_that_cannot_be_read_gives_no_verdict() {
    let stage = Stage::new(&Gemini);
    assert_eq!(stage.all(Scripted::new()).sources[0].coverage.as_str(), "not-installed");
    unreadable_is_no_verdict(&stage, &stage.path().join(".gemini"));
}
