//! Forged notes, against the real kernel: whatever a file under an agent's folder claims, no process of
//! anybody else is ended.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::disallowed_methods, reason = "a test starts what it looks at")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use agentctl_testkit::{Background, TestHome, new_uuid, skip, until};

const TIMEOUT: Duration = Duration::from_mins(1);

fn home() -> TestHome {
    TestHome::with_agentctl(env!("CARGO_BIN_EXE_agentctl"))
}

/// A child of the test, ended with it.
struct Bystander(Child);

impl Bystander {
    fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `sleep` under another name, as it looks once it runs.
fn sleep_as(home: &TestHome, name: &str) -> Command {
    let mut command = home.command("bash");
    command.args(["-c", &format!("exec -a {name} sleep 1000")]).current_dir("/");
    command
}

fn wait_title(pid: u32, title: &str) {
    until(TIMEOUT, "the program to run", || {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.starts_with(title.as_bytes()))
            .then_some(())
    });
}

/// A session of Claude Code with an open turn, and a note that names this process.
fn claude_noting(home: &TestHome, pid: u32) -> String {
    let id = new_uuid();
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = line.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().to_owned();
    let record = format!(
        r#"{{"type":"user","message":{{"role":"user","content":"do it"}},"timestamp":"2026-11-15T10:00:00Z","cwd":"/w","sessionId":"{id}"}}"#
    );
    write(&home.path().join(format!(".claude/projects/-w/{id}.jsonl")), &(record + "\n"));
    let note = format!(
        r#"{{"pid":{pid},"sessionId":"{id}","cwd":"/w","procStart":"{start}","startedAt":1794725618359,"status":"busy"}}"#
    );
    write(&home.path().join(format!(".claude/sessions/{pid}.json")), &note);
    id
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Stops the session with force. The report may differ, but no process may be ended.
fn nobody_is_ended(home: &TestHome, id: &str, bystander: &mut Bystander, what: &str) {
    let status = home.agentctl(&["status", id, "--json"]).ok().json();
    assert!(status["pid"].is_null(), "{what} is no owner: {status:#}");
    assert_eq!(status["processes"].as_array().map(Vec::len), Some(0), "{what}: {status:#}");
    assert_ne!(status["status"], "running", "{what}: {status:#}");
    for way in [&["stop", id][..], &["stop", id, "--force"]] {
        let _ = home.agentctl(way);
        assert!(bystander.lives(), "{what} was ended by {way:?}");
    }
}

#[test]
fn a_forged_note_ends_no_other_program() {
    let home = home();
    let mut sleep = Bystander::start(sleep_as(&home, "sleep"));
    wait_title(sleep.pid(), "sleep");
    let id = claude_noting(&home, sleep.pid());
    nobody_is_ended(&home, &id, &mut sleep, "a `sleep` of this home");
}

#[test]
fn a_forged_note_ends_no_agent_of_another_home() {
    let (home, other) = (home(), home());
    let mut claude = Bystander::start(sleep_as(&other, "claude"));
    wait_title(claude.pid(), "claude");
    let id = claude_noting(&home, claude.pid());
    nobody_is_ended(&home, &id, &mut claude, "a Claude Code of another home");
    let row = home.agentctl(&["status", &id, "--json"]).ok().json();
    assert_eq!((&row["status"], &row["outcome"]), (&"stopped".into(), &"died".into()), "{row:#}");
}

#[test]
fn a_forged_note_ends_no_process_of_another_user() {
    if fs::metadata("/proc/self").is_ok_and(|us| std::os::unix::fs::MetadataExt::uid(&us) != 0) {
        return skip("only root can start a process of another user");
    }
    let home = home();
    let mut command = sleep_as(&home, "claude");
    command.uid(65_534).gid(65_534);
    let mut claude = Bystander::start(command);
    wait_title(claude.pid(), "claude");
    let id = claude_noting(&home, claude.pid());
    nobody_is_ended(&home, &id, &mut claude, "another user's process");
}

#[test]
fn a_forged_note_does_not_end_agentctl() {
    let home = home();
    let mut daemon = Background::spawn(&home, home.agentctl_command(&["daemon", "run"]));
    let socket = home.agentctl_home().join("daemon.lock");
    until(TIMEOUT, "the daemon to run", || socket.exists().then_some(()));
    let id = claude_noting(&home, daemon.pid());
    for way in [&["stop", &id][..], &["stop", &id, "--force"]] {
        let _ = home.agentctl(way);
        assert!(daemon.try_wait().is_none(), "the daemon was ended by {way:?}");
    }
}

#[test]
fn who_holds_copilots_file_open_and_is_not_copilot_lives_on() {
    let home = home();
    let id = new_uuid();
    let folder = home.path().join(".copilot/session-state").join(&id);
    fs::create_dir_all(&folder).unwrap();
    let mut command = home.command("bash");
    command.args(["-c", r#"exec 3>>"$0/inuse.$$.hold"; exec sleep 1000"#]).arg(&folder);
    let mut sleep = Bystander::start(command);
    wait_title(sleep.pid(), "sleep");
    write(&folder.join(format!("inuse.{}.lock", sleep.pid())), &sleep.pid().to_string());
    let at = "2026-11-15T10:00:00Z";
    let events = format!(
        r#"{{"type":"session.start","data":{{"sessionId":"{id}","startTime":"{at}"}},"id":"1","timestamp":"{at}","parentId":null}}
{{"type":"user.message","data":{{"content":"do it"}},"id":"2","timestamp":"{at}","parentId":"1"}}
{{"type":"assistant.turn_start","data":{{"turnId":"0"}},"id":"3","timestamp":"{at}","parentId":"2"}}
"#
    );
    write(&folder.join("events.jsonl"), &events);
    nobody_is_ended(&home, &id, &mut sleep, "a `sleep` that holds Copilot's file");
}

#[test]
fn the_agent_that_its_note_names_is_still_ended() {
    let home = home();
    let mut claude = Bystander::start(sleep_as(&home, "claude"));
    wait_title(claude.pid(), "claude");
    let id = claude_noting(&home, claude.pid());
    let status = home.agentctl(&["status", &id, "--json"]).ok().json();
    assert_eq!(status["pid"], claude.pid(), "{status:#}");
    let _ = home.agentctl(&["stop", &id]).ok();
    until(TIMEOUT, "its end", || (!claude.lives()).then_some(()));
}
