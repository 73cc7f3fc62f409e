//! A home with sessions of Pi and Pi Rust, and the processes that may own them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::pi::Pi;
use agentctl_adapters::agents::pi_rust::PiRust;
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{Environ, Outcome, Session, Status, Survey};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use tempfile::TempDir;

pub(crate) const A: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
pub(crate) const B: &str = "bbbbbbbb-0000-4000-8000-00000000000b";

/// Minutes after a fixed moment.
pub(crate) fn minute(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_000 + minutes * 60).unwrap()
}

/// A session file under construction: every record is the child of the one before.
pub(crate) struct Tree {
    pub(crate) lines: Vec<String>,
}

impl Tree {
    pub(crate) fn new(id: &str, cwd: &str, at: i64) -> Self {
        Self::with_header(&format!(
            r#"{{"type":"session","version":3,"id":"{id}","timestamp":"{}","cwd":"{cwd}"}}"#,
            minute(at)
        ))
    }

    pub(crate) fn with_header(header: &str) -> Self {
        Self { lines: vec![header.to_owned()] }
    }

    pub(crate) fn record(mut self, kind: &str, at: i64, rest: &str) -> Self {
        let number = self.lines.len();
        let parent = if number == 1 { "null".to_owned() } else { format!("\"r{}\"", number - 1) };
        let time = minute(at);
        self.lines.push(format!(
            r#"{{"type":"{kind}","id":"r{number}","parentId":{parent},"timestamp":"{time}",{rest}}}"#
        ));
        self
    }

    pub(crate) fn user(self, at: i64) -> Self {
        self.record("message", at, r#""message":{"role":"user","content":[{"type":"text","text":"do it"}]}"#)
    }

    pub(crate) fn reply(self, at: i64, stop: &str) -> Self {
        let call = r#",{"type":"toolCall","id":"c","name":"bash","arguments":{"command":"make"}}"#;
        let call = if stop == "toolUse" { call } else { "" };
        let content = format!(r#"[{{"type":"text","text":"words {at}"}}{call}]"#);
        let rest = format!(
            r#""message":{{"role":"assistant","content":{content},"provider":"p","model":"m","usage":{{"input":1,"output":2}},"stopReason":"{stop}"}}"#
        );
        self.record("message", at, &rest)
    }

    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// A home with the store of both agents.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".pi/agent/sessions")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join(".pi/agent/sessions")
    }

    pub(crate) fn launches(&self) -> PathBuf {
        self.path().join("launches")
    }

    /// Records that a launch was for this session of Pi.
    pub(crate) fn launch(&self, launch: &str, session: &str) {
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

    /// Records how the process of a launch ended.
    pub(crate) fn exited(&self, launch: &str, at: i64, signal: i32) {
        let exit = serde_json::json!({
            "exitCode": null, "exitSignal": signal, "exitedAt": minute(at), "timedOut": false, "foundGoneAt": null,
        });
        fs::write(self.launches().join(launch).join("exit.json"), exit.to_string()).unwrap();
    }

    /// A session of a launch whose process is gone; `newest` is the minute of its last record.
    pub(crate) fn left_open(&self, launch: &str, id: &str, newest: i64) {
        let file = self.put(&name(id), &Tree::new(id, "/w", 1).user(2).reply(newest, "toolUse"));
        fs::File::open(file).unwrap().set_modified(minute(newest).into()).unwrap();
        self.launch(launch, id);
    }

    /// Puts a file into the directory of `/w`. Its modification time is the time of its newest record.
    pub(crate) fn put(&self, name: &str, tree: &Tree) -> PathBuf {
        self.put_in("--w--", name, tree)
    }

    pub(crate) fn put_in(&self, folder: &str, name: &str, tree: &Tree) -> PathBuf {
        let folder = self.store().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, tree.text()).unwrap();
        path
    }

    /// A Pi process of this home in `/w`, as it looks half a second after its start: all arguments are gone.
    pub(crate) fn pi(&self, pid: u32, started: i64) -> ScriptedProcess {
        ScriptedProcess::new(pid, &["pi"])
            .exe("/usr/bin/node")
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(started))
    }

    pub(crate) fn pi_rust(&self, pid: u32, started: i64, args: &[&str]) -> ScriptedProcess {
        let line: Vec<&str> = std::iter::once("pi").chain(args.iter().copied()).collect();
        ScriptedProcess::new(pid, &line)
            .exe("/usr/local/bin/pi")
            .cwd("/w")
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(minute(started))
    }

    /// A tool of the process `parent`, as Pi starts it.
    pub(crate) fn tool(&self, pid: u32, parent: u32, session: &str, file: &Path) -> ScriptedProcess {
        ScriptedProcess::new(pid, &["sleep", "60"])
            .parent(parent)
            .variable("HOME", self.path().to_str().unwrap())
            .variable("PI_SESSION_ID", session)
            .variable("PI_SESSION_FILE", file.to_str().unwrap())
    }

    pub(crate) fn fleet_with(&self, variables: &[(&str, &str)], kernel: Scripted) -> Fleet {
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

    pub(crate) fn fleet(&self, kernel: Scripted) -> Fleet {
        self.fleet_with(&[], kernel)
    }

    /// Returns everything stored, after checking that the list of live sessions agrees on each of them (N7).
    pub(crate) fn all(&self, kernel: Scripted) -> Survey {
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

pub(crate) fn name(id: &str) -> String {
    format!("2026-11-15T06-53-06-724Z_{id}.jsonl")
}

pub(crate) fn session<'s>(survey: &'s Survey, id: &str) -> &'s Session {
    let mut with_id = survey.sessions.iter().filter(|surveyed| surveyed.key.id == id);
    let one = with_id.next().unwrap_or_else(|| panic!("{id} is not listed"));
    assert!(with_id.next().is_none(), "{id} is listed twice");
    &one.session
}

pub(crate) fn verdict(survey: &Survey, id: &str) -> (Status, Option<Outcome>) {
    let session = session(survey, id);
    assert!(!session.evidence.is_empty());
    (session.status, session.outcome)
}
