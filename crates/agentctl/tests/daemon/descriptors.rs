//! Few descriptors, and many of them: a daemon that cannot watch everything surveys now and then, never
//! continuously, and does not pass its own limit on to the processes it starts.

use std::fs;
use std::time::{Duration, Instant};

use agentctl_testkit::{until, until_seen};

use serde_json::json;

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::launched::Scene;
use crate::stand_in::StandIn;

/// The time between two looks of a daemon that is told of nothing.
const SWEEP: Duration = Duration::from_secs(15);

/// A daemon that can watch so many of its agents' processes and no more, for this reason.
fn cannot_watch_all(house: &House, mut agents: Vec<StandIn>, watched: usize, why: &str) {
    let unwatched = agents.len() - watched;
    let standing = || house.run(&["daemon", "status", "--json"]).ok().json()["daemon"].clone();
    until_seen(SOON, "all agents to be seen", || {
        let standing = standing();
        let seen = (&standing["watchedProcesses"], &standing["unwatchedProcesses"]);
        if seen == (&json!(watched), &json!(unwatched)) { Ok(()) } else { Err(format!("{standing:#}")) }
    });
    let words = format!("{unwatched} processes cannot be watched: {why}");
    assert_eq!(standing()["watchIncomplete"], words, "{:#}", standing());
    assert_eq!(standing()["unwatchedFolders"], 0, "{:#}", standing());
    let sheet = house.run(&["daemon", "status"]).ok().stdout;
    assert!(sheet.contains(&format!("{watched} processes\n")) && sheet.contains(&words), "{sheet}");
    assert!(sheet.lines().all(|line| line.chars().count() <= 80 || !line.contains("watched")), "{sheet}");

    // Between two sweeps it does not look. One may be due right away, and one may be under way, until it rests.
    let looks = || house.get("/v1/daemon").json()["looks"].as_u64().unwrap();
    until_seen(8 * SWEEP, "it to rest between two sweeps", || {
        let first = looks();
        let before = until(4 * SWEEP, "a sweep", || Some(looks()).filter(|looks| *looks > first));
        let began = Instant::now();
        until(4 * SWEEP, "two sweeps", || (looks() >= before + 2).then_some(()));
        let swept = began.elapsed().as_secs_f64() / SWEEP.as_secs_f64();
        if swept > 1.8 { Ok(()) } else { Err(format!("it spins: two looks in {swept} sweeps")) }
    });

    for _ in 0..3 {
        let list = house.run(&["list", "--json"]).ok().json();
        let running = list["sessions"].as_array().unwrap().iter().filter(|one| one["status"] == "running");
        assert_eq!(running.count(), agents.len(), "{:#}", list["sources"]);
    }
    // Every end is told, also of those that cannot be watched.
    let mut events = Listener::open(house, "type=session.stopped", None);
    for agent in [agents.pop().unwrap(), agents.remove(0)] {
        let id = agent.id.clone();
        drop(agent);
        assert_eq!(events.until("session.stopped", &id)["session"]["outcome"], "died");
    }
}

#[test]
fn with_fewer_descriptors_than_it_would_like_it_says_so_and_rests() {
    let house = House::new();
    let agents: Vec<StandIn> = (0..46).map(|_| StandIn::start(&house.home)).collect();
    let _daemon = house.daemon_under(64, &[]);
    cannot_watch_all(&house, agents, 16, "the limit of open files allows 16");
}

#[test]
#[cfg(target_os = "linux")]
fn without_pidfd_open_it_says_so_and_rests() {
    let house = House::new();
    let Some(daemon) = house.daemon_without_pidfd_open() else {
        return agentctl_testkit::skip("no call can be taken away here: there is no python3, or no seccomp");
    };
    // Those that come while it runs are no different.
    let agents: Vec<StandIn> = (0..40).map(|_| StandIn::start(&house.home)).collect();
    cannot_watch_all(&house, agents, 0, "Function not implemented (os error 38)");
    drop(daemon);
}

#[test]
#[cfg(target_os = "linux")]
fn folders_that_cannot_be_watched_are_counted_and_told() {
    for (what, words) in [
        ("watches", " folders cannot be watched: No space left on device (os error 28)"),
        ("instances", "no folder can be watched: inotify: Too many open files (os error 24)"),
    ] {
        let house = House::furnished();
        let Some(_daemon) = house.daemon_with_few_inotify(what) else {
            return agentctl_testkit::skip("inotify cannot be limited here: there are no user namespaces");
        };
        house.settled();
        let standing = house.run(&["daemon", "status", "--json"]).ok().json()["daemon"].clone();
        let told = standing["watchIncomplete"].as_str().unwrap_or_default();
        assert!(told.contains(words), "{standing:#}");
        // Where nothing at all can be watched, nobody has counted.
        match standing["unwatchedFolders"].as_u64() {
            Some(count) => assert!(
                what == "watches" && count > 0 && told.starts_with(&count.to_string()),
                "{standing:#}"
            ),
            None => assert_eq!(what, "instances", "{standing:#}"),
        }
        assert!(house.run(&["daemon", "status"]).ok().stdout.contains(words));
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
