//! One long connection on which a gateway tells what changes. What it tells is a reason to read again, never a fact:
//! pushes can be lost, and after every gap the list is the truth.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Event, READ};
use super::gateway::Gateway;
use super::trouble::Trouble;
use crate::feed::{Feed, Lost, News};

/// The gateway ticks every 30 s; after three missing ticks nobody is there.
const LONGEST_SILENCE: Duration = Duration::from_secs(95);
/// How the gateway closes connections when its own settings changed: it is there, and wants us back.
const POLICY_CHANGED: u16 = 4001;
/// Who was not let in comes back seldom: a gateway locks out whoever shows a wrong token too often.
const UNTIL_LET_IN: Duration = Duration::from_mins(5);

pub struct Watch {
    gateway: Gateway,
    client: Option<Client>,
    /// The life of the gateway that was heard last, by its own name.
    boot: Option<String>,
    heard: Instant,
}

impl Watch {
    pub fn new(gateway: Gateway) -> Self {
        Self { gateway, client: None, boot: None, heard: Instant::now() }
    }

    fn connect(&mut self) -> Result<News, Trouble> {
        let mut client = self.gateway.connect(&[READ])?;
        let _: Value = client.ask("sessions.subscribe", &json!({}))?;
        let boot = client.hello.boot.clone();
        // Where either did not say its name, nobody knows whether it is another one.
        let restarted = self.boot.is_some() && boot.is_some() && self.boot != boot;
        self.boot = boot.or_else(|| self.boot.take());
        self.client = Some(client);
        self.heard = Instant::now();
        Ok(if restarted { News::Restarted } else { News::Changed })
    }

    fn listen(&mut self, patience: Duration) -> Result<News, Trouble> {
        let Some(client) = &mut self.client else { return self.connect() };
        match client.listen(patience)? {
            Some(event) => {
                self.heard = Instant::now();
                Ok(news(&event))
            }
            None if self.heard.elapsed() > LONGEST_SILENCE => {
                Err(Trouble::Silent { during: "events".to_owned(), patience: LONGEST_SILENCE })
            }
            None => Ok(News::Nothing),
        }
    }
}

impl Feed for Watch {
    fn next(&mut self, patience: Duration) -> Result<News, Lost> {
        self.listen(patience).map_err(|trouble| {
            self.client = None;
            Lost { why: trouble.to_string(), retry_in: retry_in(&trouble) }
        })
    }
}

/// When to come back; `None` where nobody says.
fn retry_in(trouble: &Trouble) -> Option<Duration> {
    match trouble {
        Trouble::Refused { refusal, .. } => match refusal.retry_after_ms {
            Some(pause) => Some(Duration::from_millis(pause)),
            None => (!refusal.retryable).then_some(UNTIL_LET_IN),
        },
        Trouble::NoScope { .. } | Trouble::Unsafe(_) => Some(UNTIL_LET_IN),
        lost => (lost.close_code() == Some(POLICY_CHANGED)).then_some(Duration::ZERO),
    }
}

/// Whether an event can change a list. The words of a run in progress change nothing; that it waits for an approval does,
/// and a reader is told so only by the run itself.
fn news(event: &Event) -> News {
    match (event.name.as_str(), event.phase.as_deref()) {
        ("sessions.changed" | "session.message" | "cron" | "shutdown", _)
        | ("agent", Some("waiting-approval" | "approval-resolved")) => News::Changed,
        _ => News::Nothing,
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
            assert_eq!(of(name, None), News::Changed, "{name}");
        }
        for name in ["tick", "health", "agent", "chat", "presence"] {
            assert_eq!(of(name, None), News::Nothing, "{name}");
        }
        assert_eq!(of("agent", Some("waiting-approval")), News::Changed);
        assert_eq!(of("agent", Some("model")), News::Nothing);
    }
}
