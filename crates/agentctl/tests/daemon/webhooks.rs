//! Webhooks: at least once, in order, signed, whatever the receiver and the daemon go through.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use agentctl_testkit::{Signal, until, until_seen};
use serde_json::Value;

use crate::house::{House, SOON};
use crate::stand_in::StandIn;

/// What the receiver does with a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mood {
    Error,
    Drop,
    /// Accepts the request, and never answers.
    Hang,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) head: String,
    pub(crate) body: String,
    pub(crate) accepted: bool,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// A receiver on loopback. It goes through these moods first, and accepts everything afterwards.
pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
    moods: Arc<Mutex<VecDeque<Mood>>>,
}

impl Receiver {
    pub(crate) fn start(moods: &[Mood]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let moods = Arc::new(Mutex::new(moods.iter().copied().collect::<VecDeque<Mood>>()));
        let (log, next) = (received.clone(), moods.clone());
        std::thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while reader.read_line(&mut head).is_ok_and(|length| length > 2) {}
                let mut one = Received { head, body: String::new(), accepted: false };
                let length: u64 =
                    one.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
                let _ = (&mut reader).take(length).read_to_string(&mut one.body);
                // A sender that was killed in the middle of a request has sent none.
                if !one.head.ends_with("\r\n\r\n") || u64::try_from(one.body.len()) != Ok(length) {
                    continue;
                }
                let mood = next.lock().unwrap().pop_front();
                one.accepted = mood.is_none();
                log.lock().unwrap().push(one);
                let status = match mood {
                    None => "204 No Content",
                    Some(Mood::Error) => "500 Oh",
                    Some(Mood::Drop) => continue,
                    Some(Mood::Hang) => {
                        hanging.push(reader);
                        continue;
                    }
                };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = reader.get_mut().write_all(answer.as_bytes());
            }
        });
        Self { url, received, moods }
    }

    /// From now on it goes through these moods first.
    pub(crate) fn will_be(&self, moods: impl IntoIterator<Item = Mood>) {
        *self.moods.lock().unwrap() = moods.into_iter().collect();
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits for this many accepted requests.
    pub(crate) fn accepted(&self, count: usize) -> Vec<Received> {
        until_seen(SOON, "webhooks", || {
            let accepted: Vec<Received> = self.received().into_iter().filter(|one| one.accepted).collect();
            if accepted.len() >= count { Ok(accepted) } else { Err(format!("{:?}", self.received())) }
        })
    }
}

pub(crate) fn configure(house: &House, url: &str) {
    std::fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let config = format!("[webhook]\nurl = \"{url}\"\nsecret = \"Jefe\"\nevents = [\"session.stopped\"]\n");
    std::fs::write(house.home.agentctl_home().join("config.toml"), config).unwrap();
}

pub(crate) fn pending(house: &House) -> u64 {
    house.get("/v1/daemon").json()["outbox"]["pending"].as_u64().unwrap()
}

#[test]
fn a_session_that_stops_is_told_until_it_is_heard() {
    let house = House::new();
    let receiver = Receiver::start(&[Mood::Error, Mood::Drop]);
    configure(&house, &receiver.url);
    let _daemon = house.daemon(&[]);
    let mut agent = StandIn::start(&house.home);
    until(SOON, "the session to be seen", || {
        (house.get("/v1/daemon").json()["liveSessions"] == 1).then_some(())
    });
    agent.finish();
    agent.kill();
    let accepted = receiver.accepted(1).remove(0);
    let all = receiver.received();
    assert_eq!(all.len(), 3, "{all:?}");
    let id = accepted.header("X-Agentctl-Delivery").unwrap();
    assert!(all.iter().all(|one| one.header("X-Agentctl-Delivery") == Some(id) && one.body == accepted.body));
    let body: Value = serde_json::from_str(&accepted.body).unwrap();
    assert_eq!((&body["hook_type"], &body["adapter"]), (&"session.stopped".into(), &"claude-code".into()));
    assert_eq!(
        (&body["session_id"], &body["session"]["id"]),
        (&agent.id.clone().into(), &agent.id.clone().into())
    );
    assert_eq!((&body["exit_status"], &body["summary"]), (&"completed".into(), &"done".into()));
    for key in ["duration_seconds", "meta", "timestamp"] {
        assert!(!body[key].is_null(), "{key}: {body}");
    }
    let signature = accepted.header("X-Signature").unwrap();
    assert_eq!(signature.len(), 64);
    let marked = format!("sha256={signature}");
    assert_eq!(accepted.header("X-Hub-Signature-256"), Some(marked.as_str()));
    assert_eq!(accepted.header("X-Agentctl-Signature"), Some(marked.as_str()));
    until(SOON, "an empty outbox", || (pending(&house) == 0).then_some(()));
}

#[test]
fn what_is_in_the_outbox_survives_a_killed_daemon() {
    let house = House::new();
    // No process listens there.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure(&house, &format!("http://{nobody}/"));
    let mut daemon = house.daemon(&[]);
    let mut agents: Vec<StandIn> = (0..3).map(|_| StandIn::start(&house.home)).collect();
    until(SOON, "the sessions to be seen", || {
        (house.get("/v1/daemon").json()["liveSessions"] == 3).then_some(())
    });
    for agent in &mut agents {
        agent.kill();
    }
    until(SOON, "three in the outbox", || (pending(&house) == 3).then_some(()));
    assert!(house.run(&["daemon", "status"]).stdout.contains("3 to deliver"));
    daemon.signal(Signal::KILL);
    daemon.wait(SOON);
    let receiver = Receiver::start(&[]);
    configure(&house, &receiver.url);
    let _next = house.daemon(&[]);
    let accepted = receiver.accepted(3);
    for agent in &agents {
        assert!(accepted.iter().any(|one| one.body.contains(&agent.id)), "{}", agent.id);
    }
    until(SOON, "an empty outbox", || (pending(&house) == 0).then_some(()));
}

#[test]
fn a_command_hears_who_waits_once() {
    let house = House::new();
    let heard = house.home.path().join("heard");
    std::fs::create_dir_all(house.home.agentctl_home()).unwrap();
    let config = format!(
        "[notify]\ncommand = 'echo \"$AGENTCTL_EVENT $AGENTCTL_SESSION_ID $AGENTCTL_ADAPTER\" >> {}'\non = [\"idle\"]\n",
        heard.display()
    );
    std::fs::write(house.home.agentctl_home().join("config.toml"), config).unwrap();
    let _daemon = house.daemon(&[]);
    let mut agent = StandIn::start(&house.home);
    until(SOON, "the session to be seen", || {
        (house.get("/v1/daemon").json()["liveSessions"] == 1).then_some(())
    });
    agent.finish();
    until(SOON, "the command", || std::fs::read_to_string(&heard).ok().filter(|text| text.ends_with('\n')));
    agent.kill();
    until(SOON, "its end to be seen", || (house.get("/v1/daemon").json()["liveSessions"] == 0).then_some(()));
    let text = std::fs::read_to_string(&heard).unwrap();
    assert_eq!(text, format!("session.idle {} claude-code\n", agent.id));
}
