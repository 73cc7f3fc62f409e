//! The client that sends webhooks and notices.

use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// The timeout of the whole exchange.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn agent() -> Agent {
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
