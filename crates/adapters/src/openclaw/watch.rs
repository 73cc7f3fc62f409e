//! One long connection on which a gateway tells what changes. What it tells is a reason to read again, never a fact:
//! pushes can be lost, and after every gap the list is the truth.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, READ};
use super::gateway::Gateway;
use super::trouble::Trouble;

/// The gateway ticks every 30 s; after three missing ticks nobody is there.
const LONGEST_SILENCE: Duration = Duration::from_secs(95);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How the gateway closes connections when its own settings changed: it is there, and wants us back.
const POLICY_CHANGED: u16 = 4001;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Nothing,
    /// Connected (again): everything must be read. `restarted` when it is another life of the gateway.
    Connected {
        restarted: bool,
    },
    /// This session, or with `None` any, may have changed.
    Changed {
        key: Option<String>,
    },
    /// It cannot be heard; nothing is known until it is back.
    Lost {
        why: String,
        retry_in: Duration,
    },
}

pub struct Watch {
    gateway: Gateway,
    client: Option<Client>,
    boot: Option<String>,
    heard: Instant,
    pause: Duration,
    retry_at: Instant,
}

impl Watch {
    pub fn new(gateway: Gateway) -> Self {
        let now = Instant::now();
        Self { gateway, client: None, boot: None, heard: now, pause: FIRST_PAUSE, retry_at: now }
    }

    /// What happens within this time. Connects where there is no connection, after the pause that is due.
    pub fn next(&mut self, patience: Duration) -> News {
        let now = Instant::now();
        let Some(client) = &mut self.client else {
            let due = self.retry_at.saturating_duration_since(now);
            std::thread::sleep(due.min(patience));
            return if due > patience { News::Nothing } else { self.connect() };
        };
        match client.listen(patience) {
            Ok(Some(event)) => {
                self.heard = Instant::now();
                news(&event.name, &event.payload)
            }
            Ok(None) if self.heard.elapsed() > LONGEST_SILENCE => {
                self.lose(&Trouble::Silent { during: "events".to_owned(), patience: LONGEST_SILENCE })
            }
            Ok(None) => News::Nothing,
            Err(trouble) => self.lose(&trouble),
        }
    }

    fn connect(&mut self) -> News {
        let subscribed = self.gateway.connect(&[READ]).and_then(|mut client| {
            let _: Value = client.ask("sessions.subscribe", &json!({}))?;
            Ok(client)
        });
        match subscribed {
            Ok(client) => {
                let restarted = self.boot.is_some() && self.boot != client.hello.boot;
                self.boot.clone_from(&client.hello.boot);
                self.client = Some(client);
                self.heard = Instant::now();
                self.pause = FIRST_PAUSE;
                News::Connected { restarted }
            }
            Err(trouble) => self.lose(&trouble),
        }
    }

    fn lose(&mut self, trouble: &Trouble) -> News {
        self.client = None;
        let asked = trouble.refusal().and_then(|refusal| refusal.retry_after_ms).map(Duration::from_millis);
        let retry_in = match trouble.close_code() {
            Some(POLICY_CHANGED) => Duration::ZERO,
            _ => asked.map_or(self.pause, |asked| asked.max(self.pause)),
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.retry_at = Instant::now() + retry_in;
        News::Lost { why: trouble.to_string(), retry_in }
    }
}

/// Which session an event is about, if it is about any.
fn news(event: &str, payload: &Value) -> News {
    match event {
        "sessions.changed"
        | "session.message"
        | "exec.approval.requested"
        | "exec.approval.resolved"
        | "cron" => {
            let key = payload["sessionKey"].as_str().or_else(|| payload["request"]["sessionKey"].as_str());
            News::Changed { key: key.map(str::to_owned) }
        }
        _ => News::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushes_name_what_is_to_be_read_again() {
        let changed = |key: Option<&str>| News::Changed { key: key.map(str::to_owned) };
        assert_eq!(news("tick", &json!({})), News::Nothing);
        assert_eq!(news("sessions.changed", &json!({})), changed(None));
        assert_eq!(news("sessions.changed", &json!({"sessionKey": "k"})), changed(Some("k")));
        let approval = json!({"id": "1", "request": {"sessionKey": "k"}});
        assert_eq!(news("exec.approval.requested", &approval), changed(Some("k")));
    }
}
