//! One long connection on which a gateway tells what changes. What it tells is a reason to read again, never a fact:
//! pushes can be lost, and after every gap the list is the truth.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::connection::{Connection, Event, READ};
use super::error::GatewayError;
use super::gateway_client::GatewayClient;
use crate::feed::{Feed, FeedMessage, Lost};

/// The gateway ticks every 30 s; after three missing ticks nobody is there.
const LONGEST_SILENCE: Duration = Duration::from_secs(95);
/// How the gateway closes connections when its own settings changed: it is there, and wants us back.
const POLICY_CHANGED: u16 = 4001;
/// Who was not let in comes back seldom: a gateway locks out whoever shows a wrong token too often.
const UNTIL_LET_IN: Duration = Duration::from_mins(5);

pub struct Watch {
    gateway: GatewayClient,
    connection: Option<Connection>,
    /// The life of the gateway that was heard last, by its own name.
    boot: Option<String>,
    heard: Instant,
}

impl Watch {
    pub fn new(gateway: GatewayClient) -> Self {
        Self { gateway, connection: None, boot: None, heard: Instant::now() }
    }

    fn connect(&mut self) -> Result<FeedMessage, GatewayError> {
        let mut connection = self.gateway.connect(&[READ])?;
        let _: Value = connection.ask("sessions.subscribe", &json!({}))?;
        let boot = connection.hello.boot.clone();
        // Where either did not say its name, nobody knows whether it is another one.
        let restarted = self.boot.is_some() && boot.is_some() && self.boot != boot;
        self.boot = boot.or_else(|| self.boot.take());
        self.connection = Some(connection);
        self.heard = Instant::now();
        Ok(if restarted { FeedMessage::Restarted } else { FeedMessage::Changed })
    }

    fn listen(&mut self, patience: Duration) -> Result<FeedMessage, GatewayError> {
        let Some(connection) = &mut self.connection else { return self.connect() };
        match connection.listen(patience)? {
            Some(event) => {
                self.heard = Instant::now();
                Ok(news(&event))
            }
            None if self.heard.elapsed() > LONGEST_SILENCE => {
                Err(GatewayError::Silent { during: "events".to_owned(), patience: LONGEST_SILENCE })
            }
            None => Ok(FeedMessage::Nothing),
        }
    }
}

impl Feed for Watch {
    fn next(&mut self, patience: Duration) -> Result<FeedMessage, Lost> {
        self.listen(patience).map_err(|error| {
            self.connection = None;
            Lost { why: error.to_string(), retry_in: retry_in(&error) }
        })
    }
}

/// When to come back; `None` where nobody says.
fn retry_in(error: &GatewayError) -> Option<Duration> {
    match error {
        GatewayError::Refused { refusal, .. } => match refusal.retry_after_ms {
            Some(pause) => Some(Duration::from_millis(pause)),
            None => (!refusal.retryable).then_some(UNTIL_LET_IN),
        },
        GatewayError::NoScope { .. } | GatewayError::Unsafe(_) => Some(UNTIL_LET_IN),
        lost => (lost.close_code() == Some(POLICY_CHANGED)).then_some(Duration::ZERO),
    }
}

/// Whether an event can change a list. The words of a run in progress change nothing; that it waits for an approval does,
/// and a reader is told so only by the run itself.
fn news(event: &Event) -> FeedMessage {
    match (event.name.as_str(), event.phase.as_deref()) {
        ("sessions.changed" | "session.message" | "cron" | "shutdown", _)
        | ("agent", Some("waiting-approval" | "approval-resolved")) => FeedMessage::Changed,
        _ => FeedMessage::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_change_a_list_is_news() {
        let of = |name: &str, phase: Option<&str>| {
            news(&Event { name: name.to_owned(), phase: phase.map(str::to_owned) })
        };
        for name in ["sessions.changed", "session.message", "cron", "shutdown"] {
            assert_eq!(of(name, None), FeedMessage::Changed, "{name}");
        }
        for name in ["tick", "health", "agent", "chat", "presence"] {
            assert_eq!(of(name, None), FeedMessage::Nothing, "{name}");
        }
        assert_eq!(of("agent", Some("waiting-approval")), FeedMessage::Changed);
        assert_eq!(of("agent", Some("model")), FeedMessage::Nothing);
    }
}
