//! Sends what is in the outbox, a few webhooks at a time: a receiver that hangs delays only its own order
//! key.

use std::sync::Arc;

use agentctl_fleet::keep::outbox::{Delivery, Signature, sign};
use ureq::Agent;

use super::http;
use crate::run::clock;
use crate::shared::Shared;
use crate::tell::notices::presets::{self, Kept, Preset};

const AT_ONCE: usize = 4;

/// Starts the sending threads, which end when the outbox is closed.
pub(crate) fn start_senders(shared: &Arc<Shared>) -> std::io::Result<()> {
    let agent = http::agent();
    for number in 0..AT_ONCE {
        let (shared, agent) = (shared.clone(), agent.clone());
        let name = format!("webhook-{number}");
        std::thread::Builder::new().name(name).spawn(move || {
            while let Some((name, delivery)) = shared.outbox.next() {
                attempt(&shared, &agent, &name, delivery);
            }
        })?;
    }
    Ok(())
}

fn attempt(shared: &Shared, agent: &Agent, name: &str, delivery: Delivery) {
    let id = delivery.id.clone();
    let noted = match send(shared, agent, &delivery) {
        Ok(()) => shared.outbox.delivered(name),
        Err(why) => {
            let words = format!("webhook {id}: {why}");
            shared.outbox.failed(name, delivery, why).map(|given_up| {
                shared.log.say(&if given_up { format!("{words}; given up") } else { words });
            })
        }
    };
    if let Err(error) = noted {
        shared.log.say(&format!("webhook {id}: the outbox cannot be written: {error}"));
    }
}

fn send(shared: &Shared, agent: &Agent, delivery: &Delivery) -> Result<(), String> {
    if let Some(preset) = &delivery.notice {
        return send_notice(shared, agent, preset, &delivery.body);
    }
    let settings = shared.settings.webhook();
    let configured = settings.as_ref().map(|settings| settings.url.clone());
    let url = delivery.url.clone().or(configured).ok_or("no address is configured any more")?;
    let mut request = agent
        .post(&url)
        .header("Content-Type", "application/json")
        .header("X-Agentctl-Delivery", &delivery.id);
    let digits = match &delivery.signature {
        Signature::BySender => {
            let secret = settings.and_then(|settings| settings.secret);
            secret.map(|secret| sign(&secret, delivery.body.as_bytes()))
        }
        Signature::Given(digits) => Some(digits.clone()),
        Signature::None => None,
    };
    if let Some(digits) = digits {
        request = request
            .header("X-Agentctl-Signature", format!("sha256={digits}"))
            .header("X-Hub-Signature-256", format!("sha256={digits}"))
            .header("X-Signature", digits);
    }
    match request.send(delivery.body.as_bytes()) {
        Ok(response) if response.status().is_success() => Ok(()),
        Ok(response) => Err(format!("the receiver answered {}", response.status())),
        Err(error) => Err(error.to_string()),
    }
}

/// Sends a notice by the settings as they are now. One that nobody can be told of any more is dropped.
fn send_notice(shared: &Shared, agent: &Agent, preset: &str, body: &str) -> Result<(), String> {
    let preset = Preset::ALL.into_iter().find(|known| known.as_str() == preset);
    let kept = serde_json::from_str::<Kept>(body).ok();
    let settings = shared.settings.notify();
    let wanted = preset.zip(kept).zip(settings).filter(|((preset, _), settings)| settings.has(*preset));
    let Some(((preset, kept), settings)) = wanted else { return Ok(()) };
    if kept.is_stale(clock::now()) {
        shared.log.say(&format!("notify {}: dropped, it is too old to help", preset.as_str()));
        return Ok(());
    }
    presets::send_with(agent, preset, &settings, &kept).map_err(|untold| untold.message)
}
