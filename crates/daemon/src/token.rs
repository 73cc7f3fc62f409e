//! The token of `http.token`: made once, 256 bits, for this user alone. There is no way to serve TCP without it.

use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use agentctl_fleet::whole_file;

/// The token is 64 digits.
const LARGEST: u64 = 4 << 10;

/// After so many wrong tokens in a row nobody is let in for a while.
const FAILURES: u32 = 10;
const LOCKOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Token {
    secret: String,
    failures: Mutex<(u32, Option<Instant>)>,
}

/// What became of a try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    Denied,
    LockedOut,
}

impl Token {
    /// The token of this file, made anew if there is none that is fit.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let secret = if let Some(secret) = read(path)? {
            secret
        } else {
            let secret = random_hex(32)?;
            whole_file::replace(path, secret.as_bytes(), "token")?;
            secret
        };
        Ok(Self { secret, failures: Mutex::new((0, None)) })
    }

    pub(crate) fn admit(&self, authorization: Option<&[u8]>) -> Admission {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.1.is_some_and(|until| Instant::now() < until) {
            return Admission::LockedOut;
        }
        let given = authorization.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        if equal(given, self.secret.as_bytes()) {
            *failures = (0, None);
            return Admission::Granted;
        }
        failures.0 += 1;
        if failures.0 >= FAILURES {
            *failures = (0, Some(Instant::now() + LOCKOUT));
        }
        Admission::Denied
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A token that others could read or have chosen is no secret.
    let others = metadata.mode() & 0o077;
    let private = metadata.is_file() && others == 0 && metadata.uid() == rustix::process::geteuid().as_raw();
    let text = if private { agentctl_files::own::read_text(path, LARGEST)? } else { String::new() };
    let secret = text.trim();
    let fit = secret.len() >= 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(fit.then(|| secret.to_owned()))
}

/// In a time that does not depend on where the two differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        // Writing into a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// So many random bytes, as hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    let mut filled = 0;
    while filled < bytes {
        filled += rustix::rand::getrandom(&mut random[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(hex(&random))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_token_is_kept_and_one_that_others_can_read_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("http.token");
        let first = Token::at(&path).unwrap().secret;
        assert_eq!(first.len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Token::at(&path).unwrap().secret, first);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(Token::at(&path).unwrap().secret, first);
        fs::write(&path, "").unwrap();
        assert_eq!(Token::at(&path).unwrap().secret.len(), 64, "an empty token must not mean an open door");
    }

    #[test]
    fn guessing_locks_the_door_even_for_the_right_token() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::at(&place.path().join("t")).unwrap();
        let right = format!("Bearer {}", token.secret);
        assert_eq!(token.admit(Some(right.as_bytes())), Admission::Granted);
        for wrong in
            [None, Some(&b"Bearer "[..]), Some(&right.as_bytes()[..40]), Some(token.secret.as_bytes())]
        {
            assert_eq!(token.admit(wrong), Admission::Denied);
        }
        for _ in 4..FAILURES {
            assert_eq!(token.admit(Some(b"Bearer x")), Admission::Denied);
        }
        assert_eq!(token.admit(Some(right.as_bytes())), Admission::LockedOut);
    }
}
