//! A client that writes and reads lines, and knows nothing of what a good client would not do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::machine::{Machine, agent};

/// A wait that reaches this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
}

impl Client {
    pub(crate) fn start(machine: &Machine, arguments: &[&str]) -> Self {
        Self::of(machine.command(&[&["mcp"], arguments].concat()))
    }

    pub(crate) fn greeted(machine: &Machine, arguments: &[&str]) -> Self {
        let mut client = Self::start(machine, arguments);
        client.greet();
        client
    }

    /// The server as the child of a process that Claude Code's registry names as the owner of the session.
    pub(crate) fn inside(machine: &Machine, arguments: &[&str], session: &str) -> Self {
        let inner = machine.command(arguments);
        let mut outer = Command::new("/bin/bash");
        // The shell stays, because it has something to do afterwards.
        outer.arg0("claude").args(["-c", "\"$0\" mcp \"$@\"; true"]).arg(inner.get_program()).args(arguments);
        outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let client = Self::of(outer);
        let home = machine.home().to_str().unwrap();
        agent::note(machine, client.child.id(), session, home, r#""status":"busy""#);
        client
    }

    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                let parsed = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, next: 1 }
    }

    pub(crate) fn write(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).and_then(|()| input.write_all(b"\n")).and_then(|()| input.flush()).unwrap();
    }

    pub(crate) fn send(&mut self, id: usize, method: &str, params: &Value) {
        self.write(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().as_bytes(),
        );
    }

    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the server says something")
    }

    #[track_caller]
    fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = format!("ask-{}", self.next);
        self.next += 1;
        self.write(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().as_bytes(),
        );
        loop {
            // A server that a session's own stop has ended says nothing more.
            let Ok(said) = self.lines.recv_timeout(PATIENCE) else { return Value::Null };
            if said["id"] == id.as_str() {
                return said;
            }
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut said = self.answer(method, params);
        assert!(said.get("error").is_none(), "{said}");
        said["result"].take()
    }

    #[track_caller]
    pub(crate) fn fault(&mut self, method: &str, params: Value) -> Value {
        let mut said = self.answer(method, params);
        assert!(said.get("result").is_none(), "{said}");
        said["error"].take()
    }

    /// The result of a tool; null if there is none of that name.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.answer("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    /// The same while other answers may come in between; they are dropped.
    #[track_caller]
    pub(crate) fn call_beside(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)
    }

    #[track_caller]
    pub(crate) fn greet(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let greeting = self.ask("initialize", params);
        self.write(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        greeting
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes both ends, as the kernel does for a client that was killed, and waits for the server.
    pub(crate) fn die(mut self) -> ExitStatus {
        self.input = None;
        self.lines = channel().1;
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return ended;
            }
            assert!(began.elapsed() < PATIENCE, "the server stayed");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn said_by_the_kernel(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }

    pub(crate) fn threads(&self) -> u64 {
        self.said_by_the_kernel("Threads:")
    }

    /// Its memory without the pages of its program.
    pub(crate) fn own_kilobytes(&self) -> u64 {
        self.said_by_the_kernel("RssAnon:")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The parameters of a request that says for itself what it means.
pub(crate) fn inline(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "new", "version": "2"},
    });
    params
}

/// Everything of an answer that does not stand between two marks with the same secret.
pub(crate) fn outside_the_fence(told: &Value) -> String {
    let mut outside = String::new();
    strip(told, &mut outside);
    outside
}

fn strip(value: &Value, outside: &mut String) {
    match value {
        Value::String(words) => {
            let mut rest = words.as_str();
            while let Some((before, after)) = rest.split_once("<untrusted ") {
                outside.push_str(before);
                let (mark, inside) = after.split_once('>').expect("an opening mark is whole");
                // The two marks themselves are named in the answer.
                let close = format!("</untrusted {mark}>");
                rest = inside.split_once(&close).map_or(inside, |(_, behind)| behind);
            }
            outside.push_str(rest);
            outside.push('\n');
        }
        Value::Array(values) => values.iter().for_each(|value| strip(value, outside)),
        Value::Object(object) => {
            for (key, value) in object {
                strip(&Value::String(key.clone()), outside);
                strip(value, outside);
            }
        }
        _ => {}
    }
}
