//! Which sessions went down with the machine, with a scripted boot and scripted processes.
#![allow(clippy::disallowed_methods, reason = "tests write what is read")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::claude_code::ClaudeCode;
use agentctl_fleet::keep::marks::Marks;
use agentctl_fleet::read::recover::{LostBy, RecoverQuery, Recovery};
use agentctl_fleet::{Fleet, KernelLock, Since, Source, Store};
use agentctl_model::Environ;
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;

const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

struct Home {
    folder: TempDir,
}

/// Minutes after a fixed moment.
fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".claude/sessions")).unwrap();
        fs::create_dir_all(folder.path().join("w")).unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn launches(&self) -> PathBuf {
        self.path().join("launches")
    }

    /// A session whose last record is from that minute, and leaves a tool open or ends the turn.
    fn session(&self, id: &str, at: i64, open: bool) -> &Self {
        let project = self.path().join(".claude/projects/-w");
        fs::create_dir_all(&project).unwrap();
        let cwd = self.path().join("w");
        let user = json!({"type": "user", "message": {"role": "user", "content": "do it"}, "sessionId": id,
            "timestamp": minute(at - 1), "cwd": cwd});
        let tool = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "make all"}});
        let (content, stop) =
            if open { (tool, "tool_use") } else { (json!({"type": "text", "text": "done"}), "end_turn") };
        let reply = json!({"type": "assistant", "sessionId": id, "timestamp": minute(at), "cwd": cwd,
            "message": {"id": "m", "model": "claude-x", "content": [content], "stop_reason": stop}});
        fs::write(project.join(format!("{id}.jsonl")), format!("{user}\n{reply}\n")).unwrap();
        self
    }

    /// A launch record of this session, of a process in this boot.
    fn launched(&self, name: &str, id: &str, boot: Option<u128>, at: i64) -> PathBuf {
        let place = self.path().join(".claude/projects/-w").join(format!("{id}.jsonl"));
        let process = boot.map(|boot| json!({"pid": 4242, "start": 7, "boot": format!("{boot:032x}")}));
        let order = json!({"adapter": "claude-code", "root": self.path().join(".claude"), "freshId": id,
            "conversation": {"resume": {"id": id, "place": place}}, "cwd": self.path().join("w"), "env": {},
            "labels": {}, "files": [], "force": false, "permission": "bypass"});
        let record = json!({"version": 1, "id": name, "launchedAt": minute(at), "order": order,
            "sessionId": boot.map(|_| id), "settled": boot.is_some(), "process": process});
        let folder = self.launches().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("launch.json"), record.to_string()).unwrap();
        fs::write(folder.join("prompt"), "do it").unwrap();
        folder
    }

    fn offered(&self, kernel: Scripted) -> Recovery {
        let environ = Environ::from_iter([("HOME", self.path())]);
        let root = ClaudeCode.root(&environ).unwrap();
        let source = Source { adapter: &ClaudeCode, root, timeout: Duration::from_secs(20) };
        let fleet = Fleet::new(vec![source], Arc::new(kernel)).with_launches(self.launches());
        let marks = Marks::of(Store::at(self.path().join("agentctl")));
        let query = RecoverQuery { since: Since::Ever, adapters: Vec::new() };
        fleet.recovery(&query, &marks, minute(500)).unwrap()
    }

    fn lost(&self, kernel: Scripted) -> Vec<(String, LostBy)> {
        let offered = self.offered(kernel).sessions.into_iter();
        offered.map(|one| (one.session.id, one.lost_by)).collect()
    }
}

/// A machine that started at minute 100.
fn second_boot() -> Scripted {
    Scripted::new().booted(2, minute(100))
}

#[test]
fn an_open_turn_that_is_older_than_the_boot_went_down_with_the_machine() {
    let home = Home::new();
    home.session(A, 50, true).session(B, 60, false);
    let offered = home.offered(second_boot());
    assert_eq!(offered.sessions.len(), 1, "{offered:#?}");
    let one = &offered.sessions[0];
    assert_eq!((one.session.id.as_str(), one.lost_by), (A, LostBy::OlderThanBoot));
    assert_eq!(one.doing.as_deref(), Some("Bash: make all"));
    assert_eq!(one.command, format!("agentctl recover --yes {A}"));
    assert_eq!((one.problem.as_deref(), offered.booted_at), (None, Some(minute(100))));

    // A turn that died in this boot did not go down with it.
    home.session(B, 101, true);
    assert_eq!(home.lost(second_boot()), [(A.to_owned(), LostBy::OlderThanBoot)]);
    // One that somebody carries is nobody's to recover.
    let claude = ScriptedProcess::new(42, &["claude", "--resume", A]);
    let claude = claude.cwd(home.path().join("w")).variable("HOME", home.path().to_str().unwrap());
    assert_eq!(home.lost(second_boot().process(claude.started_at(minute(110)))), []);
    // Its folder is gone.
    fs::remove_dir(home.path().join("w")).unwrap();
    let offered = home.offered(second_boot());
    assert!(offered.sessions[0].problem.as_deref().unwrap().contains("is gone"), "{offered:#?}");
}

#[test]
fn a_launched_one_is_told_by_the_boot_of_its_record_whatever_the_clock_said() {
    let home = Home::new();
    // The clock of the first boot was ahead.
    home.session(A, 300, true).launched("l-1", A, Some(1), 290);
    assert_eq!(home.lost(second_boot()), [(A.to_owned(), LostBy::LaunchedInAnotherBoot)]);
    assert_eq!(home.lost(Scripted::new().booted(1, minute(100))), [], "it was launched in this boot");

    // Somebody has taken it up in this boot, and it died again.
    let taken_up = home.launched("l-2", A, Some(2), 310);
    assert_eq!(home.lost(second_boot()), []);
    // That launch failed, so nobody has.
    fs::write(taken_up.join("failed.json"), r#"{"refused":false,"message":"not logged in"}"#).unwrap();
    assert_eq!(home.lost(second_boot()).len(), 1);
    fs::remove_dir_all(&taken_up).unwrap();

    // A launch that never began counts only while its runner lives.
    let starting = home.launched("l-3", A, None, 320);
    assert_eq!(home.lost(second_boot()).len(), 1);
    let runner = KernelLock::on_folder(&starting, Duration::ZERO).unwrap();
    assert!(runner.is_some());
    assert_eq!(home.lost(second_boot()), []);
    drop(runner);
    assert_eq!(home.lost(second_boot()).len(), 1);
}

#[test]
fn a_machine_that_shut_down_in_order_ended_its_agents_with_a_signal() {
    let home = Home::new();
    home.session(A, 50, true);
    let folder = home.launched("l-1", A, Some(1), 40);
    let exit = |more: &str| {
        let text = format!(
            r#"{{"exitCode":null,"exitSignal":15,"exitedAt":"{}","timedOut":false{more}}}"#,
            minute(51)
        );
        fs::write(folder.join("exit.json"), text).unwrap();
    };
    exit("");
    assert_eq!(home.lost(second_boot()).len(), 1);
    // A person stopped this one.
    exit(r#","asked":true"#);
    assert_eq!(home.lost(second_boot()), []);
}
