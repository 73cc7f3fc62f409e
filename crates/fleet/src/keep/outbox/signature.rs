//! Signs webhooks, so that a receiver can tell that they are ours. Only this file knows the library behind it.
//!
//! A process that stores a webhook under a secret of its own signs it at once: the signature is written down, the
//! secret never.

use data_encoding::HEXLOWER;
use ring::hmac;

/// HMAC-SHA256 of the body, in hexadecimal digits.
pub fn sign(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    HEXLOWER.encode(hmac::sign(&key, body).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second test case of RFC 4231.
    #[test]
    fn it_is_the_signature_that_everybody_computes() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(sign("Jefe", b"what do ya want for nothing?"), expected);
    }
}
