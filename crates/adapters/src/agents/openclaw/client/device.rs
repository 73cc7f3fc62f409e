//! The identity of this machine for a gateway that does not know it yet: an Ed25519 key, and the text it signs.

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::Secret;

/// The signed part of what a client says about itself in `connect`.
pub(crate) struct Claims<'a> {
    pub(crate) client: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) role: &'a str,
    pub(crate) scopes: &'a [&'a str],
    pub(crate) platform: &'a str,
    /// The exact text that is sent as token or password; empty when there is none.
    pub(crate) secret: &'a str,
}

/// The gateway's challenge.
pub(crate) struct Challenge<'a> {
    pub(crate) nonce: &'a str,
    /// By the gateway's own clock, so that ours does not matter.
    pub(crate) at_ms: i64,
}

pub(crate) struct Device(Ed25519KeyPair);

impl Device {
    /// The key with this seed; `None` when the text is not a seed.
    pub(crate) fn from_seed(seed: &Secret) -> Option<Self> {
        let seed = HEXLOWER_PERMISSIVE.decode(seed.reveal().as_bytes()).ok()?;
        Ed25519KeyPair::from_seed_unchecked(&seed).ok().map(Self)
    }

    pub(crate) fn id(&self) -> String {
        HEXLOWER.encode(digest(&SHA256, self.public_key()).as_ref())
    }

    fn public_key(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    /// The `device` object of a `connect`.
    pub(crate) fn block(&self, claims: &Claims<'_>, challenge: &Challenge<'_>) -> Value {
        let signed = self.0.sign(self.text(claims, challenge).as_bytes());
        json!({
            "id": self.id(),
            "publicKey": BASE64URL_NOPAD.encode(self.public_key()),
            "signature": BASE64URL_NOPAD.encode(signed.as_ref()),
            "signedAt": challenge.at_ms,
            "nonce": challenge.nonce,
        })
    }

    /// Version 3 of the signed text; the device family is left empty.
    fn text(&self, claims: &Claims<'_>, challenge: &Challenge<'_>) -> String {
        let Claims { client, mode, role, scopes, platform, secret } = claims;
        let (id, scopes) = (self.id(), scopes.join(","));
        let (at, nonce, platform) = (challenge.at_ms, challenge.nonce, platform.trim().to_ascii_lowercase());
        format!("v3|{id}|{client}|{mode}|{role}|{scopes}|{at}|{secret}|{nonce}|{platform}|")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded with a key that a real gateway accepted.
    #[test]
    fn the_recorded_signature_is_ours() {
        let seed = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let device = Device::from_seed(&Secret::new(seed).unwrap()).unwrap();
        assert_eq!(device.id(), "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c");
        let claims = Claims {
            client: "cli",
            mode: "cli",
            role: "operator",
            scopes: &["operator.read", "operator.write"],
            platform: "Linux",
            secret: "GATEWAY_TOKEN",
        };
        let challenge = Challenge { nonce: "00000000-0000-4000-8000-000000000000", at_ms: 1_737_264_000_000 };
        let block = device.block(&claims, &challenge);
        assert_eq!(block["publicKey"], "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg");
        assert_eq!(
            block["signature"],
            "lBrkkDV6EY-9PKK_e-8SLEhyHluR8jYZfzF5OODXf4Cg6XgKRT6ajMaqgVp3LaMreheEqHyU9xB-dmfsh6Z1DA"
        );
    }

    #[test]
    fn what_is_no_seed_is_no_device() {
        for odd in [
            "x",
            "é".repeat(32).as_str(),
            "g".repeat(64).as_str(),
            "00".repeat(31).as_str(),
            &"00".repeat(33),
        ] {
            assert!(Device::from_seed(&Secret::new(odd).unwrap()).is_none(), "{odd}");
        }
    }
}
