//! A new key of a user of the bus, in the form that NATS servers know (`nk -gen user`).

use std::io::{self, Write};
use std::path::Path;

use agentctl_files::{kernel, own};
use data_encoding::BASE32_NOPAD;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// The kinds of the text forms: a seed, and a user.
const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;

/// Writes a new seed to a file that is not there yet and that only this user can read. Returns the public key, which the
/// server is given.
pub fn write_new(path: &Path) -> io::Result<String> {
    let secret = kernel::random::<32>()?;
    let public = public(&secret)?;
    let mut file = own::create_new(path)?;
    file.write_all(format!("{}\n", seed(&secret)).as_bytes())?;
    file.sync_all()?;
    Ok(public)
}

fn public(secret: &[u8; 32]) -> io::Result<String> {
    let pair =
        Ed25519KeyPair::from_seed_unchecked(secret).map_err(|error| io::Error::other(error.to_string()))?;
    let mut bytes = vec![USER];
    bytes.extend_from_slice(pair.public_key().as_ref());
    Ok(with_checksum(bytes))
}

fn seed(secret: &[u8; 32]) -> String {
    let mut bytes = vec![SEED | (USER >> 5), (USER & 31) << 3];
    bytes.extend_from_slice(secret);
    with_checksum(bytes)
}

fn with_checksum(mut bytes: Vec<u8>) -> String {
    bytes.extend_from_slice(&crc16(&bytes).to_le_bytes());
    BASE32_NOPAD.encode(&bytes)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_has_the_form_that_servers_know_and_is_nobody_elses() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("user.nk");
        let public = write_new(&path).unwrap();
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("SU") && text.trim().len() == 58, "a seed of a user");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write_new(&path).is_err(), "a key is never overwritten");
    }
}
