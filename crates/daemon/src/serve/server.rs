//! The doors: a unix socket, and loopback TCP if it was asked for. One router behind both.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::run::descriptors;
use crate::serve::api;
use crate::serve::guard::guard;
use crate::serve::visitors::{Visitor, Visitors};
use crate::shared::{Phase, Shared};

/// How long a request's head may take to come, and how long a connection may rest between two requests.
const HEAD: Duration = Duration::from_secs(10);
/// How large a head over TCP may be: whoever sends it may be a stranger.
const TCP_BUFFER: usize = 64 << 10;
/// How long nobody is let in when the system refuses connections.
const PAUSE: Duration = Duration::from_millis(100);

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Unix { uid: Option<u32> },
    Tcp,
}

/// A place where connections come in.
trait Door: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The most that is kept of what comes in at once; `None` leaves it to hyper.
    const BUFFER: Option<usize>;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Door for UnixListener {
    type Stream = UnixStream;
    const BUFFER: Option<usize> = None;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let uid = stream.peer_cred().ok().map(|credentials| credentials.uid());
        Ok((stream, Peer::Unix { uid }))
    }
}

impl Door for TcpListener {
    type Stream = TcpStream;
    const BUFFER: Option<usize> = Some(TCP_BUFFER);

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.accept().await?;
        // Events are small and wanted at once.
        let _ = stream.set_nodelay(true);
        Ok((stream, Peer::Tcp))
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
    let visitors = Visitors::new(descriptors::for_socket());
    doors.spawn(open(UnixListener::from_std(unix)?, visitors, router.clone(), shared.clone()));
    if let Some(tcp) = tcp {
        let visitors = Visitors::new(descriptors::for_tcp());
        doors.spawn(open(TcpListener::from_std(tcp)?, visitors, router, shared));
    }
    while let Some(door) = doors.join_next().await {
        door.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Lets connections in at one door until the daemon ends, and waits for the last of them.
async fn open<D: Door>(door: D, visitors: Visitors, router: Router, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut phase = shared.phase.subscribe();
    let mut refused = false;
    loop {
        // Whoever finds no place waits before the door, and costs us nothing.
        let place = tokio::select! {
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            place = visitors.place() => place,
        };
        let came = tokio::select! {
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            came = door.next() => came,
        };
        while connections.try_join_next().is_some() {}
        match came {
            Ok((stream, peer)) => {
                refused = false;
                let visitor = visitors.enter(place);
                let phase = shared.phase.subscribe();
                connections.spawn(attend::<D>(stream, peer, visitor, router.clone(), phase));
            }
            Err(error) => {
                if !std::mem::replace(&mut refused, true) {
                    shared.log.say(&format!("a connection cannot be taken: {error}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(door);
    while connections.join_next().await.is_some() {}
}

/// Answers one connection until it is closed, rests too long, must make way, or the daemon ends.
async fn attend<D: Door>(
    stream: D::Stream,
    peer: Peer,
    visitor: Visitor,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) {
    let Visitor { pass, asked_to_leave, _place } = visitor;
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        request.extensions_mut().insert(pass.clone());
        TowerToHyperService::new(router.clone()).call(request)
    });
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(HEAD);
    if let Some(buffer) = D::BUFFER {
        protocol.max_buf_size(buffer);
    }
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), answer));
    let is_asked_to_leave = async {
        // Whoever is known is never asked.
        if asked_to_leave.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = connection.as_mut() => return,
        () = is_asked_to_leave => return,
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
    }
    // What is being answered is answered.
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
