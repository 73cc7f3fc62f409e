//! One long-lived connection on which a gateway announces changes. An announcement is a reason to read again, never a
//! fact: announcements can be lost, and after every gap only the list says what is true.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::connection::{Connection, Event, READ};
use super::error::GatewayError;
use super::gateway_client::GatewayClient;
use crate::feed::{Feed, FeedMessage, Lost};

/// The gateway sends a tick every 30 s; after three missing ticks it counts as gone.
const LONGEST_SILENCE: Duration = Duration::from_secs(95);
/// The code with which the gateway closes connections when its own settings changed: it still runs, and expects us to
/// reconnect.
const POLICY_CHANGED: u16 = 4001;
/// A refused client reconnects rarely: a gateway locks out clients that present a wrong token too often.
const UNTIL_LET_IN: Duration = Duration::from_mins(5);

pub struct Watch {
    gateway: GatewayClient,
    connection: Option<Connection>,
    /// The last run of the gateway that was connected to, by the gateway's own id for it.
    boot: Option<String>,
    last_event: Instant,
}

impl Watch {
    pub fn new(gateway: GatewayClient) -> Self {
        Self { gateway, connection: None, boot: None, last_event: Instant::now() }
    }

    fn connect(&mut self) -> Result<FeedMessage, GatewayError> {
        let mut connection = self.gateway.connect(&[READ])?;
        let _: Value = connection.ask("sessions.subscribe", &json!({}))?;
        let boot = connection.hello.boot.clone();
        // If either of them did not give its id, it is unknown whether the gateway restarted.
        let restarted = self.boot.is_some() && boot.is_some() && self.boot != boot;
        self.boot = boot.or_else(|| self.boot.take());
        self.connection = Some(connection);
        self.last_event = Instant::now();
        Ok(if restarted { FeedMessage::Restarted } else { FeedMessage::Changed })
    }

    fn listen(&mut self, timeout: Duration) -> Result<FeedMessage, GatewayError> {
        let Some(connection) = &mut self.connection else { return self.connect() };
        match connection.listen(timeout)? {
            Some(event) => {
                self.last_event = Instant::now();
                Ok(feed_message(&event))
            }
            None if self.last_event.elapsed() > LONGEST_SILENCE => {
                Err(GatewayError::Silent { during: "events".to_owned(), timeout: LONGEST_SILENCE })
            }
            None => Ok(FeedMessage::Nothing),
        }
    }
}

impl Feed for Watch {
    fn next(&mut self, timeout: Duration) -> Result<FeedMessage, Lost> {
        self.listen(timeout).map_err(|error| {
            self.connection = None;
            Lost { why: error.to_string(), retry_in: retry_in(&error) }
        })
    }
}

/// When to reconnect; `None` if nothing says.
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

/// Whether an event can change a list. The text of a run in progress changes nothing; that the run waits for an
/// approval does, and only the run itself announces it to a reader.
fn feed_message(event: &Event) -> FeedMessage {
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
            feed_message(&Event { name: name.to_owned(), phase: phase.map(str::to_owned) })
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
