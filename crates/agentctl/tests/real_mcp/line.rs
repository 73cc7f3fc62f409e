//! A client that writes and reads lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};

use agentctl_testkit::TestHome;
use serde_json::{Value, json};

pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    pub(crate) fn greeted(home: &TestHome, allowed: &str) -> Self {
        let mut command = home.agentctl_command(&["mcp", "--allow", allowed]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self { child, input, output: BufReader::new(output), next: 1 };
        let id = client.send("initialize", &json!({"protocolVersion": "2025-06-18"}));
        client.answer(id);
        client
    }

    pub(crate) fn send(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .unwrap();
        id
    }

    /// Asks for a tool and does not wait for it.
    pub(crate) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    #[track_caller]
    fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server has ended");
            let mut said: Value = serde_json::from_str(&line).unwrap();
            if said["id"] == id {
                return said["result"].take();
            }
        }
    }

    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer(id)
    }

    /// The data of a call that must succeed.
    #[track_caller]
    pub(crate) fn done(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut told = self.call(tool, arguments);
        assert_eq!(told["isError"], false, "{tool} {arguments}: {told:#}");
        told["structuredContent"].take()
    }

    /// The words of a call that must fail.
    #[track_caller]
    pub(crate) fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let told = self.call(tool, arguments);
        assert_eq!(told["isError"], true, "{tool} {arguments}: {told:#}");
        told["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Closes both ends, as the kernel does for a client that was killed.
    pub(crate) fn die(self) -> Server {
        Server(self.child)
    }
}

/// A server whose client is gone.
pub(crate) struct Server(Child);

impl Server {
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}
