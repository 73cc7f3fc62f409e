//! Sends what is in the outbox, a few webhooks at a time: a receiver that hangs delays only its own order
//! key.

use std::sync::Arc;
use std::time::Duration;

use agentctl_fleet::keep::outbox::{Delivery, Signature, sign};
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

use crate::shared::Shared;

const AT_ONCE: usize = 4;
/// The timeout of the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the sending threads, which end when the outbox is closed.
pub(crate) fn start_senders(shared: &Arc<Shared>) -> std::io::Result<()> {
    let agent = agent();
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

fn agent() -> Agent {
    let crypto = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .root_certs(RootCerts::PlatformVerifier)
        .unversioned_rustls_crypto_provider(crypto)
        .build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        // A redirect would send a signed message to an address that the user did not configure.
        .max_redirects(0)
        .user_agent(concat!("agentctl/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
}
