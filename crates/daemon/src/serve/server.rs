//! The listeners: a unix socket, and loopback TCP on request. Both serve one router.

use agentctl_fleet::act::asker::Asker;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use agentctl_model::Permission;
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use axum::routing::get;
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
use crate::serve::connections::{Connection, Connections};
use crate::serve::elsewhere;
use crate::serve::guard::guard;
use crate::serve::problem::Problem;
use crate::serve::web::files;
use crate::shared::{Phase, Shared};

/// How long the head of a request may take to arrive, and how long a connection may be idle between two
/// requests.
const HEAD: Duration = Duration::from_secs(10);
/// The largest request head over TCP, where the sender may be anybody.
const TCP_BUFFER: usize = 64 << 10;
/// How long to pause when the system refuses connections.
const PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    Unix {
        uid: Option<u32>,
        pid: Option<u32>,
    },
    Tcp,
    /// The page's own port.
    Page,
    /// The bus: somebody on another machine, of whom only the server knows who it is.
    Nats(BusRights),
}

/// What a request over the bus may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BusRights {
    /// Whether it came by the subjects to act, and this machine lets the bus act.
    pub(crate) acts: bool,
    /// Whether it may ask for permission modes above `default`.
    pub(crate) allows_bypass: bool,
}

impl Peer {
    /// Who asks: a process of this machine can be named on the unix socket alone.
    pub(crate) fn asker(&self) -> Asker {
        match self {
            Self::Unix { pid, .. } => Asker::peer(*pid),
            Self::Tcp | Self::Page | Self::Nats(_) => Asker::default(),
        }
    }

    /// Refuses what would let a caller over the bus, or a page, choose what runs on this machine beside the agent itself.
    pub(crate) fn check_chosen(&self, chosen: &[(&str, bool)]) -> Result<(), Problem> {
        let refused = chosen.iter().find(|(_, is_chosen)| *is_chosen);
        match (self, refused) {
            (Self::Nats(_), Some((name, _))) => {
                Err(Problem::forbidden(format!("`{name}` is not taken over the bus"))
                    .hint("leave it out, or ask that machine over ssh"))
            }
            (Self::Page, Some((name, _))) => {
                Err(Problem::forbidden(format!("`{name}` is not taken from a page"))
                    .hint("leave it out, or use the command line"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a permission mode that is not this caller's to give.
    pub(crate) fn check_permission(&self, mode: Option<Permission>) -> Result<(), Problem> {
        let is_above = matches!(mode, Some(Permission::AcceptEdits | Permission::Bypass));
        match self {
            Self::Nats(rights) if is_above && !rights.allows_bypass => {
                Err(Problem::forbidden("this machine gives no permission mode above `default` to the bus")
                    .hint("`allow = [\"bypass\"]` in `[nats]` of that machine does"))
            }
            _ => Ok(()),
        }
    }
}

/// A listening socket.
trait Listener: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The size of the receive buffer; `None` leaves it to hyper.
    const BUFFER: Option<usize>;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    const BUFFER: Option<usize> = None;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        let credentials = stream.peer_cred().ok();
        let uid = credentials.map(|credentials| credentials.uid());
        let pid = credentials.and_then(|credentials| u32::try_from(credentials.pid()?).ok());
        Ok((stream, Peer::Unix { uid, pid }))
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    const BUFFER: Option<usize> = Some(TCP_BUFFER);

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.accept().await?;
        // Events are small and should arrive at once.
        let _ = stream.set_nodelay(true);
        Ok((stream, Peer::Tcp))
    }
}

/// The page's own port.
struct PagePort(TcpListener);

impl Listener for PagePort {
    type Stream = TcpStream;
    const BUFFER: Option<usize> = Some(TCP_BUFFER);

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, _) = self.0.next().await?;
        Ok((stream, Peer::Page))
    }
}

/// Serves the page's port until the daemon ends.
pub(crate) async fn serve_page(shared: Arc<Shared>, listener: TcpListener) {
    let router = router(&shared);
    accept_all(PagePort(listener), Connections::new(descriptors::for_tcp()), router, shared).await;
}

/// Binds the socket. Only the holder of the daemon's lock may do this, because it removes the file of a dead
/// daemon.
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

/// Serves until the daemon ends. Requests that are being answered then are finished.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    unix: std::os::unix::net::UnixListener,
    tcp: Option<std::net::TcpListener>,
) -> io::Result<()> {
    let router = router(&shared);
    let mut listeners = JoinSet::new();
    let connections = Connections::new(descriptors::for_socket());
    listeners.spawn(accept_all(UnixListener::from_std(unix)?, connections, router.clone(), shared.clone()));
    if let Some(tcp) = tcp {
        let connections = Connections::new(descriptors::for_tcp());
        listeners.spawn(accept_all(TcpListener::from_std(tcp)?, connections, router, shared));
    }
    while let Some(listener) = listeners.join_next().await {
        listener.map_err(io::Error::other)?;
    }
    Ok(())
}

pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    api::router()
        .route("/", get(files::index))
        .route("/app/{*path}", get(files::asset))
        .fallback(api::no_such_route)
        .layer(axum::middleware::from_fn_with_state(shared.clone(), elsewhere::pass_on))
        .layer(axum::middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared.clone())
}

/// Serves one connection of this very process until it is closed. It may be idle for as long as its owner lives.
pub(crate) async fn serve_one(shared: Arc<Shared>, stream: std::os::unix::net::UnixStream) {
    let Ok(stream) = UnixStream::from_std(stream) else { return };
    let uid = Some(rustix::process::geteuid().as_raw());
    let peer = Peer::Unix { uid, pid: Some(std::process::id()) };
    let router = router(&shared);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        TowerToHyperService::new(router.clone()).call(request)
    });
    // An error only means that the other end has gone.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
}

/// Accepts connections on one listener until the daemon ends, and then waits for the last of them.
async fn accept_all<D: Listener>(listener: D, connections: Connections, router: Router, shared: Arc<Shared>) {
    let mut tasks = JoinSet::new();
    let mut phase = shared.phase.subscribe();
    let mut refused = false;
    loop {
        // A connection without a permit waits in the listener's queue and costs nothing.
        let permit = tokio::select! {
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            permit = connections.permit() => permit,
        };
        let accepted = tokio::select! {
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => break,
            accepted = listener.next() => accepted,
        };
        while tasks.try_join_next().is_some() {}
        match accepted {
            Ok((stream, peer)) => {
                refused = false;
                let connection = connections.admit(permit);
                let phase = shared.phase.subscribe();
                tasks.spawn(serve_connection::<D>(stream, peer, connection, router.clone(), phase));
            }
            Err(error) => {
                if !std::mem::replace(&mut refused, true) {
                    shared.log.say(&format!("a connection cannot be taken: {error}"));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// Serves one connection until it is closed, idles too long, is evicted, or the daemon ends.
async fn serve_connection<D: Listener>(
    stream: D::Stream,
    peer: Peer,
    connection: Connection,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) {
    let Connection { pass, evicted, _permit } = connection;
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
    let mut serving = pin!(protocol.serve_connection(TokioIo::new(stream), answer));
    let eviction = async {
        // An authenticated connection is never evicted.
        if evicted.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        _ = serving.as_mut() => return,
        () = eviction => return,
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
    }
    // A request that is being answered is finished.
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}
