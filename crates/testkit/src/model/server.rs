//! The HTTP server of the fake model: a thin loop around [`choose`] and [`Wire`], with its own thread and runtime.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode, header};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::ask::{Ask, choose};
use super::script::Reply;
use super::wire::{Frame, Rendered, Wire};
use crate::wait::until_seen;

/// Long enough for an agent to start on a busy machine. A test that waits longer has failed.
const REQUEST_DEADLINE: Duration = Duration::from_mins(3);

type Rule = Box<dyn Fn(&Ask) -> Reply + Send + Sync>;

/// A request that arrived, whether the server understood it or not.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it came.
    pub at: SystemTime,
    pub method: String,
    pub path: String,
    /// The names are in lower case.
    pub headers: Vec<(String, String)>,
    /// `Null` when the body was not JSON.
    pub body: Value,
    /// The parsed model request; `None` for other paths.
    pub ask: Option<Ask>,
}

struct Shared {
    rule: Rule,
    log: Mutex<Vec<Seen>>,
    gates: watch::Sender<HashSet<String>>,
    /// The gates at which streams wait whose clients still listen.
    held: Mutex<Vec<String>>,
    boot: u128,
    answers: AtomicU64,
}

/// The running server. When dropped, it stops and cuts every open connection.
pub struct FakeModel {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeModel {
    /// A model that answers `ok` to every prompt without a script.
    pub fn start() -> Self {
        Self::with_rule(|_| Reply::text("ok"))
    }

    /// A model whose `rule` answers prompts without a script.
    pub fn with_rule(rule: impl Fn(&Ask) -> Reply + Send + Sync + 'static) -> Self {
        Self::serve(Box::new(rule)).unwrap_or_else(|error| panic!("fake model did not start: {error:#}"))
    }

    fn serve(rule: Rule) -> anyhow::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("bind a loopback port")?;
        listener.set_nonblocking(true).context("make the listener non-blocking")?;
        let address = listener.local_addr().context("read the listener's address")?;
        let boot = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?.as_nanos();
        let gates = watch::Sender::new(HashSet::new());
        let shared = Arc::new(Shared {
            rule,
            log: Mutex::default(),
            gates,
            held: Mutex::default(),
            boot,
            answers: AtomicU64::new(0),
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("build a runtime")?;
        let (stop, stopped) = oneshot::channel::<()>();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("fake-model".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                    // The server ends when either ends; dropping the runtime closes its open connections.
                    tokio::select! {
                        _ = axum::serve(listener, router) => {}
                        _ = stopped => {}
                    }
                });
            })
            .context("spawn the server's thread")?;
        Ok(Self { shared, address, stop: Some(stop), thread: Some(thread) })
    }

    /// `http://127.0.0.1:PORT`, without a trailing slash; OpenAI-like agents want `{url}/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that arrived so far, in order.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at everything that arrived so far, without a copy of it.
    pub fn look<T>(&self, look: impl FnOnce(&[Seen]) -> T) -> T {
        look(&self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The gates at which streams wait now whose clients still listen.
    pub fn held_streams(&self) -> Vec<String> {
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for a request that `is_wanted` accepts; panics at the deadline with the paths that were requested.
    pub fn wait_request(&self, what: &str, is_wanted: impl Fn(&Seen) -> bool) -> Seen {
        until_seen(REQUEST_DEADLINE, what, || {
            self.look(|all| {
                all.iter().find(|seen| is_wanted(seen)).cloned().ok_or_else(|| {
                    let path = |seen: &Seen| format!("{} {}", seen.method, seen.path);
                    format!("requests: {:?}", all.iter().map(path).collect::<Vec<_>>())
                })
            })
        })
    }

    /// Waits for a request of the turn itself (not a side request) whose prompt contains `text` and is followed by `replies`
    /// answers.
    pub fn wait_turn(&self, text: &str, replies: usize) -> Seen {
        let is_it = |ask: &Ask| !ask.is_side_request() && ask.prompt.contains(text) && ask.replies == replies;
        let what = format!("model request {replies} of the prompt {text:?}");
        self.wait_request(&what, |seen| seen.ask.as_ref().is_some_and(is_it))
    }

    /// Releases every present and later `[[hang:gate]]`; `""` is the gate of a plain `[[hang]]`.
    pub fn open(&self, gate: &str) {
        self.shared.gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Lets later streams wait at this gate again. Those that waited before it was opened must have gone on.
    pub fn close(&self, gate: &str) {
        self.shared.gates.send_modify(|open| {
            open.remove(gate);
        });
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = head.uri.path().to_owned();
    let is_post = head.method == Method::POST;
    let wire = Wire::of_path(&path).filter(|_| is_post);
    let ask = wire.map(|wire| wire.read(&path, &body));
    let named = |(name, value): (&header::HeaderName, &header::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers = head.headers.iter().map(named).collect();
    let at = SystemTime::now();
    let seen =
        Seen { at, method: head.method.to_string(), path: path.clone(), headers, body, ask: ask.clone() };
    shared.log.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
    let (Some(wire), Some(ask)) = (wire, ask) else { return harmless(&path) };
    let reply = choose(&ask, &shared.rule);
    let serial = shared.answers.fetch_add(1, Ordering::Relaxed);
    send(wire.render(&ask, &reply, format!("{:x}{serial:04}", shared.boot)), Some(shared))
}

/// Answers requests that are not model requests: token counts, catalogues, telemetry.
fn harmless(path: &str) -> Response<Body> {
    let (status, body) = match path {
        _ if path.ends_with("/count_tokens") => (StatusCode::OK, json!({"input_tokens": 1})),
        _ if path.ends_with(":countTokens") => (StatusCode::OK, json!({"totalTokens": 1})),
        _ if path.ends_with("/models") => {
            (StatusCode::OK, json!({"object": "list", "data": [], "models": []}))
        }
        _ => (StatusCode::NOT_FOUND, json!({})),
    };
    let frames = vec![Frame::Bytes(body.to_string())];
    let headers = Vec::new();
    send(Rendered { status: status.as_u16(), headers, is_event_stream: false, frames }, None)
}

/// A stream that waits at a gate; gone with its client.
struct AtGate<'s>(&'s Shared, String);

impl<'s> AtGate<'s> {
    fn wait(shared: &'s Shared, gate: &str) -> Self {
        shared.held.lock().unwrap_or_else(PoisonError::into_inner).push(gate.to_owned());
        Self(shared, gate.to_owned())
    }
}

impl Drop for AtGate<'_> {
    fn drop(&mut self) {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = held.iter().position(|gate| *gate == self.1) {
            held.remove(at);
        }
    }
}

fn send(rendered: Rendered, shared: Option<Arc<Shared>>) -> Response<Body> {
    let kind = if rendered.is_event_stream { "text/event-stream" } else { "application/json" };
    let body = stream::unfold((rendered.frames.into_iter(), shared), |(mut frames, shared)| async move {
        loop {
            match frames.next()? {
                Frame::Bytes(text) => return Some((Ok(text), (frames, shared))),
                Frame::Pause(gap) => tokio::time::sleep(gap).await,
                Frame::Hold(gate) => {
                    let Some(shared) = &shared else { continue };
                    let _waits = AtGate::wait(shared, &gate);
                    // An error means that the server is stopping, which closes this connection too.
                    let _ = shared.gates.subscribe().wait_for(|open| open.contains(&gate)).await;
                }
                Frame::Cut => {
                    // Yield once, so that what was written before the cut is really sent.
                    tokio::task::yield_now().await;
                    return Some((Err(io::Error::other("cut by the script")), (frames, shared)));
                }
            }
        }
    });
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() =
        StatusCode::from_u16(rendered.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    for (name, value) in rendered.headers {
        headers.insert(name, value.parse().unwrap_or(header::HeaderValue::from_static("")));
    }
    if rendered.status >= 400 {
        // The clients of two of the four protocols obey this header; the others have their own retry settings.
        headers.insert("x-should-retry", header::HeaderValue::from_static("false"));
    }
    response
}
