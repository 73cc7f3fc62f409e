//! The ways by which a session is reached: the command line with and without a daemon, and HTTP. Every scene is written as
//! commands, which are translated for HTTP.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use agentctl_testkit::{Background, Output, until_seen};
use serde_json::{Map, Value, json};

use crate::house::{Reply, exchange};
use crate::steer::{Scene, TIMEOUT};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    /// The command line, with no daemon on the machine.
    Alone,
    /// The command line beside a daemon, which it asks.
    Daemon,
    Http,
    /// The command line of another machine, over ssh.
    Ssh,
    /// The same over a nats-server, which the daemon of the machine serves.
    Nats,
}

/// Runs a daemon in the home of a scene and waits until it serves.
pub(crate) fn open(scene: &Scene) -> Background {
    let daemon = Background::spawn(&scene.home, scene.home.agentctl_command(&["daemon", "run"]));
    let client = Client::of(scene);
    until_seen(TIMEOUT, "the daemon to serve", || match client.try_ask("GET", "/healthz", &Value::Null) {
        Some(reply) if reply.status == 200 => Ok(()),
        other => Err(format!("{other:?}")),
    });
    daemon
}

/// A client for the daemon of a scene.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(crate) fn of(scene: &Scene) -> Self {
        Self { socket: scene.home.agentctl_home().join("agentctl.sock") }
    }

    fn try_ask(&self, method: &str, target: &str, body: &Value) -> Option<Reply> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        exchange(&mut stream, &request)
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, body: &Value) -> Reply {
        self.try_ask(method, target, body).expect("the daemon answers")
    }

    /// Does over HTTP what this command does.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str], cwd: &Path) -> Output {
        let (method, target, body) = translated(arguments, cwd);
        let reply = self.ask(method, &target, &body);
        let is_done = reply.status == 200;
        let said = |wanted: bool| if is_done == wanted { reply.body.clone() } else { String::new() };
        Output { code: Some(exit_code(&reply)), stdout: said(true), stderr: said(false) }
    }
}

/// The exit code of the command that would have got this answer.
fn exit_code(reply: &Reply) -> i32 {
    if reply.status == 200 {
        return 0;
    }
    match reply.json()["code"].as_str() {
        Some("usage") => 2,
        Some("not-found") => 3,
        Some("ambiguous") => 4,
        Some("incomplete") => 6,
        Some("refused") => 7,
        Some("timed-out") => 124,
        _ => 1,
    }
}

/// The request that does what a command does.
fn translated(arguments: &[&str], cwd: &Path) -> (&'static str, String, Value) {
    let given = Given::of(arguments);
    let session = |verb: &str| format!("/v1/sessions/{}{verb}", given.plain[1]);
    let mut body = given.body(&[("--timeout", "timeout")]);
    match given.plain[0] {
        "list" => return ("GET", "/v1/sessions".to_owned(), Value::Null),
        "status" => return ("GET", session(""), Value::Null),
        "launch" => {
            body = given.body(&[
                ("-p", "prompt"),
                ("--model", "model"),
                ("--permission-mode", "permissionMode"),
                ("--timeout", "timeout"),
                ("--idle-timeout", "idleTimeout"),
            ]);
            body["adapter"] = given.plain[1].into();
            body["cwd"] = json!(cwd);
            body["args"] = json!(given.rest);
            if let Some(branch) = given.value("--branch") {
                body["worktree"] = json!({"repository": cwd, "branch": branch});
            }
        }
        "resume" => {
            body = given.body(&[("--permission-mode", "permissionMode"), ("--timeout", "timeout")]);
            body["message"] = given.plain[2].into();
        }
        "send" => body["message"] = given.plain[2].into(),
        "answer" => body["text"] = given.plain[2].into(),
        "approve" => {
            body["decision"] = if given.has("--always") { "approve-always" } else { "approve" }.into();
        }
        "deny" => {
            body["decision"] = "deny".into();
            body["text"] = json!(given.value("--message"));
        }
        "interrupt" | "stop" => {}
        other => panic!("{other} has no route here"),
    }
    if let Some(request) = given.value("--request") {
        body["request"] = request.into();
    }
    for (flag, field) in [("--hold", "hold"), ("--terminal", "terminal")] {
        if given.has(flag) {
            body[field] = true.into();
        }
    }
    let target = match given.plain[0] {
        "launch" => "/v1/sessions".to_owned(),
        "approve" | "deny" | "answer" => session("/answer"),
        verb => session(&format!("/{verb}")),
    };
    ("POST", target, body)
}

/// A command's arguments: plain words, flags with their values, and what stands behind `--`.
struct Given<'a> {
    plain: Vec<&'a str>,
    flags: Vec<(&'a str, &'a str)>,
    rest: Vec<&'a str>,
}

impl<'a> Given<'a> {
    fn of(arguments: &[&'a str]) -> Self {
        let is_switch = |word: &str| matches!(word, "--json" | "--hold" | "--terminal" | "--always");
        let mut given = Self { plain: Vec::new(), flags: Vec::new(), rest: Vec::new() };
        let mut words = arguments.iter().copied();
        while let Some(word) = words.next() {
            match word {
                "--" => given.rest = words.by_ref().collect(),
                switch if is_switch(switch) => given.flags.push((switch, "")),
                flag if flag.starts_with('-') => given.flags.push((flag, words.next().unwrap())),
                plain => given.plain.push(plain),
            }
        }
        given
    }

    fn value(&self, flag: &str) -> Option<&'a str> {
        self.flags.iter().find(|(name, _)| *name == flag).map(|(_, value)| *value)
    }

    fn has(&self, flag: &str) -> bool {
        self.value(flag).is_some()
    }

    fn body(&self, fields: &[(&str, &str)]) -> Value {
        let given = fields.iter().filter_map(|(flag, field)| {
            self.value(flag).map(|value| ((*field).to_owned(), Value::from(value)))
        });
        Value::Object(given.collect::<Map<_, _>>())
    }
}

/// A command that is at work beside the test.
pub(crate) enum Begun {
    Command(Background),
    Request(JoinHandle<Output>),
}

impl Begun {
    pub(crate) fn request(client: Client, arguments: &[&str], cwd: &Path) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let cwd = cwd.to_owned();
        Self::Request(std::thread::spawn(move || {
            client.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &cwd)
        }))
    }

    pub(crate) fn is_over(&mut self) -> bool {
        match self {
            Self::Command(command) => command.try_wait().is_some(),
            Self::Request(request) => request.is_finished(),
        }
    }

    pub(crate) fn end(self) -> Output {
        match self {
            Self::Command(mut command) => {
                let code = command.wait(TIMEOUT).code();
                Output { code, stdout: command.stdout(), stderr: command.stderr() }
            }
            Self::Request(request) => request.join().expect("the request was answered"),
        }
    }
}
