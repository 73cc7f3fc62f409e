//! A private server: one session, begun and watched by its runner. Its password is known from its own environment alone.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use agentctl_model::text::{clean_cut, one_line};
use agentctl_model::{Conversation, Error, Intent, Permission, SpawnPlan};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use super::feed::subscribe;
use super::http::{ACTION_TIMEOUT, DEFAULT_USER, Door, PASSWORD, Reply, USER, get, post};
use super::steer::Steered;
use crate::control::LiveSession;
use crate::hold::{PrivateServer, Said, TurnEnd};
use crate::wire::deadline::{Bounded, Timed};
use crate::wire::http::{Events, escaped};

/// What the server prints before its address.
const LISTENING: &str = "listening on http://";

/// The private server of one session.
pub(crate) struct PrivateOpenCode {
    directory: String,
    conversation: Conversation,
    /// A provider and the name of its model.
    model: Option<(String, String)>,
    agent: Option<&'static str>,
    password: String,
    door: Option<Door>,
    events: Option<Events<Bounded<TcpStream>>>,
    session: Option<String>,
    turn_open: bool,
    /// How the open turn is about to end, if not in the ordinary way.
    end: Option<TurnEnd>,
}

impl PrivateOpenCode {
    pub(crate) fn of(intent: &Intent, model: Option<(&str, &str)>) -> Self {
        Self {
            directory: intent.cwd.to_string_lossy().into_owned(),
            conversation: intent.conversation.clone(),
            model: model.map(|(provider, name)| (provider.to_owned(), name.to_owned())),
            agent: (intent.permission == Some(Permission::Plan)).then_some("plan"),
            password: String::new(),
            door: None,
            events: None,
            session: None,
            turn_open: false,
            end: None,
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let door = self.door.as_ref().ok_or_else(|| Error::no_answer("the server does not listen"))?;
        let target = format!("{path}?directory={}", escaped(&self.directory));
        match post(door, &target, &body.to_string()) {
            Ok(Reply { status: 200..300, body }) => Ok(serde_json::from_slice(&body).unwrap_or_default()),
            Ok(Reply { status, body }) => {
                let words = clean_cut(&one_line(&String::from_utf8_lossy(&body)), Some(300));
                Err(Error::refused(format!("opencode refused {path}: {status} {words}")))
            }
            Err(error) => Err(Error::no_answer(format!("opencode did not answer: {error}"))),
        }
    }

    /// Refuses a model that the server does not have. It would take the prompt and leave no record of its error.
    fn check_model(&self, provider: &str, name: &str) -> Result<(), Error> {
        let target = format!("/config/providers?directory={}", escaped(&self.directory));
        let listed = self.door.as_ref().and_then(|door| get(door, &target, ACTION_TIMEOUT));
        let listed: Value = listed.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
        let Some(providers) = listed["providers"].as_array() else { return Ok(()) };
        let has_it = |one: &Value| one["id"] == provider && one["models"].get(name).is_some();
        if providers.iter().any(has_it) {
            return Ok(());
        }
        Err(Error::refused(format!("model not found: {provider}/{name}"))
            .hint("`opencode models` lists them"))
    }

    /// What an event says of the turns of this session.
    fn take(&mut self, data: &str) -> Option<Said> {
        let event: Value = serde_json::from_str(data).ok()?;
        let (payload, about) = (&event["payload"], &event["payload"]["properties"]);
        if about["sessionID"].as_str() != self.session.as_deref() {
            return None;
        }
        match payload["type"].as_str()? {
            "session.status" if about["status"]["type"] != "idle" => {
                self.turn_open = true;
                Some(Said::TurnOpened)
            }
            "session.idle" => {
                self.turn_open = false;
                Some(Said::TurnEnded(self.end.take().unwrap_or(TurnEnd::Ended)))
            }
            "session.error" => {
                let error = &about["error"];
                let end = if error["name"] == "MessageAbortedError" {
                    TurnEnd::Interrupted
                } else {
                    let words = error["data"]["message"].as_str().or(error["name"].as_str());
                    TurnEnd::Failed { words: words.unwrap_or("the turn failed").to_owned() }
                };
                // A prompt that cannot become a turn fails without one.
                if !self.turn_open {
                    return Some(Said::TurnEnded(end));
                }
                self.end = Some(end);
                None
            }
            _ => None,
        }
    }
}

/// The address in what the server printed, once the line is complete.
fn address_in(printed: &str) -> Option<SocketAddr> {
    let mut lines = printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    lines.find_map(|line| line.split_once(LISTENING)?.1.trim().parse().ok())
}

impl PrivateServer for PrivateOpenCode {
    fn equip(&mut self, spawn: &mut SpawnPlan, _folder: &Path) -> Result<(), Error> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| Error::agent_failed("there is no randomness for a password"))?;
        self.password = data_encoding::HEXLOWER.encode(&secret);
        spawn.env.insert(PASSWORD.to_owned(), self.password.clone());
        spawn.env.insert(USER.to_owned(), DEFAULT_USER.to_owned());
        Ok(())
    }

    fn connect(&mut self, printed: &str) -> io::Result<()> {
        self.events = None;
        let door = if let Some(door) = self.door.take() {
            door
        } else {
            let address = address_in(printed).ok_or(io::ErrorKind::NotConnected)?;
            Door::with_password(address, DEFAULT_USER, &self.password)
        };
        let events = subscribe(&door);
        self.door = Some(door);
        self.events = Some(events?);
        Ok(())
    }

    fn join(&mut self) -> Result<String, Error> {
        if let Some(session) = &self.session {
            return Ok(session.clone());
        }
        let id = match &self.conversation {
            Conversation::Stored { id, .. } => Some(id.clone()),
            Conversation::New => self.post("/session", &json!({}))?["id"].as_str().map(str::to_owned),
            Conversation::ForkOf { id, .. } => {
                let made = self.post(&format!("/session/{}/fork", escaped(id)), &json!({}))?;
                made["id"].as_str().map(str::to_owned)
            }
        };
        let id = id.ok_or_else(|| Error::agent_failed("opencode names no session"))?;
        self.session = Some(id.clone());
        Ok(id)
    }

    fn say(&mut self, words: &str) -> Result<(), Error> {
        let mut prompt = json!({"parts": [{"type": "text", "text": words}]});
        if let Some((provider, name)) = &self.model {
            self.check_model(provider, name)?;
            prompt["model"] = json!({"providerID": provider, "modelID": name});
        }
        if let Some(agent) = self.agent {
            prompt["agent"] = agent.into();
        }
        let session = self.session.as_deref().unwrap_or_default();
        self.post(&format!("/session/{}/prompt_async", escaped(session)), &prompt).map(drop)
    }

    fn hear(&mut self, timeout: Duration) -> io::Result<Option<Said>> {
        let until = Instant::now() + timeout;
        loop {
            let events = self.events.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            events.stream().wait_until(until);
            match events.next_event() {
                Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Some(event)) => {
                    if let Some(said) = self.take(&event.data) {
                        return Ok(Some(said));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(error) => return Err(error),
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    fn interrupt(&mut self) -> Result<(), Error> {
        let (Some(door), Some(session)) = (&self.door, &self.session) else { return Ok(()) };
        let doors = std::slice::from_ref(door);
        Steered::reach(doors, &self.directory, session)?.interrupt().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_a_whole_line() {
        let printed = "Warning: x\nopencode server listening on http://127.0.0.1:4096\n";
        assert_eq!(address_in(printed), Some(SocketAddr::from(([127, 0, 0, 1], 4096))));
        assert_eq!(address_in("opencode server listening on http://127.0.0.1:40"), None, "it may go on");
    }
}
