//! The stand-in's part: a copy of this program that speaks as Claude Code does when it is held.
//!
//! It says over a socket when it did what: `pid P`, `turn NANOS`, `ask NANOS`.

use std::io::{BufRead as _, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::super::launch::clock;

/// Names the socket to a stand-in that is to be held.
pub(super) const SOCKET: &str = "XTASK_HELD";
/// Where the stand-in keeps its transcripts, below the home.
pub(super) const PROJECT: &str = ".claude/projects/-bench-held";
/// A message with these words makes it ask.
pub(super) const ASK: &str = "ask me";
/// By then whoever measures looks.
const BEFORE_THE_REQUEST: Duration = Duration::from_millis(150);

/// The agent's part, where this process was launched to play it; says whether it was.
pub(crate) fn play() -> bool {
    let Some(socket) = std::env::var_os(SOCKET) else { return false };
    // Whatever goes wrong ends it, and the launch says so.
    if let Err(error) = Part::begin(PathBuf::from(socket)).and_then(Part::run) {
        eprintln!("the stand-in: {error:#}");
    }
    true
}

struct Part {
    id: String,
    transcript: PathBuf,
    told: UnixStream,
    requests: u64,
    /// The message of the open turn.
    message: Value,
}

impl Part {
    fn begin(socket: PathBuf) -> anyhow::Result<Self> {
        let id =
            std::env::args().skip_while(|arg| arg != "--session-id").nth(1).context("no --session-id")?;
        let home = PathBuf::from(std::env::var_os("HOME").context("no HOME")?);
        let transcript = home.join(PROJECT).join(format!("{id}.jsonl"));
        let mut told = UnixStream::connect(socket)?;
        writeln!(told, "pid {}", std::process::id())?;
        Ok(Self { id, transcript, told, requests: 0, message: Value::Null })
    }

    fn run(mut self) -> anyhow::Result<()> {
        for line in std::io::stdin().lock().lines() {
            let frame: Value = serde_json::from_str(&line?)?;
            match frame["type"].as_str() {
                Some("control_request") => say(&json!({"type": "control_response", "response": {
                    "subtype": "success", "request_id": frame["request_id"], "response": {}}}))?,
                Some("user") => self.take(&frame)?,
                Some("control_response") => {
                    say(&frame)?;
                    self.end_turn()?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: &Value) -> anyhow::Result<()> {
        let words = frame["message"]["content"][0]["text"].as_str().unwrap_or_default();
        self.message = frame["uuid"].clone();
        self.write(&json!({"type": "user", "message": {"role": "user", "content": words}}))?;
        writeln!(self.told, "turn {}", clock().as_nanos())?;
        say(&json!({"type": "system", "subtype": "session_state_changed", "state": "running"}))?;
        say(&json!({"type": "command_lifecycle", "command_uuid": self.message, "state": "queued"}))?;
        say(&json!({"type": "system", "subtype": "init", "session_id": self.id}))?;
        say(&json!({"type": "command_lifecycle", "command_uuid": self.message, "state": "started"}))?;
        if !words.contains(ASK) {
            return self.end_turn();
        }
        std::thread::sleep(BEFORE_THE_REQUEST);
        self.requests += 1;
        let request = json!({"type": "control_request", "request_id": format!("r-{}", self.requests), "request": {
            "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "true"},
            "tool_use_id": format!("t-{}", self.requests)}});
        let asked = clock();
        say(&request)?;
        Ok(writeln!(self.told, "ask {}", asked.as_nanos())?)
    }

    fn end_turn(&mut self) -> anyhow::Result<()> {
        self.write(&json!({"type": "assistant", "message": {"role": "assistant", "model": "m", "id": "msg",
            "content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn",
            "usage": {"input_tokens": 1, "output_tokens": 1}}}))?;
        say(&json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
            "user_message_uuids": [self.message]}))?;
        say(&json!({"type": "system", "subtype": "session_state_changed", "state": "idle"}))
    }

    fn write(&self, record: &Value) -> anyhow::Result<()> {
        let now = jiff::Timestamp::now();
        let mut record = record.clone();
        record["uuid"] = format!("{:032x}", now.as_nanosecond()).into();
        record["sessionId"] = self.id.as_str().into();
        record["cwd"] = std::env::current_dir()?.to_string_lossy().into();
        record["timestamp"] = now.to_string().into();
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.transcript)?;
        Ok(file.write_all(format!("{record}\n").as_bytes())?)
    }
}

fn say(frame: &Value) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{frame}\n").as_bytes())?;
    Ok(out.flush()?)
}
