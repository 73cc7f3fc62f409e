//! Processes that look like other agents on disk and in the kernel, each tied to its session in its own
//! agent's way: by its arguments, by a file that it holds open, or as the only candidate in its folder.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up must stop")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{TestHome, new_uuid, until};

/// On a machine that is busy.
const SOON: Duration = Duration::from_mins(1);

/// The agents that we can play, and the folder of the home in which each keeps its sessions.
pub const CAST: [(&str, &str); 6] = [
    ("codex", ".codex"),
    ("copilot", ".copilot"),
    ("gemini", ".gemini"),
    ("opencode", ".local/share/opencode"),
    ("pi", ".pi"),
    ("qwen", ".qwen"),
];

/// Works on the first turn of its session until it is told that this is over, or killed.
pub struct Player {
    pub id: String,
    pub child: Child,
    agent: String,
    stage: Stage,
}

impl Player {
    pub fn start(home: &TestHome, agent: &str) -> Self {
        let id =
            if agent == "opencode" { format!("ses_{}", new_uuid().replace('-', "")) } else { new_uuid() };
        let stage = Stage { root: home.path(), cwd: home.work_dir(&id), id: id.clone() };
        let child = match agent {
            "codex" => stage.codex(home),
            "copilot" => stage.copilot(home),
            "gemini" => stage.gemini(home),
            "opencode" => stage.opencode(home),
            "pi" => stage.pi(home),
            "qwen" => stage.qwen(home),
            other => panic!("nobody plays {other}"),
        };
        Self { id, child, agent: agent.to_owned(), stage }
    }

    /// Writes the last record of its turn and lives on, if it is one that waits for the next turn.
    pub fn finish_turn(&self) -> bool {
        let stage = &self.stage;
        let record = match self.agent.as_str() {
            "gemini" => json!({"id": "a", "timestamp": now(), "type": "gemini", "content": "done"}),
            "pi" => json!({"type": "message", "id": "r2", "parentId": "r1", "timestamp": now(), "message":
                {"role": "assistant", "content": [{"type": "text", "text": "done"}], "stopReason": "stop"}}),
            "qwen" => {
                json!({"uuid": new_uuid(), "sessionId": self.id, "timestamp": now(), "type": "assistant",
                "cwd": stage.cwd(), "version": "0.24.4", "message": {"role": "model", "parts": [{"text": "done"}]}})
            }
            // The others were started for one turn, and would end with it.
            _ => return false,
        };
        stage.write(&stage.records(&self.agent), &[record]);
        true
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Stage {
    /// The home; agents keep their files below it.
    root: PathBuf,
    cwd: PathBuf,
    id: String,
}

impl Stage {
    /// A native program of this name: a shell that takes its first argument as a script, which only waits.
    fn native(&self, home: &TestHome, program: &str, args: &[&str]) -> Command {
        let path = self.root.join(program);
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink("/bin/sh", &path).unwrap();
        }
        let script = args.iter().find(|arg| !arg.starts_with('-')).unwrap();
        fs::write(self.cwd.join(script), "read for_ever\n").unwrap();
        self.command(home, &path, args)
    }

    /// A Node script: the program that stands for Node only waits.
    fn node(&self, home: &TestHome, script: &str, args: &[&str]) -> Command {
        let path = self.root.join(script);
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "read for_ever\n").unwrap();
        }
        let mut command =
            self.command(home, Path::new("/bin/sh"), &[&[path.to_str().unwrap()], args].concat());
        command.arg0("node");
        command
    }

    fn command(&self, home: &TestHome, program: &Path, args: &[&str]) -> Command {
        let mut command = home.command(program);
        // It waits for input that never comes, and ends with us if we are killed.
        command.args(args).current_dir(&self.cwd).stdin(Stdio::piped()).stdout(Stdio::null());
        command
    }

    fn file(&self, path: &str) -> File {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    fn write(&self, path: &str, records: &[Value]) {
        let mut file = self.file(path);
        // In one write, as agents do, so that no reader sees half of it.
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    }

    /// The file to which an agent that has further turns adds its records.
    fn records(&self, agent: &str) -> String {
        let id = &self.id;
        match agent {
            "gemini" => format!(".gemini/tmp/{}/chats/session-2026-11-15T07-05-{}.jsonl", &id[..8], &id[..8]),
            "pi" => {
                let folder = self.cwd().trim_start_matches('/').replace('/', "-");
                format!(".pi/agent/sessions/--{folder}--/2026-11-15T07-00-00-000Z_{id}.jsonl")
            }
            _ => format!(".qwen/projects/{}/chats/{id}.jsonl", self.cwd().replace('/', "-")),
        }
    }

    fn cwd(&self) -> &str {
        self.cwd.to_str().unwrap()
    }

    fn codex(&self, home: &TestHome) -> Child {
        let rollout = format!(".codex/sessions/2026/11/15/rollout-2026-11-15T07-00-00-{}.jsonl", self.id);
        let mut command = self.native(home, "opt/codex", &["exec", "--json", "do it"]);
        let child = command.stdout(self.file(&rollout)).spawn().unwrap();
        let record =
            |kind: &str, payload: Value| json!({"timestamp": now(), "type": kind, "payload": payload});
        let (id, cwd) = (&self.id, self.cwd());
        self.write(
            &rollout,
            &[
                record("session_meta", json!({"id": id, "session_id": id, "cwd": cwd, "timestamp": now()})),
                record("event_msg", json!({"type": "task_started", "turn_id": "t"})),
                record("turn_context", json!({"turn_id": "t", "cwd": cwd, "model": "m"})),
                record("event_msg", json!({"type": "user_message", "message": "do it"})),
            ],
        );
        child
    }

    fn copilot(&self, home: &TestHome) -> Child {
        let folder = format!(".copilot/session-state/{}", self.id);
        let mut command = self.native(home, "opt/@github/copilot-linux-x64/copilot", &["-p", "do-it"]);
        // The name of the file that it holds open contains its pid.
        let hold = format!("exec 3> {}/inuse.$$.hold; read for_ever\n", self.root.join(&folder).display());
        fs::write(self.cwd.join("do-it"), hold).unwrap();
        self.file(&format!("{folder}/workspace.yaml"))
            .write_all(
                format!("id: {}\ncwd: {}\nname: do it\ncreated_at: {}\n", self.id, self.cwd(), now())
                    .as_bytes(),
            )
            .unwrap();
        let child = command.spawn().unwrap();
        let event = |kind: &str, data: Value| json!({"type": kind, "data": data, "id": new_uuid(), "timestamp": now()});
        self.write(
            &format!("{folder}/events.jsonl"),
            &[
                event("session.start", json!({"context": {"cwd": self.cwd()}})),
                event("user.message", json!({"content": "do it"})),
                event("assistant.turn_start", json!({})),
            ],
        );
        self.write(&format!("{folder}/inuse.{}.lock", child.id()), &[json!(child.id())]);
        let hold = self.root.join(format!("{folder}/inuse.{}.hold", child.id()));
        until(SOON, "what it holds open", || hold.exists().then_some(()));
        child
    }

    fn gemini(&self, home: &TestHome) -> Child {
        let id = &self.id;
        let child = self.node(home, "n/.bin/gemini", &["--session-id", id]).spawn().unwrap();
        let folder = format!(".gemini/tmp/{}", &id[..8]);
        self.file(&format!("{folder}/.project_root")).write_all(self.cwd().as_bytes()).unwrap();
        self.write(
            &self.records("gemini"),
            &[
                json!({"sessionId": id, "projectHash": "h", "startTime": now(), "lastUpdated": now(), "kind": "main"}),
                json!({"id": "u", "timestamp": now(), "type": "user", "content": [{"text": "do it"}]}),
            ],
        );
        child
    }

    /// From the time before its database: one file for each session and each message.
    fn opencode(&self, home: &TestHome) -> Child {
        let id = &self.id;
        let child = self.native(home, "opt/opencode", &["run", "--session", id]).spawn().unwrap();
        let store = ".local/share/opencode/storage";
        let at = jiff::Timestamp::now().as_millisecond();
        let message = format!("msg_{}", &id[4..]);
        self.write(
            &format!("{store}/message/{id}/{message}.json"),
            &[json!({"id": message, "sessionID": id, "role": "user", "time": {"created": at}})],
        );
        self.write(
            &format!("{store}/session/global/{id}.json"),
            &[json!({"id": id, "version": "1.1.65", "projectID": "global", "directory": self.cwd(), "title": "do it",
                "time": {"created": at, "updated": at}})],
        );
        child
    }

    fn pi(&self, home: &TestHome) -> Child {
        // Half a second after its start all its arguments are gone; the program that stands for Node waits
        // for input too.
        let node = self.root.join("opt/node");
        if !node.exists() {
            fs::create_dir_all(node.parent().unwrap()).unwrap();
            fs::copy("/bin/sh", &node).unwrap();
        }
        let child = self.command(home, &node, &[]).arg0("pi").spawn().unwrap();
        let words = json!({"role": "user", "content": [{"type": "text", "text": "do it"}]});
        self.write(
            &self.records("pi"),
            &[
                json!({"type": "session", "version": 3, "id": self.id, "timestamp": now(), "cwd": self.cwd()}),
                json!({"type": "message", "id": "r1", "parentId": null, "timestamp": now(), "message": words}),
            ],
        );
        child
    }

    fn qwen(&self, home: &TestHome) -> Child {
        let id = &self.id;
        let child = self.node(home, "n/.bin/qwen", &["--session-id", id]).spawn().unwrap();
        self.write(
            &self.records("qwen"),
            &[json!({"uuid": new_uuid(), "sessionId": id, "timestamp": now(), "type": "user", "cwd": self.cwd(),
                "version": "0.24.4", "message": {"parts": [{"text": "do it"}]}})],
        );
        child
    }
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}
