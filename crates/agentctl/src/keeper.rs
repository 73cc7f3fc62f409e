//! What the daemon asks of the binary: the settings in force now, in the environment that it was started in.

use agentctl_daemon::{Hands, NotifySettings, Settings, WebhookSettings};
use agentctl_fleet::{AdapterEntry, Fleet, known_agents};
use agentctl_model::SessionKey;

use crate::failure::Failure;
use crate::surroundings::Surroundings;

pub(crate) struct Keeper(pub(crate) Surroundings);

impl Settings for Keeper {
    fn fleet(&self) -> Result<Fleet, String> {
        self.0.fleet().map_err(words)
    }

    fn adapters(&self) -> Result<Vec<AdapterEntry>, String> {
        let settings = self.0.settings().map_err(|error| words(error.into()))?;
        Ok(known_agents(|name| settings.adapter(name).enabled.value))
    }

    fn webhook(&self) -> Option<WebhookSettings> {
        let webhook = self.0.settings().ok()?.webhook;
        Some(WebhookSettings {
            url: webhook.url.value?,
            secret: webhook.secret.value,
            events: webhook.events.value,
        })
    }

    fn notify(&self) -> Option<NotifySettings> {
        let notify = self.0.settings().ok()?.notify;
        Some(NotifySettings { command: notify.command.value?, on: notify.on.value })
    }
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Said { message, .. } => message,
        Failure::ReaderGone => "nobody reads the output".to_owned(),
    }
}

/// Until there is `stop`: a fuse of a session warns and tells, and says that it could do no more.
pub(crate) struct NoHands;

impl Hands for NoHands {
    fn interrupt(&self, _: &SessionKey) -> Result<(), String> {
        Err("this agentctl cannot interrupt sessions yet".to_owned())
    }

    fn stop(&self, _: &SessionKey) -> Result<(), String> {
        Err("this agentctl cannot stop sessions yet".to_owned())
    }
}
