//! Which process may count as an owner: a note alone proves nothing, and a pid counts only within its namespace.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_adapters::agents::codex::Codex;
use agentctl_adapters::agents::copilot::Copilot;
use agentctl_adapters::agents::gemini::Gemini;
use agentctl_adapters::agents::kimi::Kimi;
use agentctl_adapters::agents::opencode::OpenCode;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_adapters::agents::qwen::Qwen;
use agentctl_adapters::agents::slate::Slate;
use agentctl_adapters::{Adapter, Trace, registry};
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{Environ, NamespaceView, Outcome, PidNamespace, Session, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess, US};
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;

const ID: &str = "aaaaaaaa-0000-4000-8000-00000000000a";

/// Minutes after a fixed moment.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

struct Home(TempDir);

impl Home {
    /// A home with one session of each agent, with a turn open since minute 11 and a note that names process `pid`.
    fn noting(pid: u32, start: u64) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        let user = format!(
            r#"{{"type":"user","message":{{"role":"user","content":"do it"}},"timestamp":"{}","cwd":"/w","sessionId":"{ID}"}}"#,
            minute(11)
        );
        home.write(&format!(".claude/projects/-w/{ID}.jsonl"), &(user + "\n"));
        let note = format!(
            r#"{{"pid":{pid},"sessionId":"{ID}","cwd":"/w","procStart":"{start}","startedAt":{},"status":"busy"}}"#,
            minute(10).as_millisecond()
        );
        home.write(&format!(".claude/sessions/{pid}.json"), &note);
        let meta = format!(
            r#"{{"timestamp":"{0}","type":"session_meta","payload":{{"id":"{ID}","timestamp":"{0}","cwd":"/w","originator":"x","cli_version":"0.166.0"}}}}
{{"timestamp":"{0}","type":"event_msg","payload":{{"type":"task_started"}}}}
"#,
            minute(11)
        );
        home.write(&format!(".codex/sessions/2026/11/15/rollout-2026-11-15T00-00-00-{ID}.jsonl"), &meta);
        home.write(&format!(".codex/thread-writer-locks/{ID}.lock"), "");
        let events = format!(
            r#"{{"type":"session.start","data":{{"sessionId":"{ID}","startTime":"{0}","context":{{"cwd":"/w"}}}},"id":"1","timestamp":"{0}","parentId":null}}
{{"type":"user.message","data":{{"content":"do it"}},"id":"2","timestamp":"{0}","parentId":"1"}}
{{"type":"assistant.turn_start","data":{{"turnId":"0"}},"id":"3","timestamp":"{0}","parentId":"2"}}
"#,
            minute(11)
        );
        home.write(&format!(".copilot/session-state/{ID}/events.jsonl"), &events);
        home.write(&format!(".copilot/session-state/{ID}/inuse.{pid}.lock"), &pid.to_string());
        home.write(&format!(".copilot/session-state/{ID}/inuse.{pid}.hold"), "");
        home
    }

    fn path(&self) -> PathBuf {
        fs::canonicalize(self.0.path()).unwrap()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process of this home.
    fn process(&self, pid: u32, argv: &[&str]) -> ScriptedProcess {
        ScriptedProcess::new(pid, argv)
            .variable("HOME", self.path().to_str().unwrap())
            .cwd("/elsewhere")
            .started_at(minute(9))
    }

    fn hold(&self, pid: u32) -> PathBuf {
        self.path().join(format!(".copilot/session-state/{ID}/inuse.{pid}.hold"))
    }

    fn lock(&self) -> (u64, u64) {
        let lock = fs::metadata(self.path().join(format!(".codex/thread-writer-locks/{ID}.lock"))).unwrap();
        (lock.dev(), lock.ino())
    }

    fn fleet(&self, adapter: &'static dyn Adapter, kernel: Scripted) -> Fleet {
        let root = adapter.root(&Environ::from_iter([("HOME", self.path())])).unwrap();
        let source = Source { adapter, root, timeout: Duration::from_secs(20) };
        Fleet::new(vec![source], Arc::new(kernel)).with_launches(self.path().join("launches"))
    }

    fn session(&self, adapter: &'static dyn Adapter, kernel: Scripted) -> Session {
        self.session_called(ID, adapter, kernel)
    }

    fn session_called(&self, id: &str, adapter: &'static dyn Adapter, kernel: Scripted) -> Session {
        let mut survey = self.fleet(adapter, kernel).survey(&Query::new(Wanted::All { since: Since::Ever }));
        survey.sessions.retain(|surveyed| surveyed.key.id == id);
        assert_eq!(survey.sessions.len(), 1, "{:#?}", survey.sources);
        *survey.sessions.remove(0).session
    }
}

/// A kernel in which it holds what each of the agents would hold.
fn holding(home: &Home, process: ScriptedProcess) -> Scripted {
    let pid = process.process.pid();
    let (device, inode) = home.lock();
    let noted = process.process.noted_pid();
    Scripted::new().process(process.open(home.hold(noted), true)).lock(pid, device, inode)
}

const NOTING: [(&dyn Adapter, &[&str]); 3] =
    [(&ClaudeCode, &["claude"]), (&Codex, &["codex"]), (&Copilot, &["/n/@github/copilot-linux-x64/copilot"])];

fn name(adapter: &dyn Adapter) -> &'static str {
    adapter.card().name
}

#[test]
fn the_agent_itself_is_the_carrier_that_its_note_names() {
    for (adapter, argv) in NOTING {
        let home = Home::noting(42, 42);
        let session = home.session(adapter, holding(&home, home.process(42, argv)));
        assert_eq!(session.pid, Some(42), "{}", name(adapter));
        assert!(matches!(session.status, Status::Running | Status::Idle), "{}", name(adapter));
    }
}

#[test]
fn a_note_that_names_another_program_makes_it_no_carrier() {
    for (adapter, _) in NOTING {
        let home = Home::noting(42, 42);
        let sleep = home.process(42, &["sleep", "1000"]);
        let session = home.session(adapter, holding(&home, sleep));
        assert_eq!(session.pid, None, "{}", name(adapter));
        assert!(session.processes.is_empty(), "{}", name(adapter));
        // It may be the agent under an unknown name: that it works here is visible.
        assert_eq!(session.status, Status::Unknown, "{}", name(adapter));
        let detail = session.status_detail.unwrap();
        assert!(detail.contains("42") && detail.contains("not known as"), "{detail}");
    }
}

#[test]
fn a_note_that_names_a_process_of_another_home_is_nobodys() {
    // A process that has a file of ours open works here, whatever its variables say. That leaves Claude Code's
    // registry.
    let home = Home::noting(42, 42);
    for argv in [&["claude"][..], &["sleep", "1000"]] {
        let other = home.process(42, argv).variable("HOME", "/another");
        let session = home.session(&ClaudeCode, Scripted::new().process(other));
        assert_eq!((session.status, session.outcome), (Status::Stopped, Some(Outcome::Died)), "{argv:?}");
        assert_eq!(session.pid, None);
    }
    // Variables that cannot be read prove nothing.
    let hidden = home.process(42, &["claude"]).closed("denied");
    let session = home.session(&ClaudeCode, Scripted::new().process(hidden));
    assert_eq!((session.status, session.pid), (Status::Unknown, None));
    // A file of the root that it has open for writing is a proof.
    let mut holder = home.process(42, &["claude"]).open(home.path().join(".claude/debug.log"), true);
    holder.process.environ = agentctl_model::Observed::Unobservable("denied".into());
    let session = home.session(&ClaudeCode, Scripted::new().process(holder));
    assert_eq!((session.status, session.pid), (Status::Running, Some(42)));
}

#[test]
fn another_users_process_is_never_a_carrier() {
    for (adapter, argv) in NOTING {
        let home = Home::noting(42, 42);
        let session = home.session(adapter, holding(&home, home.process(42, argv).uid(US + 1)));
        assert_eq!(session.pid, None, "{}", name(adapter));
        assert_ne!(session.status, Status::Running, "{}", name(adapter));
    }
}

#[test]
fn agentctl_is_never_a_carrier() {
    for (adapter, _) in NOTING {
        let home = Home::noting(42, 42);
        for argv in [&["agentctl", "daemon", "run"][..], &["/x/agentctl", "claude"]] {
            let session = home.session(adapter, holding(&home, home.process(42, argv)));
            assert_eq!((session.status, session.pid), (Status::Stopped, None), "{}", name(adapter));
        }
    }
}

#[test]
fn an_agent_in_a_container_is_found_by_the_pid_that_it_has_there() {
    for (adapter, argv) in NOTING {
        let home = Home::noting(7, 1234);
        let inside = home.process(1234, argv).inner_pid(7);
        let session = home.session(adapter, holding(&home, inside));
        assert_eq!(session.pid, Some(1234), "{}", name(adapter));
        assert!(matches!(session.status, Status::Running | Status::Idle), "{}", name(adapter));
    }
    // Two containers used the same pid: the note proves nothing, and nothing is guessed.
    let home = Home::noting(7, 5);
    let twin = |pid: u32| home.process(pid, &["claude"]).start(5).inner_pid(7);
    let session = home.session(&ClaudeCode, Scripted::new().process(twin(1234)).process(twin(1235)));
    assert_ne!(session.status, Status::Running);
}

const HERE: PidNamespace = PidNamespace { machine: Some(0xabc), number: 4_026_532_001 };

/// Below the first namespace. The machine started in minute 0 and the namespace's first process in minute 5, before
/// anything that is recorded here.
fn inside() -> NamespaceView {
    NamespaceView {
        sees_all: false,
        namespace: Some(HERE),
        born_at: Some(minute(5)),
        booted_at: Some(minute(0)),
    }
}

/// The same after a reboot: the processes that wrote the records are gone.
fn rebooted() -> NamespaceView {
    NamespaceView { booted_at: Some(minute(60)), born_at: Some(minute(70)), ..inside() }
}

#[track_caller]
fn is_in_doubt(session: &Session) {
    let why = session.status_detail.as_deref().unwrap_or_default();
    assert_eq!((session.status, session.outcome), (Status::Unknown, None), "{}: {why}", session.adapter);
    assert!(why.contains("pid namespace"), "{}: {why}", session.adapter);
}

#[track_caller]
fn is_dead(session: &Session) {
    assert_eq!((session.status, session.outcome), (Status::Stopped, Some(Outcome::Died)), "{session:#?}");
}

#[test]
fn a_noted_pid_counts_in_the_namespace_that_the_note_names() {
    let asked = |domain: &str, seat: NamespaceView| {
        let home = Home::noting(42, 6000);
        let place = ".claude/sessions/42.json";
        let note = fs::read_to_string(home.path().join(place)).unwrap();
        let domain = format!(r#""pidDomain":"{domain}","status""#);
        home.write(place, &note.replace(r#""status""#, &domain));
        home.session(&ClaudeCode, Scripted::new().namespace_view(seat))
    };
    let ours = "linux:00000000000000000000000000000abc:pid:[4026532001]";
    is_dead(&asked(ours, inside()));
    is_dead(&asked("linux:00000000000000000000000000000abc:pid:[4026532002]", NamespaceView::ALL));
    for elsewhere in [
        "linux:00000000000000000000000000000abc:pid:[4026532002]",
        "linux:00000000000000000000000000000abd:pid:[4026532001]",
        "linux::pid:[4026532001]",
        "linux:",
    ] {
        is_in_doubt(&asked(elsewhere, inside()));
        is_dead(&asked(elsewhere, rebooted()));
    }
    is_in_doubt(&asked(ours, NamespaceView { namespace: None, ..inside() }));
}

/// Whatever the pid is and whenever the process started: a process of ours may have this pid, while the note means
/// another one.
#[test]
fn a_noted_pid_without_its_namespace_proves_nothing() {
    for (pid, start) in [(42, 6000), (2, 1), (40_000, 6000)] {
        let home = Home::noting(pid, start);
        let beside = || {
            let sh = |pid, start| ScriptedProcess::new(pid, &["sh"]).start(start);
            Scripted::new().process(sh(1, 5000)).process(sh(60, 9000))
        };
        is_in_doubt(&home.session(&ClaudeCode, beside().namespace_view(inside())));
        is_dead(&home.session(&ClaudeCode, beside()));
        is_dead(&home.session(&ClaudeCode, beside().namespace_view(rebooted())));
    }
}

#[test]
fn a_file_that_is_kept_open_says_in_every_namespace_whether_anybody_lives() {
    let home = Home::noting(42, 42);
    let lock = home.path().join(format!(".codex/thread-writer-locks/{ID}.lock"));
    let files: [(&dyn Adapter, PathBuf); 2] = [(&Codex, lock), (&Copilot, home.hold(42))];
    for (adapter, file) in files {
        let asked = |seat, open: Option<&[PathBuf]>| {
            let kernel = Scripted::new().namespace_view(seat);
            home.session(
                adapter,
                match open {
                    Some(open) => kernel.open_elsewhere(open),
                    None => kernel,
                },
            )
        };
        is_dead(&asked(inside(), Some(&[])));
        is_in_doubt(&asked(inside(), Some(&[file])));
        is_in_doubt(&asked(inside(), None));
        is_dead(&asked(NamespaceView::ALL, None));
    }
}

/// The process that holds it is idle, which does not make it stopped.
#[test]
fn a_lock_that_cannot_be_looked_at_may_be_held_while_the_session_rests() {
    let home = Home::noting(42, 42);
    let rollout = format!(".codex/sessions/2026/11/15/rollout-2026-11-15T00-00-00-{ID}.jsonl");
    let began = fs::read_to_string(home.path().join(&rollout)).unwrap();
    let over = json!({"timestamp": minute(12), "type": "event_msg", "payload": {"type": "task_complete"}});
    home.write(&rollout, &format!("{began}{over}\n"));
    let lock = home.path().join(format!(".codex/thread-writer-locks/{ID}.lock"));
    let taken_at = |at| fs::File::open(&lock).unwrap().set_modified(minute(at).into()).unwrap();
    let asked = |seat| home.session(&Codex, Scripted::new().namespace_view(seat));
    // Taking a lock again does not write its file again; then the records are newer.
    taken_at(-1);
    is_in_doubt(&asked(inside()));
    assert_eq!(asked(rebooted()).status, Status::Stopped);
    taken_at(61);
    is_in_doubt(&asked(rebooted()));
}

#[test]
fn a_rollout_whose_openings_cannot_be_seen_is_in_doubt() {
    let home = Home::noting(42, 42);
    fs::remove_dir_all(home.path().join(".codex/thread-writer-locks")).unwrap();
    is_dead(&home.session(&Codex, Scripted::new().namespace_view(inside()).open_elsewhere(&[])));
    is_in_doubt(&home.session(&Codex, Scripted::new().namespace_view(inside())));
    is_dead(&home.session(&Codex, Scripted::new().namespace_view(rebooted())));
}

/// A home with one session of an agent that leaves no trace of its process. Its turn is open (or over) at minute 30.
/// Also returns the id of the session.
fn leaving_nothing(adapter: &dyn Adapter, open: bool) -> (Home, String) {
    let home = Home(tempfile::tempdir().unwrap());
    let lines = |lines: &[serde_json::Value]| {
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        lines.join("\n") + "\n"
    };
    let [began, last] = [29, 30].map(minute);
    let [began_ms, last_ms] = [began, last].map(Timestamp::as_millisecond);
    let mut id = ID.to_owned();
    match adapter.card().name {
        "pi" | "pi-rust" => {
            let clock = if adapter.card().name == "pi" {
                "2026-11-15T00-00-00-000Z"
            } else {
                id.truncate(8);
                "2026-11-15T00-00-00.000Z"
            };
            let stop = if open { "toolUse" } else { "stop" };
            let call =
                json!([{"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "make"}}]);
            let text = lines(&[
                json!({"type": "session", "version": 3, "id": id, "timestamp": began, "cwd": "/w",
                    "provider": "p", "modelId": "m"}),
                json!({"type": "message", "id": "1", "parentId": null, "timestamp": began,
                    "message": {"role": "user", "content": [{"type": "text", "text": "do it"}]}}),
                json!({"type": "message", "id": "2", "parentId": "1", "timestamp": last, "message": {
                    "role": "assistant", "content": if open { call } else { json!([{"type": "text", "text": "x"}]) },
                    "provider": "p", "model": "m", "usage": {"input": 1, "output": 2}, "stopReason": stop}}),
            ]);
            home.write(&format!(".pi/agent/sessions/--w--/{clock}_{id}.jsonl"), &text);
        }
        "gemini" => {
            home.write(".gemini/projects.json", &json!({"projects": {"/w": "w"}}).to_string());
            home.write(".gemini/tmp/w/.project_root", "/w");
            let text = lines(&[
                json!({"sessionId": id, "projectHash": "h", "startTime": began, "lastUpdated": began, "kind": "main"}),
                json!({"id": "u", "timestamp": began, "type": "user", "content": [{"text": "do it"}]}),
                json!({"id": "g", "timestamp": last, "type": "gemini", "content": if open { "" } else { "x" },
                    "model": "m"}),
            ]);
            home.write(".gemini/tmp/w/chats/session-2026-11-15T00-00-aaaaaaaa.jsonl", &text);
        }
        "qwen" => {
            let record = |kind: &str, at: Timestamp| {
                json!({"uuid": kind, "sessionId": id, "timestamp": at, "type": kind, "cwd": "/w", "version": "0.24.4",
                    "model": "m", "message": {"parts": [{"text": "x"}]}})
            };
            let records = [record("user", began), record("assistant", last)];
            let text = lines(if open { &records[..1] } else { &records });
            home.write(&format!(".qwen/projects/-w/chats/{id}.jsonl"), &text);
        }
        "kimi" => {
            id = format!("session_{ID}");
            let workspaces = json!({"version": 1, "workspaces": {"wd_w": {"root": "/w"}}});
            home.write(".kimi-code/workspaces.json", &workspaces.to_string());
            let folder = format!(".kimi-code/sessions/wd_w/{id}");
            let state = json!({"id": id, "version": 2, "cwd": "/w", "createdAt": began_ms});
            home.write(&format!("{folder}/state.json"), &state.to_string());
            let records = [
                json!({"type": "turn.prompt", "agentId": "main", "input": [{"type": "text", "text": "do it"}],
                    "origin": {"kind": "user"}, "turnId": 0, "time": began_ms}),
                json!({"type": "turn.ended", "agentId": "main", "turnId": 0, "reason": "completed", "time": last_ms}),
            ];
            let text = lines(if open { &records[..1] } else { &records });
            home.write(&format!("{folder}/agents/main/wire.jsonl"), &text);
        }
        "slate" | "opencode" => {
            id = String::from("ses_live");
            let storage = format!(".local/share/{}/storage", adapter.card().name);
            let session = json!({"id": id, "directory": "/w", "title": "t", "version": "1.0.45",
                "time": {"created": began_ms, "updated": last_ms}});
            home.write(&format!("{storage}/session/p/{id}.json"), &session.to_string());
            let mut message = json!({"id": "msg_1", "sessionID": id, "role": "assistant", "timestamp": last_ms,
                "content": [], "time": {"created": last_ms}});
            if !open {
                message["finish"] = "stop".into();
                message["time"]["completed"] = last_ms.into();
            }
            home.write(&format!("{storage}/message/{id}/msg_1.json"), &message.to_string());
            // Slate's own record of its steps.
            let step = json!({"type": "agent.step", "span": {"kind": if open { "open" } else { "close" }},
                "timestamp": last_ms});
            home.write(&format!(".local/share/slate/trace/{id}.jsonl"), &lines(&[step]));
        }
        other => panic!("{other} has no scene here"),
    }
    (home, id)
}

/// OpenCode stands here for its old tree of files.
const LEAVING_NOTHING: [&dyn Adapter; 7] = [&Pi, &PiRust, &Gemini, &Kimi, &Slate, &Qwen, &OpenCode];

#[test]
fn every_agent_that_leaves_nothing_has_a_scene() {
    let nothing = registry().into_iter().filter(|adapter| adapter.card().trace == Trace::Nothing);
    for adapter in nothing.filter(|adapter| adapter.gateway().is_none()) {
        assert!(LEAVING_NOTHING.iter().any(|known| name(*known) == name(adapter)), "{}", name(adapter));
    }
}

#[test]
fn an_open_turn_that_nothing_ties_to_a_process_may_be_somebody_elses() {
    for adapter in LEAVING_NOTHING {
        let (home, id) = leaving_nothing(adapter, true);
        let asked = |seat| {
            home.session_called(&id, adapter, Scripted::new().namespace_view(seat).open_elsewhere(&[]))
        };
        is_dead(&asked(NamespaceView::ALL));
        is_in_doubt(&asked(inside()));
        is_dead(&asked(rebooted()));
        let live =
            home.fleet(adapter, Scripted::new().namespace_view(inside())).survey(&Query::new(Wanted::Live));
        assert_eq!(live.sessions.len(), 1, "{} is in the list of the live ones", name(adapter));
    }
}

#[test]
fn a_turn_that_is_over_needs_no_process() {
    for adapter in LEAVING_NOTHING {
        let (home, id) = leaving_nothing(adapter, false);
        let session =
            home.session_called(&id, adapter, Scripted::new().namespace_view(inside()).open_elsewhere(&[]));
        assert_eq!(
            (session.status, session.outcome),
            (Status::Stopped, Some(Outcome::Completed)),
            "{session:#?}"
        );
    }
}

#[test]
fn an_agent_of_our_own_namespace_is_running() {
    let (home, id) = leaving_nothing(&Pi, true);
    let process = home.process(42, &["pi", "--session-id", &id]).exe("/usr/bin/node");
    let session = home.session_called(&id, &Pi, Scripted::new().process(process).namespace_view(inside()));
    assert_eq!((session.status, session.pid), (Status::Running, Some(42)), "{session:#?}");
}

#[test]
fn a_sub_agent_is_where_its_parent_is() {
    let (home, id) = leaving_nothing(&Slate, true);
    let child = json!({"id": "ses_child", "rootSessionID": id, "directory": "/w", "title": "t", "version": "1.0.45",
        "agentConfig": {"slotID": "search"},
        "time": {"created": minute(29).as_millisecond(), "updated": minute(30).as_millisecond()}});
    home.write(".local/share/slate/storage/session/p/ses_child.json", &child.to_string());
    let asked = |kernel: Scripted| {
        let query = Query { subagents: true, ..Query::new(Wanted::All { since: Since::Ever }) };
        let survey = home.fleet(&Slate, kernel.namespace_view(inside())).survey(&query);
        let child = survey.sessions.into_iter().find(|found| found.key.id == "ses_child").unwrap().session;
        assert!(child.is_subagent());
        *child
    };
    is_in_doubt(&asked(Scripted::new()));
    let parent = home.process(42, &["slate", "-s", &id]);
    assert_eq!(
        asked(Scripted::new().process(parent)).status,
        Status::Stopped,
        "its parent is here, and it did nothing"
    );
}

#[test]
fn an_exit_that_our_runner_saw_is_the_end_in_every_namespace() {
    let (home, id) = leaving_nothing(&Pi, true);
    let process = json!({"pid": 42, "start": 42, "boot": "0".repeat(32)});
    let record = json!({
        "version": 1, "id": "l", "launchedAt": minute(28), "sessionId": id, "settled": true, "made": null,
        "process": process,
        "order": {
            "adapter": "pi", "root": home.path().join(".pi/agent"), "conversation": "new", "cwd": "/w",
            "worktree": null, "model": null, "permission": null, "systemPrompt": null, "freshId": id,
            "program": null, "env": {}, "group": null, "labels": {}, "spec": null, "files": [],
            "onCreate": null, "onComplete": null, "timeoutMs": null, "force": false,
        },
    });
    home.write("launches/l/launch.json", &record.to_string());
    let asked = || home.session(&Pi, Scripted::new().namespace_view(inside()));
    assert!(asked().launch.is_some(), "the record is read");
    is_in_doubt(&asked());
    let exit = json!({"exitCode": null, "exitSignal": 9, "exitedAt": minute(31), "timedOut": false,
        "foundGoneAt": null});
    home.write("launches/l/exit.json", &exit.to_string());
    is_dead(&asked());
}

#[test]
fn a_turn_without_a_note_that_is_older_than_the_namespace_is_in_doubt() {
    let home = Home::noting(42, 42);
    fs::remove_file(home.path().join(".claude/sessions/42.json")).unwrap();
    let asked = |seat| home.session(&ClaudeCode, Scripted::new().namespace_view(seat)).status;
    assert_eq!(asked(NamespaceView::ALL), Status::Stopped);
    assert_eq!(asked(NamespaceView { born_at: Some(minute(20)), ..inside() }), Status::Unknown);
    assert_eq!(asked(inside()), Status::Stopped, "a Claude that lives has a note");
}

#[test]
fn a_note_of_qwen_counts_for_a_qwen_of_this_root_only() {
    let home = Home(tempfile::tempdir().unwrap());
    let note = format!(
        r#"{{"schema_version":1,"pid":7,"session_id":"{ID}","work_dir":"/w","hostname":"h","started_at":{}}}"#,
        minute(12).as_second()
    );
    home.write(&format!(".qwen/projects/-w/chats/{ID}.runtime.json"), &note);
    let turn = format!(
        r#"{{"uuid":"1","parentUuid":null,"sessionId":"{ID}","timestamp":"{}","type":"user","cwd":"/w","version":"0.1","message":{{"role":"user","parts":[{{"text":"do it"}}]}}}}"#,
        minute(11)
    );
    home.write(&format!(".qwen/projects/-w/chats/{ID}.jsonl"), &(turn + "\n"));
    let argv = ["node", "/n/.bin/qwen"];
    let asked = |process: ScriptedProcess| {
        let session = home.session(&Qwen, Scripted::new().process(process));
        (session.status, session.pid)
    };
    assert_eq!(asked(home.process(1234, &argv).inner_pid(7)).1, Some(1234));
    assert_eq!(asked(home.process(7, &["sleep", "9"])), (Status::Stopped, None));
    assert_eq!(asked(home.process(7, &argv).variable("HOME", "/another")), (Status::Stopped, None));
    let inside = Scripted::new().namespace_view(inside());
    assert_eq!(home.session(&Qwen, inside).status, Status::Unknown);
}
