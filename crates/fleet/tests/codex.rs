//! Codex, read on disk and in a scripted kernel: which process owns which thread, and which verdict follows (N1, N2,
//! N4, N7, N9).
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_adapters::Root;
use agentctl_adapters::agents::codex::Codex;
use agentctl_fleet::act::asker::Asker;
use agentctl_fleet::{Caller, Fleet, Purpose, Query, Selector, Since, Source, StopOptions, Wanted};
use agentctl_model::{Environ, ErrorKind, HeldLock, Outcome, PendingKind, Relation, Session, Status, Survey};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use tungstenite::Message;

const ONE: &str = "01a1de02-0000-7000-8000-000000000001";
const TWO: &str = "01a1de02-0000-7000-8000-000000000002";
const TURN: &str = "01a1de02-0000-7000-8000-0000000000aa";
const NATIVE: &str = "/opt/codex/bin/codex";

/// A time of the recorded day, by minutes and seconds after seven o'clock.
fn at(clock: &str) -> Timestamp {
    format!("2026-11-15T07:{clock}Z").parse().unwrap()
}

fn record(clock: &str, kind: &str, payload: &str) -> String {
    format!(r#"{{"timestamp":"2026-11-15T07:{clock}.000Z","ordinal":1,"type":"{kind}","payload":{payload}}}"#)
        + "\n"
}

/// A thread that began at 07:00:00 in `/w`, with one turn open since 07:00:01 and its last record at 07:00:05.
fn open_turn(id: &str) -> String {
    [
        record("00:00", "session_meta", &format!(r#"{{"id":"{id}","session_id":"{id}","cwd":"/w","timestamp":"2026-11-15T07:00:00Z"}}"#)),
        record("00:01", "event_msg", &format!(r#"{{"type":"task_started","turn_id":"{TURN}"}}"#)),
        record("00:02", "turn_context", &format!(r#"{{"turn_id":"{TURN}","cwd":"/w","model":"m"}}"#)),
        record("00:03", "event_msg", r#"{"type":"user_message","message":"do it"}"#),
        record(
            "00:05",
            "response_item",
            r#"{"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"make\"}","call_id":"c"}"#,
        ),
    ]
    .concat()
}

fn finished(id: &str) -> String {
    open_turn(id)
        + &record("00:09", "event_msg", &format!(r#"{{"type":"task_complete","turn_id":"{TURN}"}}"#))
}

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap() };
        for folder in ["sessions/2026/11/15", "archived_sessions", "thread-writer-locks"] {
            fs::create_dir_all(home.root().join(folder)).unwrap();
        }
        home
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(".codex")
    }

    fn rollout(&self, id: &str, text: &str) -> PathBuf {
        let path = self.root().join(format!("sessions/2026/11/15/rollout-2026-11-15T07-00-00-{id}.jsonl"));
        fs::write(&path, text).unwrap();
        path
    }

    /// A lock file that was taken at this time; only the kernel says who holds it.
    fn lock(&self, id: &str, pid: u32, taken: &str) -> HeldLock {
        let path = self.root().join(format!("thread-writer-locks/{id}.lock"));
        let file = File::create(&path).unwrap();
        file.set_modified(at(taken).into()).unwrap();
        let metadata = file.metadata().unwrap();
        HeldLock { pid, device: metadata.dev(), inode: metadata.ino() }
    }

    /// A process with this home, started at this time.
    fn process(&self, pid: u32, argv: &[&str], started: &str) -> ScriptedProcess {
        let home = self.folder.path().canonicalize().unwrap();
        ScriptedProcess::new(pid, argv)
            .variable("HOME", home.to_str().unwrap())
            .cwd("/w")
            .started_at(at(started))
    }

    fn exec(&self, pid: u32) -> ScriptedProcess {
        self.process(pid, &[NATIVE, "exec", "--json", "do it"], "00:00")
    }

    fn fleet(&self, kernel: Scripted) -> Fleet {
        fleet_at(&self.root(), kernel)
    }

    fn all(&self, kernel: Scripted) -> Survey {
        self.fleet(kernel).survey(&everything())
    }
}

fn fleet_at(root: &Path, kernel: Scripted) -> Fleet {
    let source = Source { adapter: &Codex, root: Root::at(root), timeout: Duration::from_secs(20) };
    Fleet::new(vec![source], Arc::new(kernel))
}

fn everything() -> Query {
    Query { subagents: true, ..Query::new(Wanted::All { since: Since::Ever }) }
}

fn live() -> Query {
    Query { subagents: true, ..Query::new(Wanted::Live) }
}

fn holds(kernel: Scripted, lock: HeldLock) -> Scripted {
    kernel.lock(lock.pid, lock.device, lock.inode)
}

fn session<'s>(survey: &'s Survey, id: &str) -> &'s Session {
    let mut rows = survey.sessions.iter().filter(|surveyed| surveyed.key.id == id);
    let row = rows.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert!(rows.next().is_none(), "{id} is listed twice");
    &row.session
}

fn verdict(survey: &Survey, id: &str) -> (Status, Option<Outcome>, Option<u32>) {
    let session = session(survey, id);
    (session.status, session.outcome, session.pid)
}

#[test]
fn two_threads_in_one_folder_are_told_apart_by_their_locks() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    home.rollout(TWO, &open_turn(TWO));
    home.lock(ONE, 0, "00:00");
    let kernel = holds(Scripted::new().process(home.exec(10)), home.lock(TWO, 10, "00:00"));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, TWO), (Status::Running, None, Some(10)));
    assert_eq!(session(&survey, TWO).status_detail.as_deref(), Some("exec_command: make"));
    assert_eq!(
        verdict(&survey, ONE),
        (Status::Stopped, Some(Outcome::Died), None),
        "a lock file is no sign of life"
    );
    assert!(survey.strays.is_empty());
}

#[test]
fn a_killed_wrapper_does_not_hide_the_agent_and_a_living_one_is_no_second_agent() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    let orphan = holds(Scripted::new().process(home.exec(11)), home.lock(ONE, 11, "00:00"));
    assert_eq!(verdict(&home.all(orphan), ONE), (Status::Running, None, Some(11)));

    let wrapper = home.process(10, &["node", "/usr/bin/codex", "exec", "do it"], "00:00");
    let both = Scripted::new().process(wrapper.clone()).process(home.exec(11).parent(10));
    let survey = home.all(holds(both, home.lock(ONE, 11, "00:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Running, None, Some(11)));
    assert_eq!((session(&survey, ONE).processes.len(), survey.strays.len()), (1, 0));

    // The agent itself was killed. The wrapper, which has not noticed yet, keeps nothing alive.
    let survey = home.all(Scripted::new().process(wrapper));
    assert_eq!(verdict(&survey, ONE), (Status::Stopped, Some(Outcome::Died), None));
    assert!(survey.strays.is_empty());
}

#[test]
fn a_reused_pid_is_nobody() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    home.lock(ONE, 10, "00:00");
    let other = Scripted::new().process(home.process(10, &[NATIVE, "exec", "another"], "30:00"));
    assert_eq!(verdict(&home.all(other), ONE), (Status::Stopped, Some(Outcome::Died), None));
}

#[test]
fn killed_mid_turn_and_merely_reopened_is_idle_and_died() {
    let home = Home::new();
    // Opening a thread writes its settings: the record is newer than the process, but no work was done.
    let reopened = open_turn(ONE) + &record("20:01", "event_msg", r#"{"type":"thread_settings_applied"}"#);
    home.rollout(ONE, &reopened);
    let terminal = home.process(10, &[NATIVE, "resume", "--no-daemon", ONE], "20:00");
    let survey = home.all(holds(Scripted::new().process(terminal), home.lock(ONE, 10, "20:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Idle, Some(Outcome::Died), Some(10)));

    // The same in a server that is older than the turn: what counts is when it took the thread.
    let server = home.process(10, &[NATIVE, "app-server"], "00:00");
    let survey = home.all(holds(Scripted::new().process(server), home.lock(ONE, 10, "20:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Idle, Some(Outcome::Died), Some(10)));

    // A run that resumes the thread has not begun its turn yet, but will.
    let run = home.process(10, &[NATIVE, "exec", "resume", ONE, "go on"], "20:00");
    let survey = home.all(holds(Scripted::new().process(run), home.lock(ONE, 10, "20:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Running, None, Some(10)));
}

/// The lock of processes that take and clear the other locks.
fn coordination(home: &Home, pid: u32) -> HeldLock {
    let file = File::create(home.root().join("thread-writer-locks/.coordination.lock")).unwrap();
    let metadata = file.metadata().unwrap();
    HeldLock { pid, device: metadata.dev(), inode: metadata.ino() }
}

/// A starting process takes the lock of every dead thread for a moment, to delete it.
#[test]
fn who_clears_away_the_lock_of_a_dead_thread_does_not_carry_it() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    let starting = || Scripted::new().process(home.process(10, &[NATIVE, "exec", "--json", "hi"], "20:00"));
    let died = (Status::Stopped, Some(Outcome::Died), None);
    for question in [everything(), live(), Query::new(Wanted::Ids(vec![ONE.to_owned()]))] {
        // In the next snapshot it has released the lock, or has continued with its own thread.
        let clearing = holds(holds(starting(), coordination(&home, 10)), home.lock(ONE, 10, "00:00"));
        let survey = home.fleet(clearing.then(starting())).survey(&question);
        let seen: Vec<_> = survey.sessions.iter().map(|seen| seen.session.status).collect();
        assert!(seen.iter().all(|status| *status == Status::Stopped), "{question:?}: {seen:?}");
        if question.wanted != Wanted::Live {
            assert_eq!(verdict(&survey, ONE), died);
        }
    }
    // Even if it is stopped in the middle of this, it owns nothing.
    let halted = holds(holds(starting(), coordination(&home, 10)), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(halted), ONE), died);
    // If locks cannot be seen, its open files say the same.
    let folder = home.root().join("thread-writer-locks");
    let open = |name: &str| folder.join(format!("{name}.lock"));
    let process = home.process(10, &[NATIVE, "exec", "fork", ONE, "hi"], "20:00");
    let process = process.open(open(".coordination"), true).open(open(ONE), true);
    let unlisted = Scripted::new().without_locks("no such list here").process(process);
    assert_eq!(verdict(&home.all(unlisted), ONE), died);
    // The other half of the lock table was read before it took its first lock; the next snapshot shows it.
    let process = || home.process(10, &[NATIVE, "exec", "--json", "hi"], "20:00").open(open(ONE), true);
    let torn = || holds(Scripted::new().process(process()), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(torn().then(starting())), ONE), died);
    // If it does not, nothing is guessed.
    let survey = home.all(torn());
    assert_eq!(verdict(&survey, ONE), (Status::Unknown, None, None));
    let why = session(&survey, ONE).status_detail.clone().unwrap();
    assert!(why.contains("pid 10") && why.contains("older than the process"), "{why}");
    // The lock that the process then creates for itself may get the inode of a deleted one.
    let reused = holds(starting(), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(reused), ONE), died);
    // A dead thread that never had a turn leaves no session behind.
    let kernel = holds(holds(starting(), coordination(&home, 10)), home.lock(TWO, 10, "00:00"));
    let survey = home.all(kernel);
    assert!(survey.sessions.iter().all(|seen| seen.key.id != TWO), "{:?}", survey.sessions);
}

#[test]
fn who_takes_over_the_lock_of_a_dead_thread_carries_it() {
    let home = Home::new();
    let path = home.rollout(ONE, &finished(ONE));
    let server = || home.process(10, &[NATIVE, "app-server"], "20:00");
    // The file that the dead owner created stays; the rollout is open as long as the thread is loaded.
    let loaded = holds(Scripted::new().process(server().open(&path, true)), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(loaded), ONE), (Status::Idle, Some(Outcome::Completed), Some(10)));
    // While it takes another thread, it still owns this one.
    let busy = holds(Scripted::new().process(server().open(&path, true)), coordination(&home, 10));
    let survey = home.all(holds(busy, home.lock(ONE, 10, "00:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Idle, Some(Outcome::Completed), Some(10)));
    // It also owns a thread that has had no turn yet and has nothing but the lock that it created.
    let empty = || holds(Scripted::new().process(server()), home.lock(TWO, 10, "30:00"));
    let kernel = holds(empty(), coordination(&home, 10)).then(empty());
    assert_eq!(verdict(&home.all(kernel), TWO), (Status::Idle, None, Some(10)));
    // A process that was told to resume the thread is about to open it.
    let told = home.process(10, &[NATIVE, "exec", "resume", ONE, "go on"], "20:00");
    let kernel =
        holds(holds(Scripted::new().process(told), coordination(&home, 10)), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(kernel), ONE), (Status::Running, None, Some(10)));
    // If its open files cannot be seen, only the lock counts.
    let mut hidden = server();
    hidden.process.open_files = agentctl_model::Observed::Unobservable("not shown".into());
    let kernel = holds(Scripted::new().process(hidden), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(kernel), ONE), (Status::Idle, Some(Outcome::Completed), Some(10)));
}

#[test]
fn a_server_carries_threads_and_is_none_itself() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    let child = finished(TWO).replacen(
        &format!(r#""session_id":"{TWO}""#),
        &format!(r#""session_id":"{ONE}","parent_thread_id":"{ONE}","source":{{"subagent":"x"}}"#),
        1,
    );
    home.rollout(TWO, &child);
    let kernel = Scripted::new()
        .process(home.process(10, &[NATIVE, "app-server", "--managed-daemon"], "00:00").cwd("/elsewhere"))
        .process(home.process(11, &[NATIVE, "app-server", "daemon", "pid-update-loop"], "00:00"))
        .process(home.process(12, &[NATIVE], "00:00"))
        .process(home.process(13, &["codex-linux-sandbox", "--", "make"], "00:00").comm("codex").parent(10));
    let survey = home.all(holds(holds(kernel, home.lock(ONE, 10, "00:00")), home.lock(TWO, 10, "00:00")));
    assert_eq!(verdict(&survey, ONE), (Status::Running, None, Some(10)));
    assert_eq!(verdict(&survey, TWO), (Status::Idle, Some(Outcome::Completed), Some(10)));
    let child = session(&survey, TWO);
    assert_eq!((child.relation, child.parent_id.as_deref()), (Some(Relation::Subagent), Some(ONE)));
    assert_eq!(session(&survey, ONE).processes[0].role.as_str(), "server");
    assert_eq!(session(&survey, ONE).cwd.as_deref(), Some("/w"), "not where the server was started");
    assert!(survey.strays.is_empty(), "server, its keeper, its client and a sandbox: {:?}", survey.strays);
    assert_eq!(survey.sessions.len(), 2);
}

/// The look-up is older than the signal, so it cannot know which threads the process has loaded since.
#[test]
fn a_process_that_has_loaded_another_thread_since_the_look_up_is_not_ended() {
    // No real process has this pid.
    const PID: u32 = 5_000_000;
    let home = Home::new();
    home.rollout(ONE, &finished(ONE));
    let one = || {
        let server = home.process(PID, &[NATIVE, "app-server"], "00:00");
        holds(Scripted::new().process(server), home.lock(ONE, PID, "00:00"))
    };
    let selector = Selector { text: ONE.to_owned(), ..Selector::default() };
    let (found, _) = home.fleet(one()).find(&selector, Purpose::Act).unwrap();
    home.rollout(TWO, &open_turn(TWO));
    let both = holds(one(), home.lock(TWO, PID, "00:00"));
    let caller = Caller {
        environ: Environ::default(),
        programs: BTreeMap::new(),
        home: home.folder.path().join("agentctl"),
        agentctl: "/none".into(),
    };
    let timeout = StopOptions { grace: Duration::ZERO, force: false, asker: Asker::default() };
    let refused = home.fleet(both).stop(&found, &caller, timeout).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert!(refused.message.contains(&format!("also runs session {TWO}")), "{refused:?}");
}

#[test]
fn versions_without_locks_are_told_by_the_rollout_they_hold_open() {
    let home = Home::new();
    fs::remove_dir(home.root().join("thread-writer-locks")).unwrap();
    let path = home.rollout(ONE, &open_turn(ONE));
    home.rollout(TWO, &open_turn(TWO));
    let kernel = || Scripted::new().process(home.exec(10).open(&path, true));
    for question in [everything(), live()] {
        let survey = home.fleet(kernel()).survey(&question);
        assert_eq!(verdict(&survey, ONE), (Status::Running, None, Some(10)));
        assert!(survey.strays.is_empty());
    }
    assert_eq!(verdict(&home.all(kernel()), TWO), (Status::Stopped, Some(Outcome::Died), None));
    // The kernel reports files by their real path; the user may name the root by another one.
    let link = home.folder.path().join("link");
    std::os::unix::fs::symlink(home.root(), &link).unwrap();
    let survey = fleet_at(&link, kernel()).survey(&live());
    assert_eq!(verdict(&survey, ONE), (Status::Running, None, Some(10)));
}

#[test]
fn a_copy_of_the_home_is_not_carried_by_the_original_process() {
    let (home, copy) = (Home::new(), Home::new());
    let path = home.rollout(ONE, &open_turn(ONE));
    copy.rollout(ONE, &open_turn(ONE));
    copy.lock(ONE, 0, "00:00");
    let kernel =
        || holds(Scripted::new().process(home.exec(10).open(&path, true)), home.lock(ONE, 10, "00:00"));
    assert_eq!(verdict(&home.all(kernel()), ONE).0, Status::Running);
    let survey = copy.all(kernel());
    assert_eq!(verdict(&survey, ONE).0, Status::Stopped);
    assert!(survey.strays.is_empty(), "it belongs to another root");
}

#[test]
fn a_thread_before_its_first_turn_has_only_its_lock() {
    let home = Home::new();
    let terminal = home.process(10, &[NATIVE, "--no-daemon"], "20:00");
    let run = home.process(11, &[NATIVE, "exec", "hi"], "20:00");
    let kernel = || {
        let both = Scripted::new().process(terminal.clone()).process(run.clone());
        holds(holds(both, home.lock(ONE, 10, "20:00")), home.lock(TWO, 11, "20:00"))
    };
    // The run's file exists already but has no record yet.
    home.rollout(TWO, "");
    for question in [everything(), live()] {
        let survey = home.fleet(kernel()).survey(&question);
        assert_eq!(verdict(&survey, ONE), (Status::Idle, None, Some(10)));
        assert_eq!(session(&survey, ONE).cwd.as_deref(), Some("/w"));
        assert_eq!(verdict(&survey, TWO), (Status::Running, None, Some(11)));
        assert_eq!(survey.sources[0].coverage.as_str(), "complete");
        let row = survey.sessions.iter().find(|surveyed| surveyed.key.id == ONE).unwrap();
        assert!(home.fleet(kernel()).read(row, 5).unwrap().is_empty(), "nothing was said yet");
    }
}

#[test]
fn a_missing_witness_makes_unknown_and_never_stopped() {
    let home = Home::new();
    let path = home.rollout(ONE, &open_turn(ONE));
    let lock = home.lock(ONE, 10, "00:00");
    let lock_path = home.root().join(format!("thread-writer-locks/{ONE}.lock"));
    let no_locks = || Scripted::new().without_locks("no such list here");
    let seen_by = |process: ScriptedProcess| verdict(&home.all(no_locks().process(process)), ONE).0;
    assert_eq!(seen_by(home.exec(10).open(&path, true)), Status::Running, "the open rollout tells as well");
    assert_eq!(seen_by(home.exec(10).open(&lock_path, true)), Status::Running, "and so does the open lock");
    assert_eq!(seen_by(home.exec(10)), Status::Stopped, "all was seen, and nothing is held");

    let hidden = || {
        let mut process = home.exec(10);
        process.process.open_files = agentctl_model::Observed::Unobservable("not shown".into());
        process
    };
    for question in [everything(), live()] {
        let survey = home.fleet(no_locks().process(hidden())).survey(&question);
        assert_eq!(verdict(&survey, ONE), (Status::Unknown, None, None));
    }
    let survey = home.all(no_locks().process(home.exec(10).closed("not permitted")));
    assert_eq!(verdict(&survey, ONE).0, Status::Unknown, "it may be ours");
    // If the locks can be seen, the same process hides nothing.
    let survey = home.all(holds(Scripted::new().process(hidden()), lock));
    assert_eq!(verdict(&survey, ONE).0, Status::Running);
    let survey = home.all(Scripted::new().process(home.exec(10).closed("not permitted")));
    assert_eq!(verdict(&survey, ONE).0, Status::Stopped, "another user's agent is not ours");
}

#[test]
fn an_ephemeral_run_is_a_stray() {
    let home = Home::new();
    let survey =
        home.all(Scripted::new().process(home.process(10, &[NATIVE, "exec", "--ephemeral", "hi"], "00:00")));
    assert_eq!(survey.strays.iter().map(|(_, stray)| stray.process.pid).collect::<Vec<_>>(), [10]);
    assert!(survey.sessions.is_empty());
}

#[test]
fn the_live_list_reads_only_what_is_carried() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    home.rollout(TWO, "no record at all");
    let kernel = || holds(Scripted::new().process(home.exec(10)), home.lock(ONE, 10, "00:00"));
    let survey = home.fleet(kernel()).survey(&live());
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sessions.len()), ("complete", 1));
    let all = home.all(kernel());
    assert_eq!(
        (all.sources[0].coverage.as_str(), all.sessions.len()),
        ("partial", 1),
        "the damaged file is named"
    );
    assert_eq!(verdict(&all, ONE), verdict(&survey, ONE));
    let one = home.fleet(kernel()).survey(&Query::new(Wanted::Ids(vec![ONE[..13].to_owned()])));
    assert_eq!(verdict(&one, ONE), verdict(&survey, ONE), "list and status agree");
}

/// Its error, or its last message, is recorded before it exits.
#[test]
fn a_run_that_recorded_its_end_runs_until_its_process_ends() {
    let home = Home::new();
    let error = r#"{"message":"500","codex_error_info":"other"}"#;
    let failed = format!(r#"{{"type":"task_complete","turn_id":"{TURN}","error":{error}}}"#);
    for (text, outcome) in [
        (finished(ONE), Outcome::Completed),
        (open_turn(ONE) + &record("00:09", "event_msg", &failed), Outcome::Failed),
    ] {
        home.rollout(ONE, &text);
        let kernel = || holds(Scripted::new().process(home.exec(10)), home.lock(ONE, 10, "00:00"));
        assert_eq!(verdict(&home.all(kernel()), ONE), (Status::Running, None, Some(10)));
        assert_eq!(verdict(&home.all(Scripted::new()), ONE), (Status::Stopped, Some(outcome), None));
    }
}

/// A process that only manages others, or only sandboxes a command, owns nothing, whatever it holds.
#[test]
fn helpers_that_hold_a_lock_or_a_file_are_no_sessions() {
    let home = Home::new();
    let path = home.rollout(ONE, &finished(ONE));
    for argv in
        [&[NATIVE, "archive", ONE][..], &[NATIVE, "migrate-rollouts"], &["/opt/codex/codex-linux-sandbox"]]
    {
        let helper = home.process(10, argv, "00:00").open(&path, true);
        let kernel = holds(Scripted::new().process(helper), home.lock(ONE, 10, "00:00"));
        let survey = home.all(kernel);
        assert_eq!(verdict(&survey, ONE), (Status::Stopped, Some(Outcome::Completed), None), "{argv:?}");
        assert!(survey.strays.is_empty(), "{argv:?}");
    }
}

#[test]
fn a_live_thread_is_listed_however_long_it_was_silent() {
    let home = Home::new();
    let path = home.rollout(ONE, &finished(ONE));
    File::options().append(true).open(&path).unwrap().set_modified(at("00:09").into()).unwrap();
    let terminal = home.process(10, &[NATIVE, "--no-daemon"], "00:00");
    let kernel = holds(Scripted::new().process(terminal), home.lock(ONE, 10, "00:00"));
    let survey = home.fleet(kernel).survey(&Query::new(Wanted::All { since: Since::Moment(at("50:00")) }));
    assert_eq!(verdict(&survey, ONE), (Status::Idle, Some(Outcome::Completed), Some(10)));
    assert_eq!(session(&survey, ONE).prompt.as_deref(), Some("do it"));
}

#[test]
fn one_id_is_one_row_even_while_its_file_is_moved() {
    let home = Home::new();
    let path = home.rollout(ONE, &finished(ONE));
    fs::copy(&path, home.root().join("archived_sessions").join(path.file_name().unwrap())).unwrap();
    let survey = home.all(Scripted::new());
    assert_eq!(verdict(&survey, ONE), (Status::Stopped, Some(Outcome::Completed), None));
}

#[test]
fn a_root_that_cannot_be_read_gives_no_verdict() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    let elsewhere = home.folder.path().join("none");
    assert_eq!(
        fleet_at(&elsewhere, Scripted::new()).survey(&everything()).sources[0].coverage.as_str(),
        "not-installed"
    );
    fs::write(&elsewhere, "a file").unwrap();
    let survey = fleet_at(&elsewhere, Scripted::new()).survey(&everything());
    assert_eq!((survey.sources[0].coverage.as_str(), survey.sources[0].sessions), ("failed", None));
    fs::rename(home.root().join("sessions"), home.root().join("away")).unwrap();
    fs::write(home.root().join("sessions"), "a file").unwrap();
    assert_eq!(home.all(Scripted::new()).sources[0].coverage.as_str(), "partial");
}

/// Answers one client as an app-server does, with `status` for every thread.
fn serve(listener: UnixListener, status: &'static str) {
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let mut client = tungstenite::accept(client).unwrap();
        while let Ok(Message::Text(text)) = client.read() {
            let Some(number) = text.strip_prefix(r#"{"id":"#).and_then(|rest| rest.split(',').next()) else {
                continue;
            };
            let answer = format!(
                r#"{{"id":{number},"result":{{"thread":{{"id":"{ONE}","status":{status}}},"pad":"{}"}}}}"#,
                "p".repeat(200)
            );
            client.send(Message::text(answer)).unwrap();
        }
    });
}

#[test]
fn a_server_that_answers_says_what_the_rollout_cannot() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    // A survey waits for a server only for a moment, in which a busy machine may not get round to it: then another one asks.
    let ask = |status: &'static str, expected: Status| {
        agentctl_testkit::until_seen(Duration::from_mins(1), status, || {
            let socket = tempfile::tempdir().unwrap();
            let path = socket.path().join("s");
            serve(UnixListener::bind(&path).unwrap(), status);
            let listen = format!("unix://{}", path.display());
            let server = home.process(10, &[NATIVE, "app-server", "--listen", &listen], "00:00");
            let survey = home.all(holds(Scripted::new().process(server), home.lock(ONE, 10, "00:00")));
            let seen = verdict(&survey, ONE);
            if seen.0 == expected { Ok(survey) } else { Err(format!("{seen:?}")) }
        })
    };
    let waiting = ask(r#"{"type":"active","activeFlags":["waitingOnApproval"]}"#, Status::Waiting);
    assert_eq!(verdict(&waiting, ONE), (Status::Waiting, None, Some(10)));
    let pending = &session(&waiting, ONE).pending[0];
    assert_eq!(
        (pending.kind, pending.summary.as_deref()),
        (PendingKind::Approval, Some("exec_command: make"))
    );
    ask(r#"{"type":"active","activeFlags":[]}"#, Status::Running);
    ask(r#"{"type":"idle"}"#, Status::Idle);
    // Its file still says so.
    ask(r#"{"type":"notLoaded"}"#, Status::Running);
}

#[test]
fn a_server_that_hangs_changes_nothing_and_is_not_waited_for() {
    let home = Home::new();
    home.rollout(ONE, &open_turn(ONE));
    let path = home.folder.path().join("s");
    let _silent = UnixListener::bind(&path).unwrap();
    let listen = format!("unix://{}", path.display());
    let server = home.process(10, &[NATIVE, "app-server", "--listen", &listen], "00:00");
    let began = Instant::now();
    let survey = home.all(holds(Scripted::new().process(server), home.lock(ONE, 10, "00:00")));
    assert_eq!(verdict(&survey, ONE).0, Status::Running);
    assert!(began.elapsed() < Duration::from_secs(10), "the silent server was waited for");
}
