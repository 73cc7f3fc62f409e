//! The page's own port. It is served until it is closed or the daemon ends; closing cuts every connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tokio::sync::oneshot;

use super::{Shared, locked};
use crate::serve::server;

/// A port that is served for as long as this value exists.
pub(crate) struct OpenPort {
    number: u16,
    _close: oneshot::Sender<()>,
}

impl OpenPort {
    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Opens the port that the page had before, so that a page which is open finds the next daemon. Nothing happens if there
/// was none. Where somebody else has it now every tab is signed out: what such a tab sends to the port goes to a stranger,
/// who must not be able to have it proved or used at this daemon.
pub(crate) fn reopen(shared: &Shared) {
    let kept = locked(&shared.web.tokens).port();
    if let Some(port) = kept
        && let Err(error) = bind(port).and_then(|listener| serve(shared, listener))
    {
        let words = "cannot be served again, and its tabs are signed out; `agentctl web` opens another one";
        shared.log.say(&format!("the page's port {port} {words}: {error}"));
        if let Err(error) = locked(&shared.web.tokens).end_all() {
            shared.log.say(&format!("they are signed out until the next start only: {error}"));
        }
    }
}

/// The open port, or one that is opened now: the one of before if it is free.
pub(crate) fn open(shared: &Shared) -> io::Result<u16> {
    if let Some(port) = shared.web.open_port() {
        return Ok(port);
    }
    let before = locked(&shared.web.tokens).port();
    let listener = before.map(bind).and_then(Result::ok).map_or_else(|| bind(0), Ok)?;
    serve(shared, listener)
}

fn bind(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn serve(shared: &Shared, listener: TcpListener) -> io::Result<u16> {
    let number = listener.local_addr()?.port();
    let mut open = locked(&shared.web.port);
    if let Some(open) = &*open {
        return Ok(open.number);
    }
    locked(&shared.web.tokens).keep_port(number)?;
    let (close, closed) = oneshot::channel::<()>();
    let serving = server::serve_page(shared.clone(), tokio::net::TcpListener::from_std(listener)?);
    tokio::spawn(async move {
        tokio::select! {
            () = serving => {}
            // Whoever drops the port closes it.
            _ = closed => {}
        }
    });
    *open = Some(OpenPort { number, _close: close });
    Ok(number)
}
