//! Who may be taken for a carrier: a note alone makes nobody one, and a pid counts within its namespace only.

#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_adapters::agents::codex::Codex;
use agentctl_adapters::agents::copilot::Copilot;
use agentctl_adapters::agents::qwen::Qwen;
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{Environ, Outcome, Seat, Session, Status};
use agentctl_process::fake::{Scripted, ScriptedProcess, US};
use jiff::Timestamp;
use tempfile::TempDir;

const ID: &str = "aaaaaaaa-0000-4000-8000-00000000000a";

/// Minutes after a fixed moment.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

struct Home(TempDir);

impl Home {
    /// A home with one session of each agent, its turn open since minute 11, and a note that names process `pid`.
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

    fn session(&self, adapter: &'static dyn Adapter, kernel: Scripted) -> Session {
        let environ = Environ::from_iter([("HOME", self.path())]);
        let root = adapter.root(&environ).unwrap();
        let source = Source { adapter, root, timeout: Duration::from_secs(20) };
        let fleet = Fleet::new(vec![source], Arc::new(kernel));
        let mut survey = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
        survey.sessions.retain(|surveyed| surveyed.key.id == ID);
        assert_eq!(survey.sessions.len(), 1, "{:#?}", survey.sources);
        *survey.sessions.remove(0).session
    }
}

/// As it holds what each of the agents would hold.
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
        // It may be the agent under a name that nobody knows: that it works here is seen.
        assert_eq!(session.status, Status::Unknown, "{}", name(adapter));
        let detail = session.status_detail.unwrap();
        assert!(detail.contains("42") && detail.contains("not known as"), "{detail}");
    }
}

#[test]
fn a_note_that_names_a_process_of_another_home_is_nobodys() {
    // What holds a file of ours open works here, whatever its variables say: that leaves Claude Code's registry.
    let home = Home::noting(42, 42);
    for argv in [&["claude"][..], &["sleep", "1000"]] {
        let other = home.process(42, argv).variable("HOME", "/another");
        let session = home.session(&ClaudeCode, Scripted::new().process(other));
        assert_eq!((session.status, session.outcome), (Status::Stopped, Some(Outcome::Died)), "{argv:?}");
        assert_eq!(session.pid, None);
    }
    // Variables that cannot be seen are no proof of anything.
    let hidden = home.process(42, &["claude"]).closed("denied");
    let session = home.session(&ClaudeCode, Scripted::new().process(hidden));
    assert_eq!((session.status, session.pid), (Status::Unknown, None));
    // A file of the root that it has open for writing is.
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
    // Two containers gave one pid: the note says nothing, and nothing is made up.
    let home = Home::noting(7, 5);
    let twin = |pid: u32| home.process(pid, &["claude"]).start(5).inner_pid(7);
    let session = home.session(&ClaudeCode, Scripted::new().process(twin(1234)).process(twin(1235)));
    assert_ne!(session.status, Status::Running);
}

/// Below the first namespace: its first process started at tick 5000, in minute 20; the machine in minute 0.
fn inside() -> Seat {
    Seat {
        sees_all: false,
        born: 5000,
        born_at: Some(minute(20)),
        booted_at: Some(minute(0)),
        last_pid: Some(300),
    }
}

#[test]
fn what_is_not_to_be_seen_from_within_a_namespace_may_be_outside() {
    let claude = |pid, start, seat: Seat| {
        let home = Home::noting(pid, start);
        let first = ScriptedProcess::new(1, &["sh"]).start(5000);
        let session = home.session(&ClaudeCode, Scripted::new().process(first).seat(seat));
        (session.status, session.status_detail.unwrap_or_default())
    };
    // Seen from everywhere, absence is proof.
    assert_eq!(claude(42, 42, Seat::ALL).0, Status::Stopped);
    let (status, why) = claude(42, 42, inside());
    assert_eq!(status, Status::Unknown, "it started before anything here");
    assert!(why.contains("pid namespace"), "{why}");
    let later = Seat { born_at: Some(minute(5)), ..inside() };
    assert_eq!(claude(40_000, 6000, later).0, Status::Unknown, "no such pid was given out here");
    assert_eq!(claude(42, 6000, later).0, Status::Stopped, "it may well have been one of ours");
    let rebooted = Seat { booted_at: Some(minute(60)), born_at: Some(minute(70)), ..inside() };
    assert_eq!(claude(42, 42, rebooted).0, Status::Stopped, "whoever wrote it went with the machine");
}

#[test]
fn pids_are_given_out_in_order() {
    let later = Seat { born_at: Some(minute(5)), ..inside() };
    let beside = |pid, start| {
        let home = Home::noting(42, 6000);
        let ours =
            [(1, 5000), (pid, start)].map(|(pid, start)| ScriptedProcess::new(pid, &["sh"]).start(start));
        let kernel = ours.into_iter().fold(Scripted::new(), Scripted::process);
        home.session(&ClaudeCode, kernel.seat(later)).status
    };
    assert_eq!(beside(30, 5500), Status::Stopped);
    assert_eq!(beside(60, 9000), Status::Stopped);
    assert_eq!(beside(30, 9000), Status::Unknown, "a lower pid was given out later");
    assert_eq!(beside(60, 5500), Status::Unknown, "a higher pid was given out before");
}

#[test]
fn a_turn_without_a_note_that_is_older_than_the_namespace_is_in_doubt() {
    let home = Home::noting(42, 42);
    fs::remove_file(home.path().join(".claude/sessions/42.json")).unwrap();
    let asked = |seat| home.session(&ClaudeCode, Scripted::new().seat(seat)).status;
    assert_eq!(asked(Seat::ALL), Status::Stopped);
    assert_eq!(asked(inside()), Status::Unknown);
    assert_eq!(asked(Seat { born_at: Some(minute(5)), ..inside() }), Status::Stopped);
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
    let inside = Scripted::new().seat(inside());
    assert_eq!(home.session(&Qwen, inside).status, Status::Unknown);
}
