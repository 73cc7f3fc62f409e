//! The tokens of the tabs that are signed in. Only their hashes are kept, in `web.json` beside the port.

use std::io;
use std::path::PathBuf;

use agentctl_files::{kernel, own};
use agentctl_fleet::keep::whole_file;
use data_encoding::HEXLOWER;
use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};
use ring::hmac;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Ended;

/// How long a token lives after its last use.
const LIFE: SignedDuration = SignedDuration::from_hours(24);
/// How old the recorded time of the last use may become.
const PRECISION: SignedDuration = SignedDuration::from_secs(60);
/// How many tabs may be signed in; the one whose last use is longest ago makes way.
const MOST: usize = 256;
/// More than enough for that many.
const LARGEST: u64 = 1 << 20;

/// The form of the file.
const VERSION: u64 = 1;

/// What a tab gets for its code.
#[derive(Debug)]
pub(crate) struct SignedIn {
    pub(crate) token: String,
    pub(crate) id: String,
    pub(crate) read_only: bool,
}

/// A tab that is signed in.
#[derive(Debug, Clone)]
pub(crate) struct Tab {
    pub(crate) id: String,
    pub(crate) read_only: bool,
    pub(crate) ended: Ended,
}

pub(crate) struct Tokens {
    path: PathBuf,
    port: Option<u16>,
    given: Vec<Token>,
}

struct Token {
    kept: KeptToken,
    /// The time of the last use that is on disk.
    written: Timestamp,
    end: watch::Sender<bool>,
}

/// `web.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    /// Says that the file is of this agentctl and not of an older one.
    version: u64,
    port: Option<u16>,
    tokens: Vec<KeptToken>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeptToken {
    id: String,
    /// The SHA-256 of the token, in hexadecimal digits.
    hash: String,
    read_only: bool,
    last_used: Timestamp,
}

impl Tokens {
    /// Reads the file; one that is missing or unusable means that nobody is signed in.
    pub(crate) fn at(path: PathBuf) -> Self {
        let text = own::read_text(&path, LARGEST).unwrap_or_default();
        let kept: Kept = serde_json::from_str(&text).unwrap_or_default();
        let Kept { port, tokens, .. } = if kept.version == VERSION { kept } else { Kept::default() };
        let token = |kept: KeptToken| Token { written: kept.last_used, end: watch::channel(false).0, kept };
        Self { path, port, given: tokens.into_iter().take(MOST).map(token).collect() }
    }

    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }

    /// A token is good on the port on which it was given: who has that port now hears what its tab sends there.
    pub(crate) fn keep_port(&mut self, port: u16) -> io::Result<()> {
        if self.port == Some(port) {
            return Ok(());
        }
        self.port = Some(port);
        self.end_all()
    }

    /// Ends all of them. The port is kept: a tab that finds it again is told that its sign-in has ended.
    pub(crate) fn end_all(&mut self) -> io::Result<()> {
        self.given.drain(..).for_each(Token::end);
        self.write()
    }

    pub(crate) fn add(&mut self, read_only: bool, now: Timestamp) -> io::Result<SignedIn> {
        let token = HEXLOWER.encode(&kernel::random::<32>()?);
        let id = HEXLOWER.encode(&kernel::random::<8>()?);
        self.drop_old(now);
        if self.given.len() >= MOST {
            self.given.sort_by_key(|token| token.kept.last_used);
            self.given.remove(0).end();
        }
        let kept = KeptToken {
            id: id.clone(),
            hash: HEXLOWER.encode(&hash(token.as_bytes())),
            read_only,
            last_used: now,
        };
        self.given.push(Token { kept, written: now, end: watch::channel(false).0 });
        self.write()?;
        Ok(SignedIn { token, id, read_only })
    }

    /// Comparing hashes tells nothing about the token in the time that it takes.
    pub(crate) fn admit(&mut self, token: &[u8], now: Timestamp) -> Option<Tab> {
        let hash = HEXLOWER.encode(&hash(token));
        self.drop_old(now);
        let token = self.given.iter().find(|token| token.kept.hash == hash)?;
        let KeptToken { id, read_only, .. } = token.kept.clone();
        let ended = token.end.subscribe();
        self.used(&id, now);
        Some(Tab { id, read_only, ended })
    }

    pub(crate) fn used(&mut self, id: &str, now: Timestamp) {
        let Some(token) = self.given.iter_mut().find(|token| token.kept.id == id) else { return };
        token.kept.last_used = token.kept.last_used.max(now);
        if token.kept.last_used.duration_since(token.written) > PRECISION {
            // A disk that takes nothing ends no session; the time is written with the next use.
            let _ = self.write();
        }
    }

    /// The HMAC of the nonce under the hash of the token, which only the daemon that gave the token has.
    pub(crate) fn prove(&mut self, id: &str, nonce: &str, now: Timestamp) -> Option<String> {
        self.drop_old(now);
        let token = self.given.iter().find(|token| token.kept.id == id)?;
        let key = HEXLOWER.decode(token.kept.hash.as_bytes()).ok()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        Some(HEXLOWER.encode(hmac::sign(&key, nonce.as_bytes()).as_ref()))
    }

    pub(crate) fn end(&mut self, id: &str) -> io::Result<()> {
        let Some(at) = self.given.iter().position(|token| token.kept.id == id) else { return Ok(()) };
        self.given.remove(at).end();
        self.write()
    }

    /// Ends all of them and forgets the port.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        self.given.drain(..).for_each(Token::end);
        self.port = None;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn drop_old(&mut self, now: Timestamp) {
        let is_old = |token: &mut Token| now.duration_since(token.kept.last_used) >= LIFE;
        self.given.extract_if(.., is_old).for_each(Token::end);
    }

    fn write(&mut self) -> io::Result<()> {
        let kept = Kept {
            version: VERSION,
            port: self.port,
            tokens: self.given.iter().map(|token| token.kept.clone()).collect(),
        };
        let bytes = serde_json::to_vec(&kept).map_err(io::Error::other)?;
        whole_file::replace(&self.path, &bytes, "web")?;
        for token in &mut self.given {
            token.written = token.kept.last_used;
        }
        Ok(())
    }
}

impl Token {
    /// Ends its streams.
    fn end(self) {
        self.end.send_replace(true);
    }
}

fn hash(token: &[u8]) -> Vec<u8> {
    digest(&SHA256, token).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_outlives_the_daemon_and_ends_a_day_after_its_last_use() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("web.json");
        let mut tokens = Tokens::at(path.clone());
        tokens.keep_port(4711).unwrap();
        let SignedIn { token, id, .. } = tokens.add(true, at("2026-11-15T08:00:00Z")).unwrap();
        assert!(!std::fs::read_to_string(&path).unwrap().contains(&token), "only its hash is kept");
        let mut next = Tokens::at(path.clone());
        assert_eq!(next.port(), Some(4711));
        let tab = next.admit(token.as_bytes(), at("2026-11-15T20:00:00Z")).unwrap();
        assert!(tab.read_only && tab.id == id);
        assert!(next.admit(b"another", at("2026-11-15T20:00:00Z")).is_none());
        let mut next = Tokens::at(path);
        assert!(next.admit(token.as_bytes(), at("2026-11-16T19:59:00Z")).is_some(), "its use was kept");
        let ended = next.admit(token.as_bytes(), at("2026-11-16T20:00:00Z")).unwrap().ended;
        assert!(next.admit(token.as_bytes(), at("2026-11-17T20:00:01Z")).is_none());
        assert!(*ended.borrow());
    }

    #[test]
    fn a_token_ends_with_its_port() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("web.json");
        let mut tokens = Tokens::at(path.clone());
        let now = at("2026-11-15T08:00:00Z");
        tokens.keep_port(4711).unwrap();
        let SignedIn { token, id, .. } = tokens.add(false, now).unwrap();
        tokens.keep_port(4711).unwrap();
        let ended = tokens.admit(token.as_bytes(), now).unwrap().ended;
        tokens.keep_port(4712).unwrap();
        assert!(*ended.borrow(), "its streams are cut");
        let mut next = Tokens::at(path);
        assert_eq!((next.port(), next.prove(&id, "nonce", now)), (Some(4712), None));
        assert!(next.admit(token.as_bytes(), now).is_none());
    }

    #[test]
    fn a_proof_is_the_hmac_of_the_nonce_under_the_hash_of_the_token() {
        let place = tempfile::tempdir().unwrap();
        let mut tokens = Tokens::at(place.path().join("web.json"));
        let now = at("2026-11-15T08:00:00Z");
        let SignedIn { token, id, .. } = tokens.add(false, now).unwrap();
        let proof = tokens.prove(&id, "nonce", now).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, token.as_bytes()).as_ref());
        assert!(hmac::verify(&key, b"nonce", &HEXLOWER.decode(proof.as_bytes()).unwrap()).is_ok());
        assert_eq!(tokens.prove("another", "nonce", now), None);
        tokens.end(&id).unwrap();
        assert_eq!(tokens.prove(&id, "nonce", now), None);
        assert!(tokens.admit(token.as_bytes(), now).is_none());
    }
}
