//! Changes as they happen, cursors, and readers that do not keep up.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, Signal, until_seen};
use serde_json::Value;

use crate::house::{House, SOON};
use crate::stand_in::StandIn;

/// A reader of the stream.
pub(crate) struct Listener {
    lines: BufReader<UnixStream>,
}

impl Listener {
    pub(crate) fn open(house: &House, query: &str, cursor: Option<&str>) -> Self {
        let mut stream = UnixStream::connect(house.socket()).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let cursor = cursor.map(|cursor| format!("Last-Event-ID: {cursor}\r\n")).unwrap_or_default();
        let request = format!("GET /v1/events?{query} HTTP/1.1\r\nHost: x\r\n{cursor}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut listener = Self { lines: BufReader::new(stream) };
        let status = listener.line();
        assert!(status.contains(" 200 "), "{query}: {status}");
        // The head of the response: from here on the listener is connected.
        while !listener.line().is_empty() {}
        listener
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next event. Keep-alive comments between events do not count.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Value {
        let deadline = Instant::now() + SOON;
        loop {
            assert!(Instant::now() < deadline, "no event came");
            if let Some(data) = self.line().strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }

    /// The next event of this type about this session; others are skipped.
    #[track_caller]
    pub(crate) fn until(&mut self, kind: &str, id: &str) -> Value {
        for _ in 0..1000 {
            let event = self.next();
            if event["type"] == kind && event["sessionId"] == id {
                return event;
            }
        }
        panic!("no {kind} of {id}");
    }
}

#[test]
fn a_session_is_told_from_its_start_to_its_end() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "", None);
    let mut agent = StandIn::start(&house.home);
    let started = events.until("session.started", &agent.id);
    assert_eq!((&started["adapter"], &started["previous"]), (&"claude-code".into(), &Value::Null));
    let keys: Vec<&str> = started.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "cursor",
            "type",
            "at",
            "host",
            "adapter",
            "sessionId",
            "previous",
            "session",
            "source",
            "fuse",
            "lock",
            "action"
        ]
    );
    assert_eq!(events.until("session.running", &agent.id)["session"]["status"], "running");
    agent.finish();
    let idle = events.until("session.idle", &agent.id);
    assert_eq!((&idle["previous"], &idle["session"]["outcome"]), (&"running".into(), &"completed".into()));
    agent.say("busy");
    agent.kill();
    let stopped = events.until("session.stopped", &agent.id);
    assert_eq!(stopped["session"]["status"], "stopped");
    let status = house.run(&["status", &agent.id, "--json"]).ok().json();
    assert_eq!(status["outcome"], stopped["session"]["outcome"], "an event can be wrong only if the list is");
}

#[test]
fn who_takes_and_who_leaves_a_directory_is_told() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "type=lock.acquired&type=lock.released", None);
    let mut next = |kind: &str, by: &str, directory: &str| {
        let event = events.next();
        let lock = &event["lock"];
        assert_eq!(
            (&event["type"], &lock["type"], &lock["directory"]),
            (&kind.into(), &by.into(), &directory.into())
        );
        event
    };
    let folder = house.home.work_dir("held").canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let _ = house.run(&["lock", folder, "--by", "ann"]).ok();
    assert_eq!(next("lock.acquired", "manual", folder)["lock"]["by"], "ann");
    let _ = house.run(&["unlock", folder]).ok();
    next("lock.released", "manual", folder);
    let _ = house.run(&["lock", folder, "--ttl", "200ms"]).ok();
    next("lock.acquired", "manual", folder);
    next("lock.released", "manual", folder);
    let mut agent = StandIn::start(&house.home);
    let taken = next("lock.acquired", "auto", "/work");
    assert_eq!(
        (&taken["sessionId"], &taken["session"]["id"]),
        (&agent.id.clone().into(), &agent.id.clone().into())
    );
    agent.kill();
    let left = next("lock.released", "auto", "/work");
    assert_eq!(left["sessionId"], agent.id.as_str());
    assert_eq!(left["session"]["status"], "stopped", "the session as it is, not as it was");
}

#[test]
fn a_cursor_goes_on_exactly_and_an_old_one_begins_anew() {
    let house = House::furnished();
    let daemon = house.daemon(&[]);
    house.settled();
    let mut first = Listener::open(&house, "", None);
    let agent = StandIn::start(&house.home);
    let started = first.until("session.started", &agent.id);
    let running = first.until("session.running", &agent.id);
    let mut second = Listener::open(&house, "", started["cursor"].as_str());
    assert_eq!(second.next(), running, "what came behind the cursor, and nothing twice");
    let mut typed =
        Listener::open(&house, "type=session.idle&adapter=claude-code", started["cursor"].as_str());
    agent.finish();
    assert_eq!(typed.next()["type"], "session.idle");
    assert_eq!(second.until("session.idle", &agent.id), first.until("session.idle", &agent.id));
    drop(daemon);
    let _next = house.daemon(&[]);
    house.settled();
    let mut third = Listener::open(&house, "", running["cursor"].as_str());
    assert_eq!(third.next()["type"], "reset", "the life that the cursor counted in is over");
    let snapshot = third.next();
    assert_eq!(snapshot["type"], "snapshot");
    assert_eq!(snapshot["sessions"][0]["id"], agent.id.as_str());
    let mut fourth = Listener::open(&house, "snapshot=true", None);
    assert_eq!(fourth.next()["type"], "snapshot");
}

#[test]
fn the_command_line_passes_events_on_over_a_restart() {
    let house = House::furnished();
    let daemon = house.daemon(&[]);
    house.settled();
    let mut command = house.home.agentctl_command(&["events", "--snapshot"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let mut events = Background::spawn(&house.home, command);
    let told = |events: &mut Background, what: &str, id: &str| {
        until_seen(SOON, what, || {
            let text = events.stdout();
            assert!(events.try_wait().is_none(), "it ended: {text}\n{}", events.stderr());
            let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines
                .find(|line| line["type"] == what && (id.is_empty() || line["sessionId"] == id))
                .ok_or(text.clone())
        })
    };
    told(&mut events, "snapshot", "");
    let agent = StandIn::start(&house.home);
    told(&mut events, "session.started", &agent.id);
    drop(daemon);
    told(&mut events, "reset", "");
    agent.finish();
    told(&mut events, "session.idle", &agent.id);
    events.signal(Signal::INT);
    assert_eq!(events.wait(SOON).code(), Some(130));
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
#[cfg(target_os = "linux")]
fn the_command_line_is_interrupted_while_it_tries_again() {
    let house = House::new();
    let _daemon = house.daemon(&[]);
    house.settled();
    // Such a cursor cannot be sent, and the command tries for two seconds.
    let mut command = house.home.agentctl_command(&["events", "--since", "\u{1}"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let mut events = Background::spawn(&house.home, command);
    until_seen(SOON, "the command takes signals itself", || {
        let text = std::fs::read_to_string(format!("/proc/{}/status", events.pid())).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        let taken = u64::from_str_radix(mask.trim(), 16).unwrap();
        if taken & 2 == 0 { Err(text) } else { Ok(()) }
    });
    events.signal(Signal::INT);
    assert_eq!(events.wait(SOON).code(), Some(130), "{}", events.stderr());
}

#[test]
fn a_source_that_fails_is_told_and_its_sessions_stay() {
    let house = House::new();
    let agent = StandIn::start(&house.home);
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "", None);
    let (root, away) = (house.home.path().join(".claude"), house.home.path().join("away"));
    // A link that goes in circles replaces the root in one step.
    std::os::unix::fs::symlink(&root, &away).unwrap();
    let exchange = || {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &root, rustix::fs::CWD, &away, swap).unwrap();
    };
    exchange();
    agent.say("busy");
    let failed = events.next();
    assert_eq!((&failed["type"], &failed["source"]["coverage"]), (&"source.failed".into(), &"failed".into()));
    exchange();
    agent.say("busy");
    let mut seen = Vec::new();
    while seen.last() != Some(&Value::from("source.recovered")) {
        seen.push(events.next()["type"].clone());
    }
    assert!(!seen.contains(&"session.stopped".into()) && !seen.contains(&"session.gone".into()), "{seen:?}");
    agent.finish();
    events.until("session.idle", &agent.id);
}

#[test]
fn a_reader_that_never_reads_delays_nobody() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let _deaf: Vec<Listener> = (0..20).map(|_| Listener::open(&house, "snapshot=true", None)).collect();
    let mut events = Listener::open(&house, "", None);
    for _ in 0..3 {
        let mut agent = StandIn::start(&house.home);
        events.until("session.started", &agent.id);
        agent.kill();
        events.until("session.stopped", &agent.id);
    }
}

/// The time from a real exit to the event, and from the last record to the event. The measured values are
/// printed; the bound here is a hundred times the promise, so that a busy machine does not fail it.
#[test]
fn events_are_quick() {
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 100 } else { 5 };
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut events = Listener::open(&house, "", None);
    let (mut exits, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut agent = StandIn::start(&house.home);
        events.until("session.running", &agent.id);
        agent.finish();
        let began = Instant::now();
        events.until("session.idle", &agent.id);
        ends.push(began.elapsed());
        agent.kill();
        let began = Instant::now();
        events.until("session.stopped", &agent.id);
        exits.push(began.elapsed());
    }
    for (what, times) in [("exit", &mut exits), ("turn", &mut ends)] {
        times.sort();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        eprintln!("{what}: median {median:?}, worst {worst:?} of {rounds}");
        assert!(median < Duration::from_secs(5), "{what}: {median:?}");
    }
}

#[test]
fn a_watched_list_is_drawn_when_something_changes() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let mut command = house.home.agentctl_command(&["list", "--watch"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    let mut watch = Background::spawn(&house.home, command);
    let seen = |watch: &Background, what: &str| {
        until_seen(SOON, what, || {
            let text = watch.stdout();
            if text.contains(what) { Ok(()) } else { Err(text) }
        });
    };
    until_seen(SOON, "a listener", || {
        let listeners = house.get("/v1/daemon").json()["listeners"].clone();
        if listeners.as_u64() >= Some(1) { Ok(()) } else { Err(listeners) }
    });
    let mut agent = StandIn::start(&house.home);
    seen(&watch, &format!("{} ● running", agent.id));
    agent.finish();
    seen(&watch, &format!("{} ○ idle", agent.id));
    agent.kill();
    seen(&watch, &format!("{} left the list", agent.id));
    watch.signal(Signal::INT);
    assert_eq!(watch.wait(SOON).code(), Some(130));
}
