//! Many at once, and some that never read.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::events::Listener;
use crate::house::House;
use crate::stand_in::StandIn;

/// For so long, by so many.
fn size() -> (Duration, usize, usize, usize) {
    if std::env::var_os("AGENTCTL_LONG").is_some() {
        (Duration::from_secs(30), 200, 10, 100)
    } else {
        (Duration::from_secs(1), 20, 2, 20)
    }
}

#[test]
fn many_clients_get_their_answers_and_the_deaf_delay_nobody() {
    let (time, live, full, listeners) = size();
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    house.settled();
    let _agents: Vec<StandIn> = (0..5).map(|_| StandIn::start(&house.home)).collect();
    // Some of them never read.
    let _deaf: Vec<UnixStream> = (0..listeners)
        .map(|_| {
            let mut stream = UnixStream::connect(house.socket()).unwrap();
            stream.write_all(b"GET /v1/events?snapshot=true HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let memory = || house.get("/v1/daemon").json()["memoryBytes"].as_u64().unwrap();
    let deadline = Instant::now() + time;
    let answers: usize = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..live + full)
            .map(|number| {
                let house = &house;
                scope.spawn(move || {
                    let target =
                        if number < live { "/v1/sessions" } else { "/v1/sessions?since=all&all-agents=true" };
                    let mut answers = 0;
                    while Instant::now() < deadline {
                        let reply = house.get(target);
                        assert_eq!(reply.status, 200);
                        assert!(reply.json()["sessions"].as_array().unwrap().len() >= 5);
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    eprintln!("{answers} answers in {time:?}, {} MB resident", memory() >> 20);
    assert!(answers >= live + full);
    let mut events = Listener::open(&house, "", None);
    let mut agent = StandIn::start(&house.home);
    events.until("session.started", &agent.id);
    agent.kill();
    events.until("session.stopped", &agent.id);
}
