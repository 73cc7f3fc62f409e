//! A process that looks like Claude Code on disk and in the kernel: its name, its arguments, its registry
//! file and its transcript. The behaviour of the real one was observed; this does the same, fast.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentctl_testkit::{TestHome, new_uuid};
use serde_json::json;

pub(crate) struct StandIn {
    pub(crate) id: String,
    child: Option<Child>,
    registry: File,
    pub(crate) transcript: PathBuf,
    cwd: String,
}

impl StandIn {
    /// Works on its first turn.
    pub(crate) fn start(home: &TestHome) -> Self {
        Self::on(home, new_uuid())
    }

    /// Works on its first turn in this folder.
    pub(crate) fn start_in(home: &TestHome, cwd: &Path) -> Self {
        Self::at(home, new_uuid(), cwd)
    }

    /// Works on a further turn of this session.
    pub(crate) fn on(home: &TestHome, id: String) -> Self {
        Self::at(home, id, Path::new("/work"))
    }

    fn at(home: &TestHome, id: String, cwd: &Path) -> Self {
        let mut command: Command = home.command("sleep");
        let child = command.arg0("claude").arg("86400").stdout(Stdio::null()).spawn().unwrap();
        let root = home.path().join(".claude");
        let cwd = cwd.to_str().unwrap().to_owned();
        let (registry, project) = (root.join("sessions"), root.join("projects").join(cwd.replace('/', "-")));
        fs::create_dir_all(&registry).unwrap();
        fs::create_dir_all(&project).unwrap();
        let registry = File::create(registry.join(format!("{}.json", child.id()))).unwrap();
        let transcript = project.join(format!("{id}.jsonl"));
        let stand_in = Self { id, child: Some(child), registry, transcript, cwd };
        stand_in.begin();
        stand_in
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Changes what its registry file reports, wherever that folder is by now.
    pub(crate) fn say(&self, status: &str) {
        let kernel = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let start: u64 =
            kernel.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
        let entry = json!({
            "pid": self.pid(), "sessionId": self.id, "cwd": self.cwd, "startedAt": now_ms(), "procStart": start.to_string(),
            "version": "2.1.325", "kind": "interactive", "entrypoint": "cli", "status": status, "updatedAt": now_ms(),
        });
        // The file is overwritten in place, so every status has the same length.
        let entry = format!("{:<600}", entry.to_string());
        // In place and in one write through the descriptor, as the agent does.
        self.registry.write_all_at(entry.as_bytes(), 0).unwrap();
    }

    /// Begins a turn.
    pub(crate) fn begin(&self) {
        self.record(&json!({"type": "user", "message": {"role": "user", "content": "do it"}}));
        self.say("busy");
    }

    /// The end of its turn: the last record, then the registry.
    pub(crate) fn finish(&self) {
        let reply = json!({"role": "assistant", "model": "m", "content": [{"type": "text", "text": "done"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}});
        self.record(&json!({"type": "assistant", "message": reply}));
        self.say("idle");
    }

    /// The model reports this many tokens; the turn continues.
    pub(crate) fn spend(&self, tokens: u64) {
        let reply = json!({"role": "assistant", "model": "m", "content": [{"type": "text", "text": "hm"}],
            "stop_reason": null, "usage": {"input_tokens": 0, "output_tokens": tokens}});
        self.record(&json!({"type": "assistant", "message": reply}));
    }

    /// Its provider refuses for a quota, which is free again at this second. Whoever asks its registry is told that it works.
    pub(crate) fn is_refused(&self, until: i64) {
        let reply = json!({"role": "assistant", "model": "<synthetic>", "stop_reason": "stop_sequence",
            "content": [{"type": "text", "text": "You've hit your limit"}]});
        self.record(&json!({"type": "assistant", "isApiErrorMessage": true, "apiErrorStatus": 429,
            "quotaLimits": {"status": "rejected", "resetsAt": until}, "message": reply}));
    }

    /// Whether it has been ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    fn record(&self, record: &serde_json::Value) {
        let mut record = record.clone();
        record["uuid"] = new_uuid().into();
        record["sessionId"] = self.id.clone().into();
        record["cwd"] = self.cwd.clone().into();
        record["timestamp"] = jiff::Timestamp::now().to_string().into();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.transcript).unwrap();
        writeln!(file, "{record}").unwrap();
    }

    /// Ends it without a last record, as by `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.kill();
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
