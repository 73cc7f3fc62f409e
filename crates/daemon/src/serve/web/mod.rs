//! The page: its own port on loopback, who may use it, and the files that a browser gets. Off until a person asks for it
//! on the unix socket.
//!
//! A person gets an address with a code that is good once and for a minute. The page turns the code into a token, which
//! lives in that tab. The daemon keeps the port and the hash of each token in `web.json`, so that both outlive it.

pub(crate) mod codes;
pub(crate) mod files;
pub(crate) mod port;
pub(crate) mod tokens;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use self::codes::Codes;
use self::port::OpenPort;
use self::tokens::{SignedIn, Tab, Tokens};
use crate::home::Home;

/// Everything about the page that the daemon remembers.
pub(crate) struct Web {
    codes: Mutex<Codes>,
    tokens: Mutex<Tokens>,
    port: Mutex<Option<OpenPort>>,
}

impl Web {
    /// Only the daemon removes what another one has left.
    pub(crate) fn new(home: &Home, is_daemon: bool) -> Self {
        let codes = Codes::in_folder(home.folder());
        if is_daemon {
            codes.remove_left_files();
        }
        Self { codes: Mutex::new(codes), tokens: Mutex::new(Tokens::at(home.web())), port: Mutex::default() }
    }

    /// The port that is open.
    pub(crate) fn open_port(&self) -> Option<u16> {
        locked(&self.port).as_ref().map(OpenPort::number)
    }

    /// The address that signs in one tab, and the file that leads a browser there if one is wanted.
    pub(crate) fn invite(
        &self,
        port: u16,
        view: Option<&str>,
        read_only: bool,
        file: bool,
    ) -> io::Result<codes::Invitation> {
        let address = format!("http://{}/", SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        locked(&self.codes).invite(&address, view, read_only, file)
    }

    /// Turns a code into a token. A code that was used, is too old or was never given is worth nothing.
    pub(crate) fn sign_in(&self, code: &str, now: Timestamp) -> io::Result<Option<SignedIn>> {
        let Some(read_only) = locked(&self.codes).take(code) else { return Ok(None) };
        locked(&self.tokens).add(read_only, now).map(Some)
    }

    /// Removes the files of codes that are too old.
    pub(crate) fn sweep(&self) {
        locked(&self.codes).sweep();
    }

    /// The tab whose token this is.
    pub(crate) fn admit(&self, authorization: Option<&[u8]>, now: Timestamp) -> Option<Tab> {
        let token = authorization?.strip_prefix(b"Bearer ")?;
        locked(&self.tokens).admit(token, now)
    }

    /// Proves to a tab that this is the daemon that gave it its token.
    pub(crate) fn prove(&self, id: &str, nonce: &str, now: Timestamp) -> Option<String> {
        locked(&self.tokens).prove(id, nonce, now)
    }

    /// A stream of this tab still runs.
    pub(crate) fn used(&self, id: &str, now: Timestamp) {
        locked(&self.tokens).used(id, now);
    }

    pub(crate) fn sign_out(&self, id: &str) -> io::Result<()> {
        locked(&self.tokens).end(id)
    }

    /// Closes the port and ends every code and token. Returns whether it was open.
    pub(crate) fn close(&self) -> io::Result<bool> {
        let was_open = locked(&self.port).take().is_some();
        locked(&self.codes).forget();
        locked(&self.tokens).forget()?;
        Ok(was_open)
    }
}

/// Where the page shows a session; one whose id stands twice adds its folder.
pub(crate) fn view_of(host: &str, id: &str, cwd: Option<&str>) -> String {
    let folder = cwd.map(|cwd| format!("?cwd={}", codes::escaped(cwd))).unwrap_or_default();
    format!("/s/{}/{}{folder}", codes::escaped(host), codes::escaped(id))
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Becomes true when a token ends.
pub(crate) type Ended = watch::Receiver<bool>;

pub(crate) type Shared = Arc<crate::shared::Shared>;
