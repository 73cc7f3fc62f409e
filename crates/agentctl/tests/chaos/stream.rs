//! A program that listens to the events all the time, over every death of the daemon, and keeps what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// The connection is looked at so often whether the test is over.
const LOOK: Duration = Duration::from_millis(200);
const BETWEEN: Duration = Duration::from_millis(20);

#[derive(Default)]
pub(crate) struct Heard {
    /// The status of every live session, as far as events have told.
    pub(crate) live: BTreeMap<String, String>,
    /// The sessions whose agents are alive now. One that is about to be killed is taken out before.
    pub(crate) alive: BTreeSet<String>,
    /// While their records are away, sessions may be told as gone.
    pub(crate) may_be_gone: bool,
    pub(crate) wrong: Vec<String>,
    pub(crate) resets: usize,
    pub(crate) events: usize,
    cursor: String,
}

pub(crate) struct Stream {
    heard: Arc<Mutex<Heard>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stream {
    pub(crate) fn of(socket: PathBuf) -> Self {
        let heard = Arc::<Mutex<Heard>>::default();
        let is_over = Arc::<AtomicBool>::default();
        let thread = std::thread::spawn({
            let (heard, is_over) = (Arc::clone(&heard), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    // A connection that ends or is not to be had is tried again: there may be no daemon now.
                    let _ = listen(&socket, &heard, &is_over);
                    std::thread::sleep(BETWEEN);
                }
            }
        });
        Self { heard, is_over, thread: Some(thread) }
    }

    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(socket: &Path, heard: &Mutex<Heard>, is_over: &AtomicBool) -> std::io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LOOK))?;
    let cursor = heard.lock().unwrap().cursor.clone();
    // Whoever has no cursor yet begins with what is so now.
    let from = if cursor.is_empty() { String::new() } else { format!("Last-Event-ID: {cursor}\r\n") };
    let query = if cursor.is_empty() { "?snapshot=true" } else { "" };
    stream.write_all(format!("GET /v1/events{query} HTTP/1.1\r\nHost: x\r\n{from}\r\n").as_bytes())?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while !is_over.load(Ordering::Relaxed) {
        match lines.read_line(&mut line) {
            Ok(0) => return Ok(()),
            // A line that was cut by the end of the connection is no line.
            Ok(_) if !line.ends_with('\n') => return Ok(()),
            Ok(_) => {
                if let Some(data) = line.strip_prefix("data: ") {
                    heard.lock().unwrap().take(&serde_json::from_str(data).expect("an event is JSON"));
                }
                line.clear();
            }
            // What has arrived of the line so far stays in it.
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Heard {
    fn take(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.cursor = text(&event["cursor"]);
        self.events += 1;
        let id = text(&event["sessionId"]);
        match event["type"].as_str().unwrap_or_default() {
            "reset" => self.resets += 1,
            "snapshot" => {
                let sessions = event["sessions"].as_array().expect("a snapshot has sessions").iter();
                self.live =
                    sessions.map(|session| (text(&session["id"]), text(&session["status"]))).collect();
            }
            "session.stopped" => {
                if self.alive.contains(&id) {
                    self.wrong.push(format!("told as stopped while its agent lives: {event:#}"));
                }
                self.live.remove(&id);
            }
            "session.gone" => {
                if self.alive.contains(&id) && !self.may_be_gone {
                    self.wrong.push(format!("told as gone while its records are there: {event:#}"));
                }
                self.live.remove(&id);
            }
            kind if kind.starts_with("session.") => {
                self.live.insert(id, text(&event["session"]["status"]));
            }
            _ => {}
        }
    }
}
