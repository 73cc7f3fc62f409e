//! Many clients at once over many sessions, some of which never read: every client gets answers, memory stays
//! bounded, and clients that fall behind are notified.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agentctl_testkit::new_uuid;
use serde_json::{Value, json};

use crate::events::Listener;
use crate::house::House;
use crate::stand_in::StandIn;

/// The amounts of everything.
struct Size {
    time: Duration,
    sessions: usize,
    live: usize,
    full: usize,
    /// The readers of events; every fifth of them never reads.
    listeners: usize,
}

fn size() -> Size {
    if std::env::var_os("AGENTCTL_LONG").is_some() {
        Size { time: Duration::from_secs(30), sessions: 10_000, live: 200, full: 10, listeners: 100 }
    } else {
        Size { time: Duration::from_secs(5), sessions: 500, live: 40, full: 3, listeners: 20 }
    }
}

/// The most memory that the daemon may use, whatever is requested.
const MEMORY: u64 = 256 << 20;

/// More events than are kept for late readers, and than fit into the buffers on the way.
const EVENTS: usize = 1250;

fn furnish(home: &Path, sessions: usize) {
    for number in 0..sessions {
        let folder = home.join(format!(".claude/projects/-work-{}", number % 40));
        fs::create_dir_all(&folder).unwrap();
        let id = new_uuid();
        let record = |kind: &str, message: Value| {
            json!({"type": kind, "uuid": new_uuid(), "sessionId": id, "cwd": format!("/work/{}", number % 40),
                "timestamp": "2026-11-01T10:00:00.000Z", "message": message})
        };
        let reply = json!({"role": "assistant", "model": "m", "content": [{"type": "text", "text": "done"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}});
        let ask = record("user", json!({"role": "user", "content": format!("task {number}")}));
        let text = format!("{ask}\n{}\n", record("assistant", reply));
        fs::write(folder.join(format!("{id}.jsonl")), text).unwrap();
    }
}

/// Signals the end when it is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn many_clients_get_their_answers_and_the_deaf_delay_nobody() {
    let size = size();
    let house = House::new();
    furnish(&house.home.path(), size.sessions);
    let _daemon = house.daemon(&[]);
    house.settled();
    let agents: Vec<StandIn> = (0..5).map(|_| StandIn::start(&house.home)).collect();
    let deaf: Vec<Listener> = (0..size.listeners / 5).map(|_| Listener::open(&house, "", None)).collect();
    let (over, most) = (AtomicBool::new(false), AtomicU64::new(0));
    let label = "x".repeat(4000);
    let deadline = Instant::now() + size.time;
    let mut late = Duration::ZERO;
    let answers: usize = std::thread::scope(|scope| {
        let (house, over, most, label) = (&house, &over, &most, &label);
        let clients: Vec<_> = (0..size.live + size.full)
            .map(|number| {
                let (target, least) = if number < size.live {
                    ("/v1/sessions", 5)
                } else {
                    ("/v1/sessions?since=all&all-agents=true", 5 + size.sessions)
                };
                scope.spawn(move || {
                    let mut answers = 0;
                    while Instant::now() < deadline {
                        let reply = house.get(target);
                        assert_eq!(reply.status, 200, "{}", reply.body);
                        let count = reply.json()["sessions"].as_array().unwrap().len();
                        assert!(count >= least, "{target}: {count} of {least}");
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        // Active readers get every single event, and none of them late.
        let opened: Vec<Listener> = (0..size.listeners - size.listeners / 5)
            .map(|_| Listener::open(house, "type=fuse.set&type=reset", None))
            .collect();
        let attentive: Vec<_> = opened
            .into_iter()
            .map(|mut listener| {
                scope.spawn(move || {
                    let mut late = Duration::ZERO;
                    for number in 0..EVENTS {
                        let event = listener.next();
                        assert_eq!(event["type"], "fuse.set", "{number}");
                        let label = event["fuse"]["label"].as_str().unwrap();
                        assert!(label.starts_with(&format!("{number} ")), "nothing is left out: {number}");
                        let at: jiff::Timestamp = event["at"].as_str().unwrap().parse().unwrap();
                        let took = jiff::Timestamp::now().duration_since(at);
                        late = late.max(Duration::try_from(took).unwrap_or_default());
                    }
                    late
                })
            })
            .collect();
        // Whatever happens here, no thread is left waiting.
        let _ends = Ends(over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let bytes = house.get("/v1/daemon").json()["memoryBytes"].as_u64().unwrap();
                most.fetch_max(bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        for number in 0..EVENTS {
            // A fuse on the same directory is replaced, so the file stays small.
            let body =
                json!({"directory": "/tmp", "ttl": "5h", "label": format!("{number} {label}")}).to_string();
            let set = house.write("POST", "/v1/fuses", &body);
            assert_eq!(set.status, 200, "{}", set.body);
        }
        late = attentive.into_iter().map(|reader| reader.join().unwrap()).max().unwrap();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let most = most.load(Ordering::Relaxed);
    eprintln!(
        "{answers} answers in {:?} over {} sessions, events at most {late:?} late, at most {} MB resident",
        size.time,
        size.sessions,
        most >> 20
    );
    assert!(answers >= size.live + size.full);
    assert!(most < MEMORY, "{} MB", most >> 20);
    assert!(late < Duration::from_secs(10), "{late:?}");
    // A reader that wakes up late gets what was buffered, then a reset, then a snapshot.
    for mut listener in deaf {
        let heard = (0..EVENTS).map(|_| listener.next()).find(|event| event["type"] == "reset");
        assert!(heard.is_some(), "a reader that fell behind is told so");
        let snapshot = listener.next();
        assert_eq!(snapshot["type"], "snapshot");
        assert_eq!(snapshot["sessions"].as_array().unwrap().len(), agents.len());
    }
    let mut events = Listener::open(&house, "", None);
    let mut agent = StandIn::start(&house.home);
    events.until("session.started", &agent.id);
    agent.kill();
    events.until("session.stopped", &agent.id);
}
