//! The doors: a unix socket, and loopback TCP if it was asked for. One router behind both.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;

use crate::api;
use crate::guard::guard;
use crate::shared::{Phase, Shared};

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Unix {
        uid: Option<u32>,
    },
    Tcp {
        /// The address at which we were reached.
        served: SocketAddr,
    },
}

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self::Unix { uid: stream.io().peer_cred().ok().map(|credentials| credentials.uid()) }
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        Self::Tcp { served: stream.io().local_addr().unwrap_or(unknown) }
    }
}

/// Binds the socket anew. Only whoever holds the lock may: the file that a dead daemon left is in the way.
pub(crate) fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the daemon ends; what is being answered then is answered.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<std::net::TcpListener>,
) -> io::Result<()> {
    let router = api::router()
        .fallback(api::no_such_route)
        .layer(axum::middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared.clone());
    let mut doors = JoinSet::new();
    doors.spawn(open(UnixListener::from_std(unix)?, router.clone(), shared.clone()));
    if let Some(tcp) = tcp {
        doors.spawn(open(TcpListener::from_std(tcp)?, router, shared));
    }
    while let Some(door) = doors.join_next().await {
        door.map_err(io::Error::other)??;
    }
    Ok(())
}

async fn open<L>(listener: L, router: Router, shared: Arc<Shared>) -> io::Result<()>
where
    L: axum::serve::Listener,
    L::Addr: std::fmt::Debug,
    for<'a> Peer: Connected<IncomingStream<'a, L>>,
{
    let mut phase = shared.phase.subscribe();
    let end = async move {
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    };
    axum::serve(listener, router.into_make_service_with_connect_info::<Peer>())
        .with_graceful_shutdown(end)
        .await
}
