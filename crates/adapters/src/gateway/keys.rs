//! The credentials for a gateway.

use std::fmt;

use crate::gateway::peer::PeerCheck;
use crate::wire::tls::Pin;

/// A text that must never be shown: not in a message, not in a log, not in JSON. It is only sent over the connection.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Secret(String);

impl Secret {
    /// `None` for an empty text, which grants nothing.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        Some(text.into().trim().to_owned()).filter(|text| !text.is_empty()).map(Self)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("(hidden)")
    }
}

/// Everything a gateway may require before it answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keys {
    pub token: Option<Secret>,
    pub password: Option<Secret>,
    /// The seed of this machine's own device key, 64 hexadecimal digits.
    pub device: Option<Secret>,
    /// The only certificate to trust, if the user named one; otherwise the system decides which are trusted.
    pub pin: Option<Pin>,
    /// Whether pending approvals are read too, which a gateway shows only to administrators; `None` when nobody
    /// decided.
    pub approvals: Option<bool>,
    /// Finds out who accepted the connection before any of this is sent.
    pub peer_check: PeerCheck,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let keys = Keys { token: Secret::new("s3cret"), ..Keys::default() };
        assert!(!format!("{keys:?}").contains("s3cret"));
        assert_eq!(Secret::new("  "), None);
    }
}
