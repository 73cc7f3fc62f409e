//! JSON-RPC 2.0 on lines, in both directions: what `agentctl mcp` and `agentctl acp` speak on the standard streams.
//!
//! One thread reads. What can be answered at once is answered by it, in order; every other request has a thread of its
//! own, so that a slow one delays nobody. Nonsense is answered with an error and changes nothing else.

pub(crate) mod message;
mod wire;

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentctl_adapters::hold::lines::{Line, Lines};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;

pub(crate) use message::Fault;
use message::Incoming;
pub(crate) use wire::{Call, Wire};

/// The longest line that is taken; a prompt with files in it is a few megabytes.
const LONGEST: usize = 16 << 20;
/// How much is read at once.
const PIECE: usize = 64 << 10;
/// More requests than this at once are refused.
const MOST: usize = 512;
/// What a thread that answers needs; surveys have threads of their own.
const STACK: usize = 1 << 20;
/// How long answers that are being made when the input ends may still take, and how long what is then called off may take
/// to be undone.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
const UNDOING: Duration = Duration::from_secs(20);
/// How often it is checked whether the reader of our output has left.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// What is served.
pub(crate) trait Service: Send + Sync + 'static {
    /// Whether requests of this method are answered in order, by the thread that reads. They must not wait for anything.
    fn is_quick(&self, method: &str) -> bool;

    fn answer(&self, call: &Call, method: &str, params: Value) -> Result<Value, Fault>;

    /// A notification. It must not wait for anything.
    fn hear(&self, wire: &Wire, method: &str, params: &Value);

    /// What a request that its caller called off is answered with; `None`: nothing.
    fn called_off(&self) -> Option<Fault>;
}

/// Serves the standard streams until the input ends. Then answers that are being made are still given for a moment, and
/// what takes longer is called off and undone.
pub(crate) fn serve_standard_streams(service: &Arc<impl Service>) -> io::Result<()> {
    let wire = Wire::new(Box::new(io::stdout()));
    read_all(&mut io::stdin().lock(), service, &wire)?;
    let began = Instant::now();
    while wire.is_busy() && began.elapsed() < LAST_ANSWERS && !reader_left() {
        std::thread::sleep(CHECK_INTERVAL);
    }
    wire.close();
    let closed = Instant::now();
    while wire.is_busy() && closed.elapsed() < UNDOING {
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Polling for no events still reports a closed pipe.
fn reader_left() -> bool {
    let stdout = io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut watched, Some(&now)), Ok(ready) if ready > 0)
        && watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

fn read_all(input: &mut impl Read, service: &Arc<impl Service>, wire: &Wire) -> io::Result<()> {
    let mut lines = Lines::with_longest(LONGEST);
    let mut piece = vec![0; PIECE];
    loop {
        let count = match input.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for line in lines.take(&piece[..count]) {
            match line {
                Line::Whole(line) => take(message::parse(&line), service, wire),
                Line::TooLong => {
                    let words = format!("a message of more than {} MiB is not taken", LONGEST >> 20);
                    wire.fail(None, &Fault::invalid_request(words));
                }
            }
            if wire.is_closed() {
                return Ok(());
            }
        }
    }
}

fn take(incoming: Incoming, service: &Arc<impl Service>, wire: &Wire) {
    match incoming {
        Incoming::Request { id, method, params } => {
            let Some(call) = wire.begin(&id, MOST) else {
                let words = format!("{MOST} requests are being answered; ask again when one of them is done");
                return wire.fail(Some(&id), &Fault::busy(words));
            };
            if service.is_quick(&method) {
                return finish(&**service, &call, &method, params);
            }
            let service = service.clone();
            let work = move || finish(&*service, &call, &method, params);
            let thread = std::thread::Builder::new().name("answer".into()).stack_size(STACK);
            if let Err(error) = thread.spawn(work) {
                // The call was dropped with the closure, so it no longer counts.
                wire.fail(Some(&id), &Fault::busy(format!("no thread can be started: {error}")));
            }
        }
        Incoming::Notification { method, params } => service.hear(wire, &method, &params),
        Incoming::Response { id, outcome } => wire.answered(&id, outcome),
        Incoming::Nonsense { id, fault } => wire.fail(id.as_ref(), &fault),
    }
}

/// A panic in one answer is an error of that answer alone.
fn finish(service: &impl Service, call: &Call, method: &str, params: Value) {
    let outcome = catch_unwind(AssertUnwindSafe(|| service.answer(call, method, params)))
        .unwrap_or_else(|_| Err(Fault::internal("this request made agentctl panic; please report it")));
    match outcome {
        _ if call.was_called_off() => {
            if let Some(fault) = service.called_off() {
                call.wire().fail(Some(call.id()), &fault);
            }
        }
        Ok(result) => call.wire().succeed(call.id(), &result),
        Err(fault) => call.wire().fail(Some(call.id()), &fault),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Default)]
    struct Echo(AtomicUsize);

    impl Service for Echo {
        fn is_quick(&self, method: &str) -> bool {
            method == "quick"
        }

        fn answer(&self, call: &Call, method: &str, params: Value) -> Result<Value, Fault> {
            match method {
                "panic" => panic!("broken"),
                "ask" => call.wire().ask("question", &json!({}), || call.is_over()),
                "wait" => {
                    while !call.is_over() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(json!("too late"))
                }
                _ => Ok(params),
            }
        }

        fn hear(&self, wire: &Wire, method: &str, params: &Value) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if method == "cancel" {
                wire.call_off(&params["id"]);
            }
        }

        fn called_off(&self) -> Option<Fault> {
            None
        }
    }

    fn served(input: &str) -> Vec<Value> {
        let out = Written::default();
        let wire = Wire::new(Box::new(out.clone()));
        read_all(&mut input.as_bytes(), &Arc::new(Echo::default()), &wire).unwrap();
        let began = Instant::now();
        while wire.is_busy() && began.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!wire.is_busy(), "nothing may hang");
        let bytes = out.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn nonsense_is_an_error_and_the_next_request_is_answered() {
        let said = served(
            "garbage\n\u{1}\n[1]\n{\"id\":7}\n{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}\n\n\
             {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"quick\",\"params\":{\"a\":1}}\n",
        );
        let codes: Vec<i64> = said.iter().filter_map(|line| line["error"]["code"].as_i64()).collect();
        assert_eq!(codes, [-32700, -32700, -32600, -32600, -32600]);
        assert_eq!(said[3]["id"], 7);
        assert_eq!(said.last().unwrap(), &json!({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}));
    }

    #[test]
    fn a_panic_is_the_error_of_one_request_and_control_characters_never_leave() {
        let said = served(
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"panic\"}\n\
             {\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"quick\",\"params\":{\"t\":\"x\\u001b[2Jy\"}}\n",
        );
        let find = |id: &str| said.iter().find(|line| line["id"] == id).unwrap();
        assert_eq!(find("a")["error"]["code"], -32603);
        assert_eq!(find("b")["result"]["t"], "x[2Jy");
    }

    #[test]
    fn what_is_called_off_is_not_answered() {
        let said = served(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\"}\n\
             {\"jsonrpc\":\"2.0\",\"method\":\"cancel\",\"params\":{\"id\":1}}\n\
             {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"quick\",\"params\":[]}\n",
        );
        assert_eq!(said, [json!({"jsonrpc": "2.0", "id": 2, "result": []})]);
    }
}
