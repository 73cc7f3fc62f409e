//! Our end of a connection: what is said, the requests of the other end that are being answered, and our own that wait.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::message::{Fault, Id};

/// How often a question of ours is checked for having become needless.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The connection; every holder speaks on the same one.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Shared>);

struct Shared {
    out: Mutex<Box<dyn Write + Send>>,
    closed: AtomicBool,
    /// The requests that are being answered: whether each was called off.
    calls: Mutex<HashMap<String, Arc<AtomicBool>>>,
    /// Our own requests, and who waits for their answers.
    asked: Mutex<HashMap<String, Sender<Result<Value, Fault>>>>,
    next: AtomicU64,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Shared {
            out: Mutex::new(out),
            closed: AtomicBool::new(false),
            calls: Mutex::default(),
            asked: Mutex::default(),
            next: AtomicU64::new(1),
        }))
    }

    pub(crate) fn notify(&self, method: &str, params: &impl Serialize) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Asks the other end and waits for its answer, until `is_needless` or the connection is closed.
    pub(crate) fn ask(
        &self,
        method: &str,
        params: &impl Serialize,
        is_needless: impl Fn() -> bool,
    ) -> Result<Value, Fault> {
        let id = Id::from(self.0.next.fetch_add(1, Ordering::Relaxed));
        let (sender, answer) = channel();
        held(&self.0.asked).insert(id.key(), sender);
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            match answer.recv_timeout(CHECK_INTERVAL) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Timeout) if !is_needless() && !self.is_closed() => {}
                Err(_) => {
                    held(&self.0.asked).remove(&id.key());
                    self.notify("$/cancel_request", &json!({"requestId": id}));
                    return Err(Fault::internal("the question became needless before it was answered"));
                }
            }
        }
    }

    /// Calls a request of the other end off, by the id that it gave.
    pub(crate) fn call_off(&self, id: &Value) {
        if let Some(call) = Id::of(id).and_then(|id| held(&self.0.calls).get(&id.key()).cloned()) {
            call.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        held(&self.0.asked).clear();
    }

    pub(super) fn is_busy(&self) -> bool {
        !held(&self.0.calls).is_empty()
    }

    /// A request begins, unless there are too many. An id that is in use is one that its owner has given up.
    pub(super) fn begin(&self, id: &Id, most: usize) -> Option<Call> {
        let mut calls = held(&self.0.calls);
        if calls.len() >= most {
            return None;
        }
        let called_off = Arc::new(AtomicBool::new(false));
        calls.insert(id.key(), called_off.clone());
        drop(calls);
        Some(Call { wire: self.clone(), id: id.clone(), called_off })
    }

    pub(super) fn answered(&self, id: &Id, outcome: Result<Value, Fault>) {
        // An answer that nobody waits for any more is dropped.
        if let Some(waits) = held(&self.0.asked).remove(&id.key()) {
            let _ = waits.send(outcome);
        }
    }

    pub(super) fn succeed(&self, id: &Id, result: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    pub(super) fn fail(&self, id: Option<&Id>, fault: &Fault) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "error": fault}));
    }

    /// Control characters are dropped from everything that is said. Who does not listen any more is noticed at the end
    /// of the input.
    fn say(&self, message: &Value) {
        let mut line = Vec::new();
        if agentctl_model::text::json::write(&mut line, message).is_err() {
            return;
        }
        line.push(b'\n');
        let mut out = held(&self.0.out);
        if out.write_all(&line).and_then(|()| out.flush()).is_err() {
            self.0.closed.store(true, Ordering::Relaxed);
        }
    }
}

/// A request of the other end while it is being answered.
pub(crate) struct Call {
    wire: Wire,
    id: Id,
    called_off: Arc<AtomicBool>,
}

impl Call {
    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    pub(crate) fn was_called_off(&self) -> bool {
        self.called_off.load(Ordering::Relaxed)
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn is_over(&self) -> bool {
        self.was_called_off() || self.wire.is_closed()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut calls = held(&self.wire.0.calls);
        let key = self.id.key();
        if calls.get(&key).is_some_and(|current| Arc::ptr_eq(current, &self.called_off)) {
            calls.remove(&key);
        }
    }
}
