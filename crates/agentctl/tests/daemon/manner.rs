//! The options of a daemon: the config counts for every start, and flags are passed on to the next daemon.

use std::fs;
use std::net::TcpListener;

use agentctl_testkit::nats::free_port;
use agentctl_testkit::{Background, until, until_seen};

use crate::house::{House, SOON};

fn configure(house: &House, http: &str) {
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    fs::write(house.home.agentctl_home().join("config.toml"), format!("http = \"{http}\"\n")).unwrap();
}

fn follower(house: &House) -> Background {
    let mut command = house.home.agentctl_command(&["events"]);
    command.env_remove("AGENTCTL_NO_DAEMON");
    Background::spawn(&house.home, command)
}

fn listeners(house: &House, count: u64) {
    until_seen(SOON, "the listeners", || {
        let now = house.try_get("/v1/daemon").map(|reply| reply.json()["listeners"].clone());
        if now.as_ref().and_then(serde_json::Value::as_u64) >= Some(count) {
            return Ok(());
        }
        Err(format!("{now:?}"))
    });
}

#[test]
fn the_port_of_the_config_is_served_by_every_start_and_a_flag_wins() {
    let house = House::furnished();
    let (first, other) = (format!("127.0.0.1:{}", free_port()), format!("127.0.0.2:{}", free_port()));
    configure(&house, &first);
    let served = || house.get("/v1/daemon").json()["http"].as_str().unwrap_or("none").to_owned();
    let _ = house.run(&["daemon", "start"]).ok();
    assert_eq!(served(), first);
    assert!(house.run(&["daemon", "start"]).ok().stdout.contains("runs already"));
    // Another address in the config counts from the next start on, and until then a warning says that it does
    // not.
    configure(&house, &other);
    let refused = house.run(&["daemon", "start"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(
        refused.stderr.contains(&other) && refused.stderr.contains("`agentctl daemon restart`"),
        "{refused:?}"
    );
    let _ = house.run(&["daemon", "restart"]).ok();
    assert_eq!(served(), other);
    let _ = house.run(&["daemon", "stop"]).ok();
    let mut events = follower(&house);
    listeners(&house, 1);
    assert_eq!(served(), other, "one that a command started");
    events.signal(agentctl_testkit::Signal::INT);
    events.wait(SOON);
    let _ = house.run(&["daemon", "restart", "--http", &first]).ok();
    assert_eq!(served(), first);
    let _ = house.run(&["daemon", "restart"]).ok();
    assert_eq!(served(), first, "the flag of the one before");
    let _ = house.run(&["daemon", "stop"]).ok();
    let shown = house.run(&["config", "show"]).ok().stdout;
    assert!(shown.lines().any(|line| line.contains("http") && line.contains(&other)), "{shown}");
}

#[test]
fn a_port_that_cannot_be_had_is_said_loudly() {
    let house = House::furnished();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    configure(&house, &address);
    for needing in [&["daemon", "start"][..], &["daemon", "restart"], &["daemon", "run"], &["events"]] {
        let refused = house.run(needing);
        assert_eq!(refused.code, Some(5), "{needing:?}: {refused:?}");
        assert!(refused.stderr.contains(&address), "{needing:?}: {refused:?}");
        assert!(refused.stderr.contains("config.toml"), "{needing:?}: {refused:?}");
    }
    // A command that can do without the daemon reports that and continues.
    let waited = house.run(&["wait", "2222"]);
    assert!(waited.stderr.contains(&address) && waited.stderr.contains("no daemon is started"), "{waited:?}");
    assert!(matches!(waited.code, Some(0 | 1)), "{waited:?}");
    assert!(!house.socket().exists());
    drop(taken);
    let _ = house.run(&["daemon", "start"]).ok();
    assert_eq!(house.run(&["wait", "2222"]).stderr, "");
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn what_cannot_be_served_is_refused_before_the_one_that_runs_is_ended() {
    let house = House::furnished();
    let config = house.home.agentctl_home().join("config.toml");
    fs::create_dir_all(house.home.agentctl_home()).unwrap();
    fs::write(&config, "http = 7788\n").unwrap();
    for wanted in [["daemon", "start"], ["daemon", "restart"]] {
        let refused = house.run(&wanted);
        assert_eq!(refused.code, Some(1), "{wanted:?}: {refused:?}");
        assert!(refused.stderr.contains("line 1, column 8"), "{wanted:?}: {refused:?}");
        assert!(!house.socket().exists());
    }
    // A command that can do without the daemon continues and reports it too.
    let waited = house.run(&["wait", "2222"]);
    assert!(waited.stderr.contains("line 1, column 8"), "{waited:?}");
    let _ = house.run(&["daemon", "stop"]).ok();
    // A flag supplies what the file lacks.
    let _ = house.run(&["daemon", "start", "--http", "127.0.0.1:0"]).ok();
    fs::remove_file(&config).unwrap();
    let pid = || house.get("/v1/daemon").json()["pid"].clone();
    let before = pid();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (unfit, code) in [(address.as_str(), 5), ("192.0.2.1:80", 2)] {
        let refused = house.run(&["daemon", "restart", "--http", unfit]);
        assert_eq!(refused.code, Some(code), "{refused:?}");
        assert!(refused.stderr.contains(unfit), "{refused:?}");
        assert_eq!(pid(), before, "the one before goes on");
    }
    let _ = house.run(&["daemon", "restart"]).ok();
    assert_ne!(pid(), before);
    let _ = house.run(&["daemon", "stop"]).ok();
}

#[test]
fn a_stop_does_not_overlook_a_daemon_that_is_just_starting() {
    let house = House::furnished();
    for round in 0..5 {
        // This command wants a daemon and does not wait for it.
        let _ = house.run(&["wait", "2222", "--timeout", "1ms"]);
        let stopped = house.run(&["daemon", "stop"]).ok();
        assert!(stopped.stdout.contains("the daemon has ended"), "round {round}: {stopped:?}");
        let status = house.run(&["daemon", "status", "--json"]).stdout;
        assert!(status.contains("\"running\":false"), "round {round}: {status}");
    }
}

#[test]
fn a_restart_is_not_overtaken_by_those_who_listen() {
    let house = House::new();
    let _ = house.run(&["daemon", "start", "--read-only", "--http", "127.0.0.1:0"]).ok();
    let served = house.get("/v1/daemon").json()["http"].clone();
    let followers: Vec<Background> = (0..4).map(|_| follower(&house)).collect();
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 50 } else { 5 };
    for round in 0..rounds {
        listeners(&house, 4);
        let before = house.get("/v1/daemon").json()["pid"].clone();
        let _ = house.run(&["daemon", "restart"]).ok();
        let now = house.get("/v1/daemon").json();
        assert_ne!(now["pid"], before);
        assert_eq!((&now["readOnly"], &now["http"]), (&true.into(), &served), "round {round}");
    }
    drop(followers);
    let _ = house.run(&["daemon", "stop"]).ok();
    until(SOON, "its end", || (!house.socket().exists()).then_some(()));
}
