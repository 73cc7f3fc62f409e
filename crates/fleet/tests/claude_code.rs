//! Claude Code joined with a scripted kernel: contract rows N1, N2, N7, N9 and the traps of its registry.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_fleet::{Fleet, Purpose, Query, Selector, Since, Source, Wanted, session_holders};
use agentctl_model::{Environ, Outcome, PendingKind, Session, Status, Survey};
use agentctl_process::Kernel;
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use tempfile::TempDir;

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

/// A home with Claude Code's storage in it.
struct Home {
    folder: TempDir,
}

/// Minutes after a fixed moment.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

fn prompt(id: &str, at: i64) -> String {
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":"do it"}},"timestamp":"{}","cwd":"/w","sessionId":"{id}","gitBranch":"main"}}"#,
        minute(at)
    )
}

fn reply(id: &str, at: i64, stop: &str) -> String {
    format!(
        r#"{{"message":{{"id":"m{at}","model":"claude-x","content":[{{"type":"text","text":"words"}}],"stop_reason":"{stop}","usage":{{"input_tokens":1,"output_tokens":2}}}},"type":"assistant","timestamp":"{}","cwd":"/w","sessionId":"{id}"}}"#,
        minute(at)
    )
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".claude/sessions")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn transcript(&self, id: &str, lines: &[String]) -> &Self {
        let project = self.path().join(".claude/projects/-w");
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join(format!("{id}.jsonl")), lines.join("\n") + "\n").unwrap();
        self
    }

    fn registry(&self, pid: u32, start: u64, id: &str, more: &str) -> &Self {
        let text = format!(
            r#"{{"pid":{pid},"sessionId":"{id}","cwd":"/w","procStart":"{start}","entrypoint":"cli","name":"w-1","nameSource":"derived","statusUpdatedAt":{}{more}}}"#,
            minute(30).as_millisecond()
        );
        fs::write(self.path().join(format!(".claude/sessions/{pid}.json")), text).unwrap();
        self
    }

    /// A Claude Code process of this home, started at minute 10.
    fn claude(&self, pid: u32, args: &[&str]) -> ScriptedProcess {
        let line: Vec<&str> = std::iter::once("claude").chain(args.iter().copied()).collect();
        ScriptedProcess::new(pid, &line)
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(10))
    }

    fn fleet(&self, kernel: impl Kernel + 'static) -> Fleet {
        let environ = Environ::from_iter([("HOME", self.path())]);
        let root = ClaudeCode.root(&environ).unwrap();
        let source = Source { adapter: &ClaudeCode, root, timeout: Duration::from_secs(20) };
        Fleet::new(vec![source], Arc::new(kernel))
    }

    fn all(&self, kernel: Scripted) -> Survey {
        self.all_seen_by(kernel)
    }

    fn all_seen_by(&self, kernel: impl Kernel + 'static) -> Survey {
        self.fleet(kernel)
            .survey(&Query { subagents: true, ..Query::new(Wanted::All { since: Since::Ever }) })
    }
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
fn the_registry_speaks_for_a_live_process() {
    for (status, expected) in [
        (r#","status":"busy""#, Status::Running),
        (r#","status":"idle""#, Status::Idle),
        (r#","status":"waiting","waitingFor":"permission prompt""#, Status::Waiting),
    ] {
        let home = Home::new();
        home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]).registry(42, 42, A, status);
        let survey = home.all(Scripted::new().process(home.claude(42, &[])));
        assert_eq!(session(&survey, A).status, expected, "{status}");
        assert_eq!(session(&survey, A).pid, Some(42));
    }
}

#[test]
fn what_waits_for_approval_is_named_by_the_tool() {
    let home = Home::new();
    let call = reply(A, 12, "tool_use").replace(
        r#"{"type":"text","text":"words"}"#,
        r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"rm -rf build"}}"#,
    );
    home.transcript(A, &[prompt(A, 11), call]);
    home.registry(42, 42, A, r#","status":"waiting","waitingFor":"permission prompt""#);
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    let waiting = session(&survey, A);
    assert_eq!(waiting.pending.len(), 1);
    assert_eq!(waiting.pending[0].kind, PendingKind::Approval);
    assert_eq!(waiting.pending[0].summary.as_deref(), Some("Bash: rm -rf build"));
    assert_eq!(waiting.status_detail.as_deref(), Some("permission prompt"));
    assert_eq!(waiting.since, Some(minute(30)));
}

#[test]
fn a_stale_registry_file_and_a_reused_pid_are_nobody() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "tool_use")]).registry(42, 41, A, r#","status":"busy""#);
    assert_eq!(verdict(&home.all(Scripted::new()), A), (Status::Stopped, Some(Outcome::Died)));
    // The pid is alive but belongs to another process: first an editor, then another Claude Code.
    let editor = ScriptedProcess::new(42, &["vim"]).start(99);
    assert_eq!(
        verdict(&home.all(Scripted::new().process(editor)), A),
        (Status::Stopped, Some(Outcome::Died))
    );
    let other = home.claude(42, &["--session-id", B]).start(99);
    assert_eq!(verdict(&home.all(Scripted::new().process(other)), A).0, Status::Stopped);
}

#[test]
fn a_session_without_a_transcript_is_idle_at_its_empty_prompt_and_gone_with_its_process() {
    let home = Home::new();
    home.registry(42, 42, A, r#","status":"idle""#);
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    assert_eq!(verdict(&survey, A), (Status::Idle, None));
    assert_eq!(session(&survey, A).name, None, "a derived name is no title");
    assert!(home.all(Scripted::new()).sessions.is_empty(), "a stale file alone is no session");
}

#[test]
fn clear_moves_the_process_to_a_new_session_whatever_its_argv_says() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    home.transcript(B, &[prompt(B, 20)]).registry(42, 42, B, r#","status":"busy""#);
    let survey = home.all(Scripted::new().process(home.claude(42, &["--session-id", A])));
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    assert_eq!(verdict(&survey, B), (Status::Running, None));
}

#[test]
fn two_processes_on_one_session_are_one_row_with_two_processes() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    home.registry(42, 42, A, r#","status":"idle""#).registry(43, 43, A, r#","status":"busy""#);
    let kernel = Scripted::new().process(home.claude(42, &[])).process(home.claude(43, &["--resume", A]));
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A).0, Status::Running, "one of them works");
    assert_eq!(session(&survey, A).processes.len(), 2);
}

#[test]
fn killed_in_mid_turn_and_merely_opened_again_is_idle_and_died() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 1), reply(A, 2, "tool_use")]).registry(42, 42, A, r#","status":"idle""#);
    let survey = home.all(Scripted::new().process(home.claude(42, &["--resume", A])));
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Died)));
}

#[test]
fn the_registry_vanishes_before_the_process_does() {
    let home = Home::new();
    // The tie is the id in its argv.
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    let survey = home.all(Scripted::new().process(home.claude(42, &["--session-id", A])));
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Completed)));
    // The tie is that it is the only candidate.
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Completed)));
    assert!(survey.strays.is_empty());
}

#[test]
fn several_candidates_are_unknown_and_older_sessions_stay_stopped() {
    const OLD: &str = "cccccccc-0000-4000-8000-00000000000c";
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11)]).transcript(B, &[prompt(B, 12)]).transcript(OLD, &[prompt(OLD, 1)]);
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    assert_eq!(verdict(&survey, A), (Status::Unknown, None));
    assert_eq!(verdict(&survey, B), (Status::Unknown, None));
    assert!(session(&survey, A).status_detail.is_some());
    assert_eq!(verdict(&survey, OLD), (Status::Stopped, Some(Outcome::Died)));
}

#[test]
fn a_headless_run_that_wrote_nothing_yet_runs() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 1), reply(A, 2, "end_turn")]);
    let survey = home.all(Scripted::new().process(home.claude(42, &["-p", "--resume", A])));
    assert_eq!(verdict(&survey, A), (Status::Running, None));
}

#[test]
fn helpers_and_other_peoples_agents_are_neither_sessions_nor_strays() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    let strange = ScriptedProcess::new(50, &["claude"]).cwd("/w").variable("HOME", "/home/somebody");
    let kernel = Scripted::new()
        .process(home.claude(42, &["daemon", "run"]))
        .process(
            ScriptedProcess::new(43, &["claude bg-spare"])
                .cwd("/w")
                .variable("HOME", home.path().to_str().unwrap()),
        )
        .process(home.claude(44, &["--bg-pty-host", "--session-id", A]))
        .process(strange);
    let survey = home.all(kernel);
    assert_eq!(verdict(&survey, A), (Status::Stopped, Some(Outcome::Completed)));
    assert!(survey.strays.is_empty());
}

/// A spare has a note like a session, but waits for a job that it does not have yet.
#[test]
fn a_spare_is_no_session_and_no_candidate_and_the_worker_that_it_becomes_is_one() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    let titled = || {
        ScriptedProcess::new(42, &["claude bg-spare", "--bg-spare", "/s"])
            .cwd("/w")
            .variable("HOME", home.path().to_str().unwrap())
            .started_at(minute(10))
    };
    home.registry(42, 42, B, r#","kind":"bg","jobId":"bbbbbbbb","status":"idle","spare":true"#);
    for process in [titled(), home.claude(42, &["--session-id", B]), home.claude(42, &[])] {
        let fleet = home.fleet(Scripted::new().process(process));
        for wanted in [
            Wanted::Live,
            Wanted::All { since: Since::Moment(minute(0)) },
            Wanted::All { since: Since::Ever },
        ] {
            let survey = fleet.survey(&Query::new(wanted.clone()));
            let live: Vec<&str> = survey
                .sessions
                .iter()
                .filter(|one| one.session.is_live())
                .map(|one| one.key.id.as_str())
                .collect();
            assert_eq!((live, survey.strays.len()), (Vec::<&str>::new(), 0), "{wanted:?}");
        }
        let live = fleet.survey(&Query::new(Wanted::Live));
        assert!(session_holders(&live, Path::new("/w")).is_empty(), "a spare holds no folder");
    }
    // With a job it keeps its title, and its note says that it is no longer a spare.
    home.registry(42, 42, B, r#","kind":"bg","jobId":"bbbbbbbb","status":"busy""#);
    let survey = home.all(Scripted::new().process(titled()));
    assert_eq!(verdict(&survey, B), (Status::Running, None));
}

#[test]
fn a_headless_run_runs_until_it_ends_unless_it_takes_more_messages() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "end_turn")]);
    let noted = r#","status":"idle","entrypoint":"sdk-cli""#;
    let text = |more: &str| {
        format!(
            r#"{{"pid":42,"sessionId":"{A}","cwd":"/w","procStart":"42","statusUpdatedAt":{}{more}}}"#,
            minute(30).as_millisecond()
        )
    };
    fs::write(home.path().join(".claude/sessions/42.json"), text(noted)).unwrap();
    let survey = home.all(Scripted::new().process(home.claude(42, &["-p"])));
    assert_eq!(verdict(&survey, A), (Status::Running, None));
    let stream = home.claude(42, &["-p", "--input-format", "stream-json"]);
    let survey = home.all(Scripted::new().process(stream));
    assert_eq!(verdict(&survey, A), (Status::Idle, Some(Outcome::Completed)));
}

#[test]
fn a_process_that_belongs_to_no_session_is_counted() {
    let home = Home::new();
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    assert_eq!(survey.strays.len(), 1);
    assert!(survey.sessions.is_empty());
}

#[test]
fn a_subagent_at_work_is_carried_by_its_parent_and_a_finished_one_by_nobody() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "tool_use")]).registry(42, 42, A, r#","status":"busy""#);
    let folder = home.path().join(format!(".claude/projects/-w/{A}/subagents"));
    fs::create_dir_all(&folder).unwrap();
    let side = |line: String| line.replacen('{', r#"{"isSidechain":true,"#, 1);
    fs::write(folder.join("agent-a1.jsonl"), side(prompt(A, 13)) + "\n").unwrap();
    fs::write(
        folder.join("agent-a2.jsonl"),
        [side(prompt(A, 13)), side(reply(A, 14, "end_turn"))].join("\n"),
    )
    .unwrap();
    let survey = home.all(Scripted::new().process(home.claude(42, &[])));
    assert_eq!(verdict(&survey, "a1"), (Status::Running, None));
    assert_eq!(verdict(&survey, "a2"), (Status::Stopped, Some(Outcome::Completed)));
    assert_eq!(session(&survey, "a1").parent_id.as_deref(), Some(A));
    let plain = home.fleet(Scripted::new()).survey(&Query::new(Wanted::All { since: Since::Ever }));
    assert_eq!(plain.sessions.len(), 1, "sub-agents are not sessions of their own in a plain list");
}

#[test]
fn list_live_list_and_status_give_the_same_session() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11), reply(A, 12, "tool_use")]).registry(42, 42, A, r#","status":"busy""#);
    home.transcript(B, &[prompt(B, 1)]);
    let fleet = home.fleet(Scripted::new().process(home.claude(42, &[])));
    let live = fleet.survey(&Query::new(Wanted::Live));
    assert_eq!(live.sessions.len(), 1);
    let all = fleet.survey(&Query::new(Wanted::All { since: Since::Ever }));
    let (one, _) =
        fleet.find(&Selector { text: A[..8].into(), ..Selector::default() }, Purpose::Read).unwrap();
    for mut other in [session(&all, A).clone(), *one.session] {
        // Only status asks for complete usage, and the time of each reading is not part of the answer.
        other.tokens = None;
        let timeless = |session: &Session| {
            let mut session = session.clone();
            session.evidence.iter_mut().for_each(|evidence| evidence.at = None);
            session
        };
        assert_eq!(timeless(session(&live, A)), timeless(&other));
    }
}

#[test]
fn the_turn_that_ended_between_the_two_looks_is_read_again() {
    let home = Home::new();
    home.transcript(A, &[prompt(A, 11)]).registry(42, 42, A, r#","status":"busy""#);
    // The process finishes the turn and exits while the transcript is being read: the second scripted snapshot contains
    // no process, and by then the file has changed.
    let file = home.path().join(format!(".claude/projects/-w/{A}.jsonl"));
    let finished = [prompt(A, 11), reply(A, 12, "end_turn")].join("\n") + "\n";
    let kernel = Finishes::after(0, Scripted::new(), &file, &finished);
    assert_eq!(verdict(&home.all_seen_by(kernel), A), (Status::Stopped, Some(Outcome::Completed)));
}

#[test]
fn the_turn_that_ended_between_the_second_two_looks_is_read_a_third_time() {
    let home = Home::new();
    // Its note is already gone, so a second snapshot follows; before that one the session ends properly.
    home.transcript(A, &[prompt(A, 11)]);
    let file = home.path().join(format!(".claude/projects/-w/{A}.jsonl"));
    let finished = [prompt(A, 11), reply(A, 12, "end_turn")].join("\n") + "\n";
    let first = Scripted::new().process(home.claude(42, &["-p", "--session-id", A]));
    let kernel = Finishes::after(1, first, &file, &finished);
    assert_eq!(verdict(&home.all_seen_by(kernel), A), (Status::Stopped, Some(Outcome::Completed)));
}

/// A kernel that shows the scripted processes for some snapshots and none after that. The file is finished at the
/// moment of the first empty snapshot.
struct Finishes {
    file: std::path::PathBuf,
    text: String,
    looks: AtomicUsize,
    before: usize,
    inner: Scripted,
}

impl Finishes {
    fn after(before: usize, inner: Scripted, file: &Path, text: &str) -> Self {
        Self { file: file.to_owned(), text: text.to_owned(), looks: AtomicUsize::new(0), before, inner }
    }
}

impl Kernel for Finishes {
    fn witnesses(&self) -> agentctl_model::Witnesses {
        self.inner.witnesses()
    }
    fn heads(&self) -> agentctl_model::Observed<Vec<agentctl_model::ProcessHead>> {
        if self.looks.fetch_add(1, Ordering::Relaxed) < self.before {
            return self.inner.heads();
        }
        fs::write(&self.file, &self.text).unwrap();
        Scripted::new().heads()
    }
    fn inspect(
        &self,
        head: &agentctl_model::ProcessHead,
        want: agentctl_process::InspectRequest,
    ) -> Option<agentctl_model::Process> {
        self.inner.inspect(head, want)
    }
    fn locks(&self) -> agentctl_model::Observed<Vec<agentctl_model::HeldLock>> {
        self.inner.locks()
    }
    fn is_alive(&self, process: agentctl_model::ProcessRef) -> agentctl_model::Observed<bool> {
        self.inner.is_alive(process)
    }
    fn memory(&self, process: agentctl_model::ProcessRef) -> Option<u64> {
        self.inner.memory(process)
    }
}
