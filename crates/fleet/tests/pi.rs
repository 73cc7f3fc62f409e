//! Pi and Pi Rust joined with a scripted kernel: contract rows N1, N2, N4, N7, N9 and the traps of one shared store.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_fleet::{FindError, Fleet, KernelLock, Purpose, Query, Selector, Since, Source, Wanted};
use agentctl_model::{Environ, Outcome, Relation, Rule, Session, Status, Survey};
use agentctl_process::Kernel;
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use tempfile::TempDir;

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

/// Minutes after a fixed moment.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

/// One session file in the making: every record is the child of the one before.
struct Tree {
    lines: Vec<String>,
}

impl Tree {
    fn new(id: &str, cwd: &str, at: i64) -> Self {
        Self::with_header(&format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{}","cwd":"{cwd}"}}"#,
            minute(at)
        ))
    }

    fn with_header(header: &str) -> Self {
        Self { lines: vec![header.to_owned()] }
    }

    fn record(mut self, kind: &str, at: i64, rest: &str) -> Self {
        let number = self.lines.len();
        let parent = if number == 1 { "null".to_owned() } else { format!("\"r{}\"", number - 1) };
        let time = minute(at);
        self.lines.push(format!(
            r#"{{"type":"{kind}","id":"r{number}","parentId":{parent},"timestamp":"{time}",{rest}}}"#
        ));
        self
    }

    fn user(self, at: i64) -> Self {
        self.record("message", at, r#""message":{"role":"user","content":[{"type":"text","text":"do it"}]}"#)
    }

    fn reply(self, at: i64, stop: &str) -> Self {
        let call = r#",{"type":"toolCall","id":"c","name":"bash","arguments":{"command":"make"}}"#;
        let call = if stop == "toolUse" { call } else { "" };
        let content = format!(r#"[{{"type":"text","text":"words {at}"}}{call}]"#);
        let rest = format!(
            r#""message":{{"role":"assistant","content":{content},"provider":"p","model":"m","usage":{{"input":1,"output":2}},"stopReason":"{stop}"}}"#
        );
        self.record("message", at, &rest)
    }

    fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// A home with the store of both agents in it.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".pi/agent/sessions")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> PathBuf {
        self.path().join(".pi/agent/sessions")
    }

    fn launches(&self) -> PathBuf {
        self.path().join("launches")
    }

    /// Writes down that a launch was for this session of Pi.
    fn launch(&self, launch: &str, session: &str) {
        let folder = self.launches().join(launch);
        fs::create_dir_all(&folder).unwrap();
        let record = serde_json::json!({
            "version": 1, "id": launch, "launchedAt": minute(0), "sessionId": session, "settled": true,
            "made": null, "process": null,
            "order": {
                "adapter": "pi", "root": self.path().join(".pi/agent"), "conversation": "new", "cwd": "/w",
                "worktree": null, "model": null, "permission": null, "systemPrompt": null, "freshId": session,
                "program": null, "env": {}, "group": null, "labels": {}, "spec": null, "files": [],
                "onCreate": null, "onComplete": null, "timeoutMs": null, "force": false,
            },
        });
        fs::write(folder.join("launch.json"), record.to_string()).unwrap();
    }

    /// Writes down how the process of a launch ended.
    fn exited(&self, launch: &str, at: i64, signal: i32) {
        let exit = serde_json::json!({
            "exitCode": null, "exitSignal": signal, "exitedAt": minute(at), "timedOut": false, "foundGoneAt": null,
        });
        fs::write(self.launches().join(launch).join("exit.json"), exit.to_string()).unwrap();
    }

    /// A session of a launch whose process is gone; `newest` is the minute of its last record.
    fn left_open(&self, launch: &str, id: &str, newest: i64) {
        let file = self.put(&name(id), &Tree::new(id, "/w", 1).user(2).reply(newest, "toolUse"));
        fs::File::open(file).unwrap().set_modified(minute(newest).into()).unwrap();
        self.launch(launch, id);
    }

    /// Puts a file into the folder of `/w`, written at the time of its newest record as far as anybody can tell.
    fn put(&self, name: &str, tree: &Tree) -> PathBuf {
        self.put_in("--w--", name, tree)
    }

    fn put_in(&self, folder: &str, name: &str, tree: &Tree) -> PathBuf {
        let folder = self.store().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, tree.text()).unwrap();
        path
    }

    /// A Pi of this home in `/w`, as it looks half a second after its start: all arguments are gone.
    fn pi(&self, pid: u32, started: i64) -> ScriptedProcess {
        ScriptedProcess::new(pid, &["pi"])
            .exe("/usr/bin/node")
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(started))
    }

    fn pi_rust(&self, pid: u32, started: i64, args: &[&str]) -> ScriptedProcess {
        let line: Vec<&str> = std::iter::once("pi").chain(args.iter().copied()).collect();
        ScriptedProcess::new(pid, &line)
            .exe("/usr/local/bin/pi")
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(started))
    }

    /// A tool of the process `parent`, as Pi starts it.
    fn tool(&self, pid: u32, parent: u32, session: &str, file: &Path) -> ScriptedProcess {
        ScriptedProcess::new(pid, &["sleep", "60"])
            .parent(parent)
            .variable("HOME", self.path().to_str().unwrap())
            .variable("PI_SESSION_ID", session)
            .variable("PI_SESSION_FILE", file.to_str().unwrap())
    }

    fn fleet_with(&self, variables: &[(&str, &str)], kernel: Scripted) -> Fleet {
        let mut environ = Environ::from_iter([("HOME", self.path())]);
        for (name, value) in variables {
            environ.set(*name, *value);
        }
        let source = |adapter: &'static dyn Adapter| Source {
            adapter,
            root: adapter.root(&environ).unwrap(),
            timeout: Duration::from_secs(20),
        };
        Fleet::new(vec![source(&Pi), source(&PiRust)], Arc::new(kernel)).with_launches(self.launches())
    }

    fn fleet(&self, kernel: Scripted) -> Fleet {
        self.fleet_with(&[], kernel)
    }

    /// Everything stored, after seeing that the list of live sessions says the same of each of them (N7).
    fn all(&self, kernel: Scripted) -> Survey {
        let fleet = self.fleet(kernel);
        let all = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
        let live = fleet.survey(&Query::new(Wanted::Live));
        let told = |survey: &Survey| {
            let mut rows: Vec<_> = survey
                .sessions
                .iter()
                .filter(|one| one.session.is_live())
                .map(|one| (one.key.clone(), one.session.status, one.session.outcome))
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(told(&all), told(&live), "list and list --all disagree");
        assert_eq!(all.strays.len(), live.strays.len());
        all
    }
}

fn name(id: &str) -> String {
    format!("2026-11-15T06-53-06-724Z_{id}.jsonl")
}

fn session<'s>(survey: &'s Survey, id: &str) -> &'s Session {
    let mut with_id = survey.sessions.iter().filter(|surveyed| surveyed.key.id == id);
    let one = with_id.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert!(with_id.next().is_none(), "{id} is listed twice");
    &one.session
}

fn verdict(survey: &Survey, id: &str) -> (Status, Option<Outcome>) {
    let session = session(survey, id);
    assert!(!session.evidence.is_empty());
    (session.status, session.outcome)
}

#[test]
fn one_process_and_one_session_with_newer_records_are_a_pair() {
    for (tree, expected) in [
        (Tree::new(A, "/w", 1).user(2), (Status::Running, None)),
        (Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"), (Status::Running, None)),
        (Tree::new(A, "/w", 1).user(2).reply(3, "stop"), (Status::Idle, Some(Outcome::Completed))),
        (Tree::new(A, "/w", 1).user(2).reply(3, "error"), (Status::Idle, Some(Outcome::Failed))),
        (Tree::new(A, "/w", 1).user(2).reply(3, "aborted"), (Status::Idle, Some(Outcome::Interrupted))),
        (
            Tree::new(A, "/w", 1).user(2).reply(3, "error").record("context_edit", 4, r#""targetId":"r2""#),
            (Status::Running, None),
        ),
        (Tree::new(A, "/w", 1).record("model_change", 1, r#""modelId":"m""#), (Status::Idle, None)),
    ] {
        let home = Home::new();
        home.put(&name(A), &tree);
        let survey = home.all(Scripted::new().process(home.pi(42, 0)));
        assert_eq!(verdict(&survey, A), expected, "{}", tree.text());
        assert_eq!((session(&survey, A).pid, survey.strays.len()), (Some(42), 0));
    }
}

#[test]
fn a_wrapper_that_was_killed_takes_nobody_with_it() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let wrapper = || ScriptedProcess::new(41, &["/bin/sh", "/w/bin/pi"]).comm("pi").exe("/usr/bin/dash");
    let wrapper =
        || wrapper().cwd("/w").variable("HOME", home.path().to_str().unwrap()).started_at(minute(0));
    let both = home.all(Scripted::new().process(wrapper()).process(home.pi(42, 0).parent(41)));
    assert_eq!(verdict(&both, A), (Status::Running, None));
    assert_eq!(
        (session(&both, A).processes.len(), both.strays.len()),
        (1, 0),
        "a wrapper is no owner and no stray"
    );
    let orphan = home.all(Scripted::new().process(home.pi(42, 0)));
    assert_eq!(verdict(&orphan, A), (Status::Running, None));
}

#[test]
fn a_process_that_started_after_every_record_is_somebody_else() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let survey = home.all(Scripted::new().process(home.pi(42, 10)));
    assert_eq!(
        verdict(&survey, A),
        (Status::Stopped, Some(Outcome::Died)),
        "the pid was reused, or Pi is new here"
    );
    assert_eq!(survey.strays.len(), 1);
    let survey = home.all(Scripted::new());
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn killed_in_the_middle_and_merely_reopened_is_idle() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    // A `!` command of the user is all that the new process did: its variables name the session.
    let kernel = Scripted::new().process(home.pi(42, 10)).process(home.tool(43, 42, A, &file));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Died)));
    assert_eq!(session(&survey, A).pid, Some(42));
}

#[test]
fn two_in_one_directory_are_not_told_apart_by_guessing() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree::new(B, "/w", 1).user(2).reply(3, "stop"));
    home.put(&name("old"), &Tree::new("old", "/w", -9).user(-8).reply(-7, "stop"));
    let two = || Scripted::new().process(home.pi(42, 0)).process(home.pi(43, 0));
    let survey = home.all(two());
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
    assert_eq!(verdict(&survey, B), (Status::Unknown, None));
    assert_eq!(
        verdict(&survey, "old"),
        (Status::Stopped, Some(Outcome::Completed)),
        "older sessions stay stopped"
    );

    let survey = home.all(two().process(home.tool(44, 42, A, &file)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    let idle = (Status::Idle, Some(Outcome::Completed));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), (idle, Some(43)), "one is left for the other");
}

#[test]
fn a_launch_record_tells_apart_what_nothing_else_does() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree::new(B, "/w", 1).user(2));
    home.launch("launch-a", A);
    home.launch("launch-b", B);
    let marked = |pid, launch| home.pi(pid, 0).variable("AGENTCTL_LAUNCH_ID", launch);
    // A tool of the first one started a Pi without a session of its own, which inherits the mark.
    let kernel = || {
        let tool =
            ScriptedProcess::new(50, &["/bin/sh"]).parent(41).variable("AGENTCTL_LAUNCH_ID", "launch-a");
        let nested = marked(51, "launch-a").parent(50);
        Scripted::new().process(tool).process(nested).process(marked(42, "launch-b"))
    };
    let survey = home.all(kernel().process(marked(41, "launch-a")));
    for (id, pid) in [(A, 41), (B, 42)] {
        assert_eq!(verdict(&survey, id), (Status::Running, None));
        let session = session(&survey, id);
        assert_eq!((session.pid, session.processes.len()), (Some(pid), 1), "{session:#?}");
        let told = serde_json::to_string(&session.evidence).unwrap();
        assert!(told.contains("our launch record names this session"), "{told}");
    }
}

/// Contract row N2: what a launched process left open is nobody's because a stranger works in the same directory.
#[test]
fn a_killed_launch_is_not_given_to_a_bystander() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    home.exited("launch-a", 4, 9);
    let bystander = || Scripted::new().process(home.pi(42, 0));
    let died = (Status::Stopped, Some(Outcome::Died));
    let survey = home.all(bystander());
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), (died, None));
    assert_eq!(session(&survey, A).stopped_at, Some(minute(4)), "the runner saw it");
    assert_eq!(survey.strays.len(), 1, "the bystander belongs to no stored session");
    let told = serde_json::to_string(&session(&survey, A).evidence).unwrap();
    assert!(told.contains("ended with signal 9"), "{told}");

    // A second one does not make both uncertain; a third that nobody launched is the only candidate.
    home.left_open("launch-b", B, 3);
    home.exited("launch-b", 4, 15);
    let both = home.all(bystander());
    let interrupted = (Status::Stopped, Some(Outcome::Interrupted));
    assert_eq!((verdict(&both, A), verdict(&both, B)), (died, interrupted));
    let third = "cccccccc-0000-4000-8000-00000000000c";
    home.put(&name(third), &Tree::new(third, "/w", 1).user(2));
    let all = home.all(bystander());
    assert_eq!((verdict(&all, third), session(&all, third).pid), ((Status::Running, None), Some(42)));
    assert_eq!((verdict(&all, A), verdict(&all, B)), (died, interrupted));
}

/// A Pi that a tool of the killed one had started lives on, with the launch's mark and no parent that could tell.
#[test]
fn what_a_tool_of_a_killed_launch_started_does_not_carry_its_session() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    home.exited("launch-a", 4, 9);
    let nested = home.pi(51, 2).variable("AGENTCTL_LAUNCH_ID", "launch-a").variable("PI_SESSION_ID", A);
    let survey = home.all(Scripted::new().process(nested));
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(session(&survey, A).pid, None);
}

/// Contract row N1: whoever takes a launched conversation up by hand writes into it, and is its candidate from then on.
#[test]
fn a_launched_session_that_a_stranger_took_up_is_the_strangers() {
    let home = Home::new();
    home.left_open("launch-a", A, 6);
    home.exited("launch-a", 4, 9);
    let survey = home.all(Scripted::new().process(home.pi(42, 5)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    // Whatever was seen, what carries the launch's own mark is no stranger: its wrapper may have been killed alone.
    home.exited("launch-a", 8, 9);
    let worker = home.pi(43, 0).variable("AGENTCTL_LAUNCH_ID", "launch-a");
    let survey = home.all(Scripted::new().process(worker));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(43)));
}

/// Nobody saw the exit: whose the newest records are is not known, so neither is said.
#[test]
fn a_launch_that_was_killed_with_its_runner_is_in_doubt() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    let path = home.launches().join("launch-a/launch.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    record["process"] = serde_json::json!({"pid": 41, "start": 1, "boot": format!("{:032x}", 1)});
    fs::write(&path, record.to_string()).unwrap();
    let survey = home.all(Scripted::new().process(home.pi(42, 0)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Unknown, None), None));
    let alone = home.all(Scripted::new());
    assert_eq!(verdict(&alone, A), (Status::Stopped, Some(Outcome::Died)));
    // One that was started after the last record has nothing to do with it.
    let later = home.all(Scripted::new().process(home.pi(42, 5)));
    assert_eq!(verdict(&later, A), (Status::Stopped, Some(Outcome::Died)));
}

/// A runner that lives will write the exit. A process that is just ending is carried by nobody any more, though the kernel has
/// its name still: what it left open has no outcome either way.
#[test]
fn a_launch_whose_runner_lives_has_no_outcome_before_its_exit() {
    let home = Home::new();
    home.left_open("launch-a", A, 3);
    let path = home.launches().join("launch-a/launch.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let ending = ScriptedProcess::new(41, &["ending"]);
    let gone = Scripted::new();
    let still_named = Scripted::new().process(ending);
    let named = still_named.heads().seen().unwrap()[0].process;
    record["process"] = serde_json::json!(
        {"pid": named.pid, "start": named.start, "boot": format!("{:032x}", named.boot)}
    );
    fs::write(&path, record.to_string()).unwrap();
    let runner = KernelLock::on_folder(&home.launches().join("launch-a"), Duration::ZERO).unwrap();
    for kernel in [gone, still_named] {
        let survey = home.all(kernel);
        assert_eq!(verdict(&survey, A), (Status::Stopped, None));
        let detail = session(&survey, A).status_detail.as_deref();
        assert!(detail.is_some_and(|words| words.contains("its runner has yet to write")), "{detail:?}");
        assert_eq!(survey.sessions[0].rule, Rule::ExitNotWrittenYet);
    }
    drop(runner);
    assert_eq!(verdict(&home.all(Scripted::new()), A), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn a_launch_takes_up_a_session_that_was_last_written_before_it() {
    let home = Home::new();
    // What is on disk is older than the process; the file says so by its own time.
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let written = fs::File::open(&file).unwrap();
    written.set_modified(minute(3).into()).unwrap();
    home.launch("launch-a", A);
    let late = || home.pi(42, 10).variable("AGENTCTL_LAUNCH_ID", "launch-a");
    let survey = home.all(Scripted::new().process(late()));
    assert_eq!((session(&survey, A).pid, survey.strays.len()), (Some(42), 0));
}

#[test]
fn a_tool_below_a_shell_names_the_session_wherever_the_process_stands() {
    let home = Home::new();
    let file =
        home.put_in("--elsewhere--", &name(A), &Tree::new(A, "/elsewhere", 1).user(2).reply(3, "toolUse"));
    let shell = ScriptedProcess::new(43, &["/bin/bash", "-c", "make; ls"]).parent(42);
    let kernel = Scripted::new().process(home.pi(42, 0)).process(shell).process(home.tool(44, 43, A, &file));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A), (Status::Running, None));
    assert_eq!(session(&survey, A).status_detail.as_deref(), Some("bash: make"));
}

#[test]
fn an_agent_started_by_a_tool_carries_its_own_session_and_not_its_parents() {
    let home = Home::new();
    let outer = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    home.put(&name(B), &Tree::new(B, "/w", 4).user(5));
    let nested = home.pi(43, 4).parent(42).variable("PI_SESSION_ID", A);
    let nested = nested.variable("PI_SESSION_FILE", outer.to_str().unwrap());
    // What an extension of the nested one started inherits the mark of the outer one.
    let inherited = home.tool(44, 43, A, &outer);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(nested).process(inherited));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), ((Status::Running, None), Some(43)));
    assert_eq!(session(&survey, A).processes.len(), 1);
}

#[test]
fn sub_agents_without_a_session_are_neither_rows_nor_strays() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let child = |pid| home.pi(pid, 4).parent(42);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(child(43)).process(child(44)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!((survey.sessions.len(), survey.strays.len()), (1, 0));
}

#[test]
fn a_run_without_a_session_is_a_stray_and_takes_no_ones_session() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let tool = ScriptedProcess::new(43, &["sleep"]).parent(42).variable("PI_SESSION_ID", B);
    let survey = home.all(Scripted::new().process(home.pi(42, 0)).process(tool));
    assert_eq!(
        verdict(&survey, A),
        (Status::Stopped, Some(Outcome::Completed)),
        "its tool names another one"
    );
    assert_eq!(survey.strays.len(), 1);
    let starting =
        ScriptedProcess::new(42, &["node", "/n/bin/pi", "-p", "--no-session", "x"]).exe("/usr/bin/node");
    let starting = starting.cwd("/w").variable("HOME", home.path().to_str().unwrap()).started_at(minute(0));
    let survey = home.all(Scripted::new().process(starting));
    assert_eq!((verdict(&survey, A).0, survey.strays.len()), (Status::Stopped, 1));
}

#[test]
fn other_homes_other_stores_and_other_programs_are_not_ours() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let died = (Status::Stopped, Some(Outcome::Died));
    for stranger in [
        home.pi(42, 0).variable("HOME", "/home/other"),
        home.pi(42, 0).variable("PI_CODING_AGENT_DIR", "/other"),
        home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", "/other"),
        home.pi(42, 0).exe("/usr/bin/python3"),
        home.pi(42, 0).closed("another user's"),
    ] {
        let survey = home.all(Scripted::new().process(stranger.clone()));
        assert_eq!(verdict(&survey, A), died, "{stranger:?}");
        let pi: Vec<_> = survey.strays.iter().filter(|(adapter, _)| adapter == "pi").collect();
        assert_eq!(pi.len(), 0, "{stranger:?}");
    }
}

#[test]
fn a_process_that_names_a_file_of_ours_carries_it_whatever_its_variables_say() {
    let home = Home::new();
    let file = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "toolUse"));
    let moved = home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", "/other");
    let survey = home.all(Scripted::new().process(moved).process(home.tool(43, 42, A, &file)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    // The variable may also say what is so without it.
    let same = home.pi(42, 0).variable("PI_CODING_AGENT_SESSION_DIR", home.store().to_str().unwrap());
    let survey = home.all(Scripted::new().process(same));
    assert_eq!(verdict(&survey, A), (Status::Running, None));
}

#[test]
fn variables_that_cannot_be_seen_make_unknown_and_never_stopped() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let mut hidden = home.pi(42, 0);
    hidden.process.environ = agentctl_model::Observed::Unobservable("this platform shows none".into());
    let survey =
        home.fleet(Scripted::new().process(hidden)).survey(&Query::new(Wanted::All { since: Since::Ever }));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
}

#[test]
fn one_id_in_two_folders_is_two_sessions() {
    let home = Home::new();
    home.put_in("--w--", &name("same"), &Tree::new("same", "/w", 1).user(2).reply(3, "stop"));
    let there = home.put_in("--v--", &name("same"), &Tree::new("same", "/v", 1).user(2).reply(3, "toolUse"));
    let kernel = Scripted::new().process(home.pi(42, 0).cwd("/v")).process(home.tool(43, 42, "same", &there));
    let fleet = home.fleet(kernel);
    let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let mut rows: Vec<_> =
        survey.sessions.iter().map(|one| (one.session.cwd.clone(), one.session.status)).collect();
    rows.sort();
    assert_eq!(rows, [(Some("/v".to_owned()), Status::Running), (Some("/w".to_owned()), Status::Stopped)]);
    assert_ne!(survey.sessions[0].key, survey.sessions[1].key);
    let selector = Selector { text: "same".into(), ..Selector::default() };
    assert!(
        matches!(fleet.find(&selector, Purpose::Read), Err(FindError::Ambiguous { candidates, .. }) if candidates.len() == 2)
    );
    let narrowed = Selector { cwd: Some("/v".into()), ..selector };
    assert_eq!(fleet.find(&narrowed, Purpose::Read).unwrap().0.session.status, Status::Running);
}

#[test]
fn the_two_agents_share_a_store_and_no_session_appears_twice() {
    let home = Home::new();
    let rust = |id: &str, more: &str| {
        Tree::with_header(&format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m"{more}}}"#,
            minute(1)
        ))
    };
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    home.put("2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl", &rust(B, "").user(2));
    home.put("mine.jsonl", &rust("by-header", "").user(2));
    home.put("node.jsonl", &Tree::new("node-by-header", "/w", 1).user(2).reply(3, "stop"));
    // Pi Rust continued a session of Pi's and wrote its own header into it: it stays Pi's.
    home.put(&name("continued"), &rust("continued", "").user(2).reply(3, "stop"));
    fs::write(home.store().join("--w--/2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl.lock"), "").unwrap();
    fs::write(home.store().join("session-index.sqlite"), "index").unwrap();
    let survey = home.all(Scripted::new());
    let mut rows: Vec<(&str, &str)> =
        survey.sessions.iter().map(|one| (one.key.adapter.as_str(), one.key.id.as_str())).collect();
    rows.sort_unstable();
    let expected =
        [("pi", A), ("pi", "continued"), ("pi", "node-by-header"), ("pi-rust", B), ("pi-rust", "by-header")];
    assert_eq!(rows, expected);
    assert!(survey.sources.iter().all(|source| source.coverage == "complete"), "{:?}", survey.sources);
    assert_eq!(session(&survey, B).model.as_deref(), Some("p/m"), "from the header, before any reply");

    fs::write(home.store().join("--w--/2026-02-22T16-29-54.096Z_cccccccc.sqlite"), "x").unwrap();
    let survey = home.all(Scripted::new());
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!(
        coverage,
        ["complete", "partial"],
        "a session that is not read is named, by its own agent only"
    );
}

#[test]
fn pi_rust_is_tied_by_its_arguments_and_may_continue_a_session_of_pis() {
    let home = Home::new();
    let header = format!(
        r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m"}}"#,
        minute(1)
    );
    let file = home.put("2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl", &Tree::with_header(&header).user(12));
    let args = ["--session", file.to_str().unwrap(), "-p", "go on"];
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 10, &args)));
    assert_eq!((verdict(&survey, B), session(&survey, B).pid), ((Status::Running, None), Some(42)));
    // It is a headless run: an older turn does not make it idle.
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 20, &args)));
    assert_eq!(verdict(&survey, B), (Status::Running, None));
    assert_eq!(survey.strays.len(), 0);

    let pis = home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop").user(12));
    let args = ["--session", pis.to_str().unwrap()];
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 10, &args)));
    assert_eq!((verdict(&survey, A), session(&survey, A).pid), ((Status::Running, None), Some(42)));
    assert_eq!(verdict(&survey, B), (Status::Stopped, Some(Outcome::Died)));
    assert_eq!(survey.strays.len(), 0);
}

#[test]
fn a_directory_pairs_an_agent_only_with_sessions_of_its_own_making() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2).reply(3, "stop"));
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 0, &[])));
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    assert_eq!(survey.strays.iter().map(|(adapter, _)| adapter.as_str()).collect::<Vec<_>>(), ["pi-rust"]);
    // With the turn open, the other agent may well be at work on it: no verdict.
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let survey = home.all(Scripted::new().process(home.pi_rust(42, 0, &[])));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
}

#[test]
fn the_active_branch_ends_at_the_headers_leaf_or_at_the_last_record() {
    let home = Home::new();
    let header = |leaf: &str| {
        format!(
            r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","provider":"p","modelId":"m","leafId":"{leaf}"}}"#,
            minute(1)
        )
    };
    let tree =
        |leaf: &str| Tree::with_header(&header(leaf)).user(2).reply(3, "stop").user(4).reply(5, "error");
    let file = "2026-02-22T16-29-54.096Z_bbbbbbbb.jsonl";
    for (leaf, outcome, words) in [
        ("r2", Outcome::Completed, "words 3"),
        ("r4", Outcome::Failed, "words 5"),
        ("gone", Outcome::Failed, "words 5"),
    ] {
        let place = home.put(file, &tree(leaf));
        let survey = home.all(Scripted::new());
        assert_eq!(verdict(&survey, B), (Status::Stopped, Some(outcome)), "{leaf}");
        assert_eq!(session(&survey, B).last_message.as_deref(), Some(words));
        let peeked = PiRust.read(&place, B, 20).unwrap();
        assert_eq!(peeked.iter().rfind(|entry| entry.text.starts_with("words")).unwrap().text, words);
    }
}

#[test]
fn moved_stores_are_read_flat_and_say_whose_they_are() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    let flat = home.path().join("flat");
    fs::create_dir(&flat).unwrap();
    fs::write(flat.join(name(B)), Tree::new(B, "/w", 1).user(2).text()).unwrap();
    let moved = [("PI_CODING_AGENT_SESSION_DIR", flat.to_str().unwrap())];
    let there = home.pi(42, 0).variable(moved[0].0, moved[0].1);
    for wanted in [Wanted::Live, Wanted::All { since: Since::Ever }] {
        let kernel = Scripted::new().process(there.clone()).process(home.pi(43, 0));
        let survey = home.fleet_with(&moved, kernel).survey(&Query::new(wanted));
        let rows: Vec<_> = survey
            .sessions
            .iter()
            .map(|one| (one.key.id.as_str(), one.session.status, one.session.pid))
            .collect();
        assert_eq!(rows, [(B, Status::Running, Some(42))]);
    }
    // Settings move only what is new: the old ones stay where they were and are listed too.
    fs::write(home.path().join(".pi/agent/settings.json"), r#"{"sessionDir":"~/flat"}"#).unwrap();
    let survey = home.all(Scripted::new().process(home.pi(43, 0)));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None), "one process, and two sessions that fit");
    assert_eq!(verdict(&survey, B), (Status::Unknown, None));
}

#[test]
fn what_cannot_be_read_gives_no_verdict() {
    let home = Home::new();
    home.put(&name(A), &Tree::new(A, "/w", 1).user(2));
    home.put(&name(B), &Tree { lines: vec!["not a header".into(), "{}".into()] });
    fs::write(home.store().join("--w--").join(name("empty")), "").unwrap();
    let fleet = home.fleet(Scripted::new());
    let survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let coverage: Vec<&str> = survey.sources.iter().map(|source| source.coverage.as_str()).collect();
    assert_eq!((survey.sessions.len(), coverage), (1, vec!["partial", "complete"]));
    let selector = Selector { text: B.into(), ..Selector::default() };
    assert!(
        matches!(fleet.find(&selector, Purpose::Read), Err(FindError::NotHeard { .. })),
        "silence is no verdict"
    );

    let nobody = tempfile::tempdir().unwrap();
    let environ = Environ::from_iter([("HOME", nobody.path())]);
    let root = Pi.root(&environ).unwrap();
    let source = Source { adapter: &Pi, root, timeout: Duration::from_secs(20) };
    let survey = Fleet::new(vec![source], Arc::new(Scripted::new())).survey(&Query::new(Wanted::Live));
    assert_eq!(survey.sources[0].coverage, "not-installed");
}

#[test]
fn odd_files_are_read_for_what_they_hold() {
    let home = Home::new();
    // 0.73.1 writes the header twice; a killed process leaves half a line; a disk leaves nonsense in the middle.
    let mut tree = Tree::new(A, "/w", 1).user(2).reply(3, "stop").record("label", 4, r#""label":"x""#);
    tree.lines.insert(3, "\u{0}\u{0}garbage".into());
    tree.lines.insert(1, tree.lines[0].clone());
    tree.lines.insert(0, String::new());
    let path = home.put("any name.jsonl", &tree);
    let torn = fs::read_to_string(&path).unwrap() + r#"{"type":"message","id":"r9","par"#;
    fs::write(&path, torn).unwrap();
    let parent = home.put(&name("the-parent"), &Tree::new("the-parent", "/w", -2).user(-1));
    let fork = format!(
        r#"{{"type":"session","version":3,"id":"{B}","timestamp":"{}","cwd":"/w","parentSession":"{}"}}"#,
        minute(3),
        parent.display()
    );
    let fork = Tree::with_header(&fork).user(1).reply(2, "stop").user(4).reply(5, "stop");
    home.put(&name(B), &fork.record("session_info", 6, r#""name":" the title ""#));

    let question = Query { usage: true, ..Query::new(Wanted::All { since: Since::Ever }) };
    let survey = home.fleet(Scripted::new()).survey(&question);
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    let damaged = session(&survey, A);
    assert_eq!(
        (damaged.prompt.as_deref(), damaged.last_message.as_deref()),
        (Some("do it"), Some("words 3"))
    );
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sources[0].warnings.len()), ("complete", 1));
    let fork = session(&survey, B);
    assert_eq!((fork.parent_id.as_deref(), fork.relation), (Some("the-parent"), Some(Relation::Fork)));
    assert_eq!(fork.tokens.unwrap().input, Some(1), "copies are the parent's");
    assert_eq!(fork.name.as_deref(), Some("the title"));
    assert_eq!(fork.started_at, Some(minute(3)));
}
