//! A home with an OpenCode database in it, written as OpenCode writes it, and a process table that tests script.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentctl_adapters::Adapter;
use agentctl_adapters::agents::opencode::OpenCode;
use agentctl_fleet::{Fleet, Query, Since, Source, Wanted};
use agentctl_model::{Environ, Session, Survey};
use agentctl_process::fake::{Scripted, ScriptedProcess};
use jiff::Timestamp;
use rusqlite::{Connection, params};
use serde_json::json;

/// The tables of version 1.18, as far as they matter.
const SCHEMA: &str = "
PRAGMA journal_mode=WAL;
CREATE TABLE session (id text PRIMARY KEY, project_id text, workspace_id text, parent_id text, slug text,
  directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, metadata text, cost real DEFAULT 0,
  tokens_input integer DEFAULT 0, tokens_output integer DEFAULT 0, tokens_reasoning integer DEFAULT 0,
  tokens_cache_read integer DEFAULT 0, tokens_cache_write integer DEFAULT 0, agent text, model text,
  time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer, time_archived integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
  time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id,time_created,id);
CREATE INDEX part_message_id_id_idx ON part (message_id,id);
CREATE INDEX session_parent_idx ON session (parent_id);";

pub(crate) struct Home {
    folder: tempfile::TempDir,
    pub(crate) writer: Connection,
}

/// Seconds after a fixed moment, in OpenCode's form: milliseconds since 1970.
pub(crate) fn at(second: i64) -> i64 {
    1_794_725_000_000 + second * 1000
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".local/share/opencode")).unwrap();
        let writer = Connection::open(folder.path().join(".local/share/opencode/opencode.db")).unwrap();
        writer.execute_batch(SCHEMA).unwrap();
        Self { folder, writer }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path().join(".local/share/opencode")
    }

    /// A session that was created at one second and last prompted at another.
    pub(crate) fn session(&self, id: &str, cwd: &str, made: i64, prompted: i64) {
        self.writer
            .execute(
                "INSERT INTO session(id, directory, title, version, time_created, time_updated) VALUES(?,?,?,?,?,?)",
                params![id, cwd, format!("title of {id}"), "1.18.33", at(made), at(prompted)],
            )
            .unwrap();
        self.message(id, prompted, &json!({"role": "user", "time": {"created": at(prompted)}}), "the prompt");
    }

    pub(crate) fn child_of(&self, id: &str, parent: &str) {
        self.writer.execute("UPDATE session SET parent_id = ? WHERE id = ?", [parent, id]).unwrap();
    }

    /// A step of the model that began at this second; `end` is what its message has once it is over.
    pub(crate) fn step(&self, session: &str, second: i64, end: Option<serde_json::Value>, text: &str) {
        let mut data = json!({"role": "assistant", "providerID": "fake", "modelID": "model",
                              "time": {"created": at(second)}});
        if let Some(end) = end {
            data["time"]["completed"] = json!(at(second) + 500);
            data.as_object_mut().unwrap().extend(end.as_object().unwrap().clone());
        }
        self.message(session, second, &data, text);
    }

    fn message(&self, session: &str, second: i64, data: &serde_json::Value, text: &str) {
        let count: i64 = self.writer.query_row("SELECT count(*) FROM message", [], |row| row.get(0)).unwrap();
        let id = format!("msg_{count:06}");
        let values = params![id, session, at(second), at(second), data.to_string()];
        self.writer.execute("INSERT INTO message VALUES(?,?,?,?,?)", values).unwrap();
        let part = json!({"type": "text", "text": text}).to_string();
        let values = params![format!("prt_{count:06}"), id, session, at(second), at(second), part];
        self.writer.execute("INSERT INTO part VALUES(?,?,?,?,?,?)", values).unwrap();
    }

    /// An OpenCode process of this home.
    pub(crate) fn process(&self, pid: u32, argv: &[&str], cwd: &str, started: i64) -> ScriptedProcess {
        ScriptedProcess::new(pid, argv)
            .cwd(cwd)
            .variable("HOME", self.path().to_str().unwrap())
            .started_at(Timestamp::from_millisecond(at(started)).unwrap())
    }

    pub(crate) fn fleet(&self, kernel: Scripted) -> Fleet {
        let environ = Environ::from_iter([("HOME", self.path())]);
        let root = OpenCode.root(&environ).unwrap();
        Fleet::new(
            vec![Source { adapter: &OpenCode, root, timeout: Duration::from_secs(20) }],
            Arc::new(kernel),
        )
        .with_launches(self.path().join("launches"))
    }

    /// Writes the record of a launch by agentctl.
    pub(crate) fn launch_record(&self, launch: &str, session: &str) {
        let order = json!({
            "adapter": "opencode", "root": self.data(), "conversation": "new", "cwd": "/w", "freshId": "",
            "env": {}, "labels": {}, "files": [], "force": false,
        });
        let record = json!({
            "version": 1, "id": launch, "launchedAt": "2026-11-15T12:00:00Z", "order": order,
            "sessionId": session, "settled": true,
        });
        let folder = self.path().join("launches").join(launch);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("launch.json"), record.to_string()).unwrap();
    }

    /// Everything there is, sub-agents included.
    pub(crate) fn survey(&self, processes: &[ScriptedProcess]) -> Survey {
        self.fleet(table(processes)).survey(&whole(Wanted::All { since: Since::Ever }))
    }

    /// Returns the session, after checking that all three kinds of queries give the same answer about it.
    #[track_caller]
    pub(crate) fn seen(&self, processes: &[ScriptedProcess], id: &str) -> Session {
        let one = |wanted: Wanted| {
            let survey = self.fleet(table(processes)).survey(&whole(wanted));
            assert!(
                survey.sources.iter().all(|source| source.coverage.as_str() == "complete"),
                "{:?}",
                survey.sources
            );
            let mut found: Vec<Session> = survey
                .sessions
                .into_iter()
                .map(|one| *one.session)
                .filter(|session| session.id == id)
                .collect();
            assert!(found.len() < 2, "two rows for one session");
            found.pop()
        };
        let all = one(Wanted::All { since: Since::Ever }).expect("listed among all");
        let named = one(Wanted::Ids(vec![id.to_owned()])).expect("found by its id");
        assert_eq!((named.status, named.outcome, named.pid), (all.status, all.outcome, all.pid), "by id");
        let live = one(Wanted::Live);
        assert_eq!(live.is_some(), all.is_live(), "among the live ones");
        if let Some(live) = live {
            assert_eq!((live.status, live.outcome, live.pid), (all.status, all.outcome, all.pid), "live");
        }
        all
    }
}

pub(crate) fn table(processes: &[ScriptedProcess]) -> Scripted {
    processes.iter().cloned().fold(Scripted::new(), Scripted::process)
}

fn whole(wanted: Wanted) -> Query {
    Query { subagents: true, ..Query::new(wanted) }
}

/// What a finished turn records.
#[allow(clippy::unnecessary_wraps, reason = "the value of an optional field")]
pub(crate) fn stop() -> Option<serde_json::Value> {
    Some(json!({"finish": "stop"}))
}
