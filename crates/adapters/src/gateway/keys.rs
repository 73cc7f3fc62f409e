//! What opens the door of a gateway.

use std::fmt;

use crate::gateway::peer::PeerCheck;
use crate::wire::tls::Pin;

/// A word that must never be seen: not in a message, not in a log, not in JSON. Only the wire gets it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Secret(String);

impl Secret {
    /// `None` for an empty one, which opens nothing.
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

/// Everything a gateway may ask for before it speaks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Keys {
    pub token: Option<Secret>,
    pub password: Option<Secret>,
    /// The seed of this machine's own device key, 64 hexadecimal digits.
    pub device: Option<Secret>,
    /// The one certificate to trust, where somebody named it; otherwise those that the system trusts.
    pub pin: Option<Pin>,
    /// Whether what waits for a person is read too, which a gateway shows to its administrators only; `None` where nobody
    /// decided.
    pub approvals: Option<bool>,
    /// Who is asked whose port it is before any of this is sent.
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
