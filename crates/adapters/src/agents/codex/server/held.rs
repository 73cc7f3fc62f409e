//! A private app-server: one thread, begun and kept by its runner. A thread to which nobody is connected is unloaded
//! after a minute.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_model::{Conversation, Error, Intent, Permission, SpawnPlan};
use serde_json::{Value, json};

use super::Server;
use super::feed::is_silence;
use super::steer::{Steered, said, silent};
use crate::control::LiveSession;
use crate::hold::{PrivateServer, Said, TurnEnd};

/// A socket's address may have this many bytes.
const LONGEST_ADDRESS: usize = 107;

/// How long the server may take for the handshake, or for one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The private server of one thread.
pub(crate) struct PrivateAppServer {
    /// The request that begins or continues the thread.
    opening: (&'static str, Value),
    socket: PathBuf,
    server: Option<Server>,
    thread: Option<String>,
    /// What follows from joining again.
    heard: VecDeque<Said>,
}

impl PrivateAppServer {
    /// Everything that `codex exec` takes as an option is a setting of the thread here.
    pub(crate) fn of(intent: &Intent) -> Self {
        let (sandbox, approval) = match intent.permission {
            None | Some(Permission::Default) => (None, None),
            Some(Permission::Plan) => (Some("read-only"), None),
            Some(Permission::AcceptEdits) => (Some("workspace-write"), None),
            Some(Permission::Bypass) => (Some("danger-full-access"), Some("never")),
        };
        let mut settings = json!({"cwd": intent.cwd});
        let mut set = |key: &str, value: Option<&str>| {
            if let Some(value) = value {
                settings[key] = value.into();
            }
        };
        set("sandbox", sandbox);
        set("approvalPolicy", approval);
        set("model", intent.model.as_deref());
        set("developerInstructions", intent.system_prompt.as_deref());
        let method = match &intent.conversation {
            Conversation::New => "thread/start",
            Conversation::Stored { id, .. } => {
                set("threadId", Some(id));
                "thread/resume"
            }
            Conversation::ForkOf { id, .. } => {
                set("threadId", Some(id));
                "thread/fork"
            }
        };
        if method != "thread/start" {
            settings["excludeTurns"] = true.into();
        }
        let opening = (method, settings);
        Self { opening, socket: PathBuf::new(), server: None, thread: None, heard: VecDeque::new() }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        let thread = self.thread.as_deref().unwrap_or("the thread").to_owned();
        let lost = || silent(&thread, &io::ErrorKind::NotConnected.into());
        let server = self.server.as_mut().ok_or_else(lost)?;
        server.wait_until(Instant::now() + ANSWER_TIMEOUT);
        let answer = server.ask(method, params).map_err(|error| silent(&thread, &error))?;
        answer.map_err(|words| said(method, &words))
    }
}

impl PrivateServer for PrivateAppServer {
    fn equip(&mut self, spawn: &mut SpawnPlan, folder: &Path) -> Result<(), Error> {
        self.socket = folder.join("codex.sock");
        if self.socket.as_os_str().len() > LONGEST_ADDRESS {
            let reason = format!("{} is too long for the name of a socket", self.socket.display());
            return Err(Error::refused(reason).hint("set AGENTCTL_HOME to a shorter path"));
        }
        spawn.args.extend(["--listen".to_owned(), format!("unix://{}", self.socket.display())]);
        Ok(())
    }

    fn connect(&mut self, _printed: &str) -> io::Result<()> {
        self.server = None;
        self.server = Some(Server::connect(&self.socket, ANSWER_TIMEOUT)?);
        Ok(())
    }

    fn join(&mut self) -> Result<String, Error> {
        let (method, settings) = match &self.thread {
            None => self.opening.clone(),
            Some(thread) => ("thread/resume", json!({"threadId": thread, "excludeTurns": true})),
        };
        let opened = self.ask(method, &settings)?;
        let thread = &opened["thread"];
        let id = thread["id"].as_str().ok_or_else(|| said(method, "it names no thread"))?.to_owned();
        if self.thread.is_some() {
            // A turn may have begun or ended while nobody listened.
            let is_active = thread["status"]["type"] == "active";
            self.heard.push_back(if is_active { Said::TurnOpened } else { Said::TurnEnded(TurnEnd::Ended) });
        }
        self.thread = Some(id.clone());
        Ok(id)
    }

    fn say(&mut self, words: &str) -> Result<(), Error> {
        let start = json!({"threadId": self.thread, "input": [{"type": "text", "text": words}]});
        self.ask("turn/start", &start).map(drop)
    }

    /// The requests of the thread come here too. They stay open, for whoever answers them.
    fn hear(&mut self, timeout: Duration) -> io::Result<Option<Said>> {
        if let Some(said) = self.heard.pop_front() {
            return Ok(Some(said));
        }
        let until = Instant::now() + timeout;
        let server = self.server.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        server.wait_until(until);
        loop {
            match server.receive() {
                Ok(message) if message["params"]["threadId"].as_str() == self.thread.as_deref() => {
                    if let Some(said) = turn(&message) {
                        return Ok(Some(said));
                    }
                }
                Ok(_) => {}
                Err(error) if is_silence(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    fn interrupt(&mut self) -> Result<(), Error> {
        let Some(thread) = &self.thread else { return Ok(()) };
        Steered::reach(&self.socket, thread)?.interrupt().map(drop)
    }
}

/// What a notification says of a turn. Pure.
fn turn(message: &Value) -> Option<Said> {
    let turn = &message["params"]["turn"];
    match message["method"].as_str()? {
        "turn/started" => Some(Said::TurnOpened),
        "turn/completed" => Some(Said::TurnEnded(match turn["status"].as_str() {
            Some("interrupted") => TurnEnd::Interrupted,
            Some("failed") => {
                let words = turn["error"]["message"].as_str().unwrap_or("the turn failed");
                TurnEnd::Failed { words: words.to_owned() }
            }
            _ => TurnEnd::Ended,
        })),
        _ => None,
    }
}
