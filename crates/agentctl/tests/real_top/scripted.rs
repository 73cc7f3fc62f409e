//! A daemon by script: it answers with a list that changes as often as it is told to, and tells of each change. Each row
//! carries the number of the change that made it, so that a screen says by itself what should be on it.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentctl_daemon::wire::VERSION;
use agentctl_daemon::{DaemonLock, Home};
use agentctl_fleet::Listing;
use agentctl_model::{Outcome, Session, Status};
use agentctl_testkit::TestHome;
use agentctl_testkit::sessions::{session, surveyed};
use jiff::{SignedDuration, Timestamp};

/// How many sessions there are. Change `n` is one of session `n % SESSIONS`.
pub(crate) const SESSIONS: u64 = 24;

const STATES: [(Status, Option<Outcome>, char); 6] = [
    (Status::Waiting, None, '◐'),
    (Status::Running, None, '●'),
    (Status::Idle, None, '○'),
    (Status::Unknown, None, '?'),
    (Status::Stopped, Some(Outcome::Failed), '✕'),
    (Status::Stopped, Some(Outcome::Completed), '✓'),
];

/// What a change makes of its session: its state, and since how many seconds. Neighbours in number have nothing in common.
fn made_by(change: u64) -> (usize, i64) {
    let mixed = change.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (usize::try_from(mixed % 6).unwrap(), i64::try_from(60 + mixed / 7 % 80_000).unwrap())
}

/// The change that made each session what it is, when `changes` have been.
fn newest(changes: u64) -> impl Iterator<Item = u64> {
    (0..SESSIONS).map(move |number| changes - (changes - number) % SESSIONS)
}

/// A row as it must be shown: its glyph, its name and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) glyph: char,
    pub(crate) name: String,
    pub(crate) words: String,
}

fn name(change: u64) -> String {
    format!("Task-{:02} #{change:06}", change % SESSIONS)
}

fn words(change: u64) -> String {
    format!("made by {change:06}")
}

/// The change that a row of the screen names.
pub(crate) fn named(row: &str) -> Option<u64> {
    row.split_once(" #").and_then(|(_, rest)| rest.get(..6)?.parse().ok())
}

/// The whole list when `changes` have been, in the order in which it belongs: who waits longest, then the newest of those
/// that work, that are ready, that cannot be known, that failed and that are done.
pub(crate) fn list(changes: u64) -> Vec<Shown> {
    let mut rows: Vec<u64> = newest(changes).collect();
    rows.sort_by_key(|change| {
        let (state, seconds) = made_by(*change);
        (state, if state == 0 { -seconds } else { seconds }, change % SESSIONS)
    });
    let shown =
        |change: u64| Shown { glyph: STATES[made_by(change).0].2, name: name(change), words: words(change) };
    rows.into_iter().map(shown).collect()
}

fn told(change: u64, began: Timestamp) -> Session {
    let (state, seconds) = made_by(change);
    let (status, outcome, _) = STATES[state];
    let since = began - SignedDuration::from_secs(seconds);
    let id = format!("99999999-0000-4000-8000-{:012}", change % SESSIONS);
    Session {
        name: Some(name(change)),
        status_detail: Some(words(change)),
        since: Some(since),
        updated_at: Some(since),
        ..session(&id, status, outcome)
    }
}

/// What is served. It ends with the test.
pub(crate) struct Script {
    changes: AtomicU64,
    listeners: Mutex<Vec<UnixStream>>,
    asked: AtomicUsize,
    began: Timestamp,
    _lock: DaemonLock,
}

impl Script {
    pub(crate) fn serve(home: &TestHome) -> Arc<Self> {
        let place = Home::at(home.agentctl_home());
        place.prepare().unwrap();
        let lock = place.hold().unwrap().expect("no daemon is there yet");
        let listener = UnixListener::bind(place.socket()).unwrap();
        let script = Arc::new(Self {
            changes: AtomicU64::new(SESSIONS),
            listeners: Mutex::default(),
            asked: AtomicUsize::new(0),
            began: Timestamp::now(),
            _lock: lock,
        });
        let serving = script.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = serving.clone();
                std::thread::spawn(move || script.answer(stream));
            }
        });
        script
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    pub(crate) fn listeners(&self) -> usize {
        self.listeners.lock().unwrap().len()
    }

    /// How often it was asked for the list.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// One more change, told to everybody who listens. It waits for whoever does not take in what is told.
    pub(crate) fn change(&self) {
        let change = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        let session = serde_json::to_string(&told(change, self.began)).unwrap();
        let event =
            format!("id: storm-{change}\nevent: session.updated\ndata: {{\"session\":{session}}}\n\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        self.listeners.lock().unwrap().retain_mut(|stream| stream.write_all(chunk.as_bytes()).is_ok());
    }

    fn answer(&self, mut stream: UnixStream) {
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let Some(asked) = lines.next() else { return };
        let _ = lines.find(String::is_empty);
        let target = asked.split(' ').nth(1).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        if target == "/v1/events" {
            let head =
                format!("HTTP/1.1 200 OK\r\n{VERSION}: {version}\r\nTransfer-Encoding: chunked\r\n\r\n");
            if stream.write_all(head.as_bytes()).is_ok() {
                self.listeners.lock().unwrap().push(stream);
            }
            return;
        }
        let (status, body) = if target.starts_with("/v1/sessions?") {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let sessions = newest(self.changes()).map(|change| surveyed(told(change, self.began))).collect();
            let list = Listing {
                as_of: Timestamp::now(),
                sessions,
                left_out: 0,
                sources: Vec::new(),
                hosts: Vec::new(),
                strays: 0,
            };
            ("200 OK", serde_json::to_string(&list).unwrap())
        } else {
            ("404 Not Found", String::new())
        };
        let head =
            format!("HTTP/1.1 {status}\r\n{VERSION}: {version}\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        // Whoever asked closes first.
        let _ = stream.read(&mut [0]);
    }
}
