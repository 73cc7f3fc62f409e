//! Few descriptors, and many of them: a daemon that cannot watch everything surveys now and then, never
//! continuously, and does not pass its own limit on to the processes it starts.

use std::fs;
use std::time::{Duration, Instant};

use agentctl_testkit::{until, until_seen};

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::launched::Scene;
use crate::stand_in::StandIn;

#[test]
fn with_fewer_descriptors_than_it_would_like_it_neither_spins_nor_keeps_anybody_waiting() {
    let house = House::new();
    let mut agents: Vec<StandIn> = (0..46).map(|_| StandIn::start(&house.home)).collect();
    let _daemon = house.daemon_under(64, &[]);
    house.settled();
    let standing = house.get("/v1/daemon").json();
    let words = standing["watchIncomplete"].as_str().unwrap_or_default();
    assert!(words.contains("looked at every few seconds"), "{standing:#}");
    let began = Instant::now();
    for _ in 0..3 {
        let list = house.run(&["list", "--json"]).ok();
        let list = list.json();
        let running = list["sessions"].as_array().unwrap().iter().filter(|one| one["status"] == "running");
        assert_eq!(running.count(), 46, "{:#}", list["sources"]);
    }
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    // It surveys every two seconds, and not as often as it can.
    let looks = || house.get("/v1/daemon").json()["looks"].as_u64().unwrap();
    let (before, since) = (looks(), Instant::now());
    while since.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(looks() - before <= 8, "it spins: {} looks in {:?}", looks() - before, since.elapsed());
    // Every end is announced, including those of processes that cannot be watched.
    let mut events = Listener::open(&house, "type=session.stopped", None);
    for agent in [agents.pop().unwrap(), agents.remove(0)] {
        let id = agent.id.clone();
        drop(agent);
        assert_eq!(events.until("session.stopped", &id)["session"]["outcome"], "died");
    }
}

#[test]
fn what_it_takes_for_itself_it_does_not_leave_to_what_it_starts() {
    let scene = Scene::set();
    let house = &scene.house;
    let daemon = house.daemon_under_soft(500, &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let soft: u64 = files.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft > 500, "{files}");
    let ran = house.home.path().join("ran");
    let script = format!("ulimit -Sn > {}", ran.display());
    let folder = house.home.work_dir("site");
    let set = ["fuse", "set", folder.to_str().unwrap(), "--ttl", "10ms", "--on-expire-script", &script];
    let _ = house.run(&set).ok();
    let told = until(SOON, "the script", || fs::read_to_string(&ran).ok().filter(|text| !text.is_empty()));
    assert_eq!(told.trim(), "500");
    let body = serde_json::json!({"adapter": "claude-code", "cwd": folder, "prompt": "x"});
    let launched = house.write("POST", "/v1/sessions", &body.to_string());
    assert_eq!(launched.status, 200, "{launched:?}");
    assert_eq!(fs::read_to_string(house.home.path().join("limit")).unwrap().trim(), "500", "of the agent");
    scene.open_the_gate();
    until_seen(SOON, "the end of the agent", || {
        let live = house.get("/v1/daemon").json()["liveSessions"].clone();
        if live == 0 { Ok(()) } else { Err(live) }
    });
}
