//! An editor: the official SDK in a process of its own, driven by lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agentctl_testkit::TestHome;
use agentctl_testkit::clients::Clients;
use serde_json::{Value, json};

use crate::PATIENCE;

pub(crate) struct Editor {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// What was said and not asked for yet.
    kept: Vec<Value>,
    next: u64,
}

/// The kind and the words of an update.
pub(crate) fn words(update: &Value) -> (&str, &str) {
    let kind = update["sessionUpdate"].as_str().unwrap_or_default();
    (kind, update["content"]["text"].as_str().unwrap_or_default().trim())
}

impl Editor {
    pub(crate) fn open(home: &TestHome, clients: &Clients, arguments: &[&str]) -> Self {
        let arguments = [&["acp"], arguments].concat();
        let mut command = clients.editor(home, Path::new(env!("CARGO_BIN_EXE_agentctl")), &arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let parsed = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, kept: Vec::new(), next: 1 }
    }

    fn write(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn begin(&mut self, call: &str, params: &Value) -> u64 {
        let tag = self.next;
        self.next += 1;
        self.write(&json!({"tag": tag, "call": call, "params": params}));
        tag
    }

    /// The first line that fits, of those that were said or will be.
    #[track_caller]
    fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.kept.iter().position(&fits) {
            return self.kept.remove(place);
        }
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let Ok(said) = self.lines.recv_timeout(Duration::from_millis(100)) else { continue };
            if fits(&said) {
                return said;
            }
            self.kept.push(said);
        }
        panic!("waited for {what}; said: {:#?}", self.kept);
    }

    /// The answer to a request: `result` or `error`.
    #[track_caller]
    pub(crate) fn answer(&mut self, tag: u64) -> Value {
        self.wait("an answer", |said| said["tag"] == tag)
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, call: &str, params: &Value) -> Value {
        let tag = self.begin(call, params);
        let mut answer = self.answer(tag);
        assert!(answer.get("error").is_none(), "{call}: {answer:#}");
        answer["result"].take()
    }

    #[track_caller]
    pub(crate) fn fault(&mut self, call: &str, params: &Value) -> Value {
        let tag = self.begin(call, params);
        let mut answer = self.answer(tag);
        assert!(answer.get("error").is_some(), "{call}: {answer:#}");
        answer["error"].take()
    }

    #[track_caller]
    pub(crate) fn greet(&mut self) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": {"name": "editor", "version": "1"}});
        self.ask("initialize", &params)
    }

    pub(crate) fn begin_prompt(&mut self, id: &str, words: &str) -> u64 {
        self.begin("session/prompt", &json!({"sessionId": id, "prompt": [{"type": "text", "text": words}]}))
    }

    #[track_caller]
    pub(crate) fn prompt(&mut self, id: &str, words: &str) -> Value {
        let tag = self.begin_prompt(id, words);
        self.answer(tag)
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.write(&json!({"notify": method, "params": params}));
    }

    pub(crate) fn choose(&mut self, kind: &str) {
        self.write(&json!({"choose": kind}));
    }

    pub(crate) fn choose_nothing(&mut self) {
        self.write(&json!({"choose": null}));
    }

    /// Takes what was said of this kind so far.
    fn take(&mut self, key: &str) -> Vec<Value> {
        self.kept.extend(self.lines.try_iter());
        let taken = self.kept.extract_if(.., |said| said.get(key).is_some());
        taken.map(|mut said| said[key].take()).collect()
    }

    pub(crate) fn updates(&mut self) -> Vec<Value> {
        self.take("update")
    }

    pub(crate) fn permissions(&mut self) -> Vec<Value> {
        self.take("permission")
    }

    #[track_caller]
    pub(crate) fn wait_for_words(&mut self, kind: &str, wanted: &str) {
        let fits = |said: &Value| words(&said["update"]) == (kind, wanted);
        let _ = self.wait(wanted, fits);
    }

    /// Closes the connection; how the agent ended.
    pub(crate) fn close(mut self) -> Value {
        self.input = None;
        self.wait("the end of the agent", |said| said.get("exited").is_some())
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
