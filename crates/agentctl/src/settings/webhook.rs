//! `[webhook]`: where agentctl announces changes, and which ones.

use agentctl_model::{Environ, EventKind};
use serde::Deserialize;

use super::{Origin, Setting, known};

/// The values of every `--type`.
pub(crate) fn event_types() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(EventKind::names())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Webhook {
    pub(crate) url: Setting<Option<String>>,
    /// The key that signs deliveries; it must never be shown.
    pub(crate) secret: Setting<Option<String>>,
    pub(crate) events: Setting<Vec<EventKind>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookForm {
    url: Option<Address>,
    secret: Option<String>,
    events: Option<Vec<EventType>>,
}

impl WebhookForm {
    /// Variables override the file.
    pub(super) fn settle(self, environ: &Environ) -> Webhook {
        let layered = |file: Option<String>, name: &str| match environ.text(name) {
            Some(value) => {
                Setting { value: Some(value.to_owned()), origin: Origin::Environment(name.to_owned()) }
            }
            None => Setting::optional(file),
        };
        let events = self.events.map(|events| events.into_iter().map(|event| event.0).collect());
        Webhook {
            url: layered(self.url.map(|url| url.0), "AGENTCTL_WEBHOOK_URL"),
            secret: layered(self.secret, "AGENTCTL_WEBHOOK_SECRET"),
            events: Setting::layered(vec![EventKind::SessionStopped], events),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Address(pub(super) String);

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if agentctl_fleet::keep::outbox::is_address(&text) {
            return Ok(Self(text));
        }
        Err(format!("`{text}` is no address, expected https://… or http://…"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct EventType(EventKind);

impl TryFrom<String> for EventType {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let name = known(name, "event", EventKind::names().into_iter())?;
        EventKind::parse(&name).map(Self).ok_or(name)
    }
}
