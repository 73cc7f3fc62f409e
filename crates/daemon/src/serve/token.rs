//! The token of `http.token`: created once, 256 bits, readable by this user only. TCP is never served without
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use agentctl_files::kernel;
use agentctl_fleet::keep::whole_file;
use data_encoding::HEXLOWER;

/// More than enough for the token's 64 digits.
const LARGEST: u64 = 4 << 10;

/// A wrong token is locked out after this many tries of the same one.
const FAILURES: u32 = 10;
/// How long a wrong token is remembered after its last try.
const LOCKOUT: Duration = Duration::from_secs(30);
/// How many wrong tokens are remembered. The one whose last try is longest ago is forgotten first.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub(crate) struct Token {
    secret: String,
    wrong: Mutex<WrongTokens>,
}

/// The wrong tokens of recent tries, by a keyed hash: the tokens themselves are not kept.
#[derive(Debug, Default)]
struct WrongTokens {
    keyed: RandomState,
    tries: BTreeMap<u64, (u32, Instant)>,
}

impl WrongTokens {
    /// Counts one more try of this token and returns whether it was tried too often.
    fn count(&mut self, token: &[u8], now: Instant) -> bool {
        self.tries.retain(|_, (_, last)| now.saturating_duration_since(*last) < LOCKOUT);
        let key = self.keyed.hash_one(token);
        if self.tries.len() >= REMEMBERED && !self.tries.contains_key(&key) {
            let oldest = self.tries.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                self.tries.remove(&oldest);
            }
        }
        let (times, last) = self.tries.entry(key).or_insert((0, now));
        (*times, *last) = (times.saturating_add(1), now);
        *times > FAILURES
    }
}

/// The result of a try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Granted,
    /// There was no token, or a wrong one.
    Denied,
    /// The same wrong token was tried too often.
    LockedOut,
}

impl Token {
    /// Reads the token of this file, or creates a new one if the file has no usable token.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let secret = if let Some(secret) = read(path)? {
            secret
        } else {
            let secret = HEXLOWER.encode(&kernel::random::<32>()?);
            whole_file::replace(path, secret.as_bytes(), "token")?;
            secret
        };
        Ok(Self { secret, wrong: Mutex::default() })
    }

    /// The right token is admitted whatever others have tried, and a request without a token does not count
    /// as a try. So neither a web page nor a program without the token can lock its owner out.
    pub(crate) fn admit(&self, authorization: Option<&[u8]>) -> Admission {
        let Some(given) = authorization.and_then(|value| value.strip_prefix(b"Bearer ")) else {
            return Admission::Denied;
        };
        if equal(given, self.secret.as_bytes()) {
            return Admission::Granted;
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.count(given, Instant::now()) { Admission::LockedOut } else { Admission::Denied }
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

/// Compares in a time that does not depend on where the two differ.
fn equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == other.len() && differences == 0
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
    fn only_the_same_wrong_token_again_and_again_is_told_off_and_the_right_one_never() {
        let place = tempfile::tempdir().unwrap();
        let token = Token::at(&place.path().join("t")).unwrap();
        let right = format!("Bearer {}", token.secret);
        let granted = || assert_eq!(token.admit(Some(right.as_bytes())), Admission::Granted);
        granted();
        for _ in 0..3 * FAILURES {
            for nothing in [None, Some(token.secret.as_bytes()), Some(b"Basic x")] {
                assert_eq!(token.admit(nothing), Admission::Denied);
            }
        }
        for _ in 0..FAILURES {
            assert_eq!(token.admit(Some(&right.as_bytes()[..40])), Admission::Denied);
        }
        assert_eq!(token.admit(Some(&right.as_bytes()[..40])), Admission::LockedOut);
        assert_eq!(token.admit(Some(b"Bearer another")), Admission::Denied);
        granted();
    }

    #[test]
    fn wrong_tokens_are_forgotten_and_few_are_remembered() {
        let mut wrong = WrongTokens::default();
        let now = Instant::now();
        let mut tries = |token: &[u8], now| (0..=FAILURES).any(|_| wrong.count(token, now));
        assert!(tries(b"one", now));
        assert!(!wrong.count(b"one", now + LOCKOUT), "it was left alone for long enough");
        for number in 0..10 * REMEMBERED {
            wrong.count(number.to_string().as_bytes(), now + LOCKOUT);
        }
        assert_eq!(wrong.tries.len(), REMEMBERED);
    }
}
