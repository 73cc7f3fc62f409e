//! Commands that run until something happens: a daemon tells them when to survey, and its end changes
//! nothing.

use agentctl_testkit::{Background, Signal, until, until_seen};

use crate::house::{House, SOON};
use crate::stand_in::StandIn;

fn begin(house: &House, arguments: &[&str], daemon: bool) -> Background {
    let mut command = house.home.agentctl_command(arguments);
    if daemon {
        command.env_remove("AGENTCTL_NO_DAEMON");
    }
    Background::spawn(&house.home, command)
}

fn listeners(house: &House) -> u64 {
    house.get("/v1/daemon").json()["listeners"].as_u64().unwrap()
}

/// How a wait for a turn ends, and what it prints.
fn waited(daemon: bool, killed: bool) -> (Option<i32>, String) {
    let house = House::furnished();
    let mut serving = daemon.then(|| house.daemon(&[]));
    let agent = StandIn::start(&house.home);
    let mut waiting = begin(&house, &["wait", &agent.id, "--json"], daemon);
    if let Some(serving) = &mut serving {
        until(SOON, "the wait to listen", || (listeners(&house) == 1).then_some(()));
        if killed {
            serving.signal(Signal::KILL);
            serving.wait(SOON);
        }
    }
    assert!(waiting.try_wait().is_none(), "{}", waiting.stdout());
    agent.finish();
    let code = waiting.wait(SOON).code();
    let answer: serde_json::Value = serde_json::from_str(&waiting.stdout()).unwrap();
    let reached = &answer["reached"][0];
    assert_eq!(reached["id"], agent.id.as_str(), "{answer:#}");
    (code, format!("{} {} {}", reached["status"], reached["lastMessage"], answer["timedOut"]))
}

#[test]
fn a_wait_ends_the_same_with_without_and_behind_a_daemon() {
    let alone = waited(false, false);
    assert_eq!(alone, (Some(0), r#""idle" "done" false"#.to_owned()));
    assert_eq!(waited(true, false), alone);
    assert_eq!(waited(true, true), alone, "the daemon went away in the middle");
}

#[test]
fn a_wait_with_a_daemon_still_ends_in_time_and_by_a_death() {
    let house = House::furnished();
    let _daemon = house.daemon(&[]);
    let mut agent = StandIn::start(&house.home);
    assert_eq!(house.run(&["wait", &agent.id, "--timeout", "0s"]).code, Some(124));
    assert_eq!(house.run(&["wait", &agent.id, "--until", "running"]).code, Some(0));
    let mut waiting = begin(&house, &["wait", &agent.id], true);
    until(SOON, "the wait to listen", || (listeners(&house) == 1).then_some(()));
    agent.kill();
    assert_eq!(waiting.wait(SOON).code(), Some(1), "{}", waiting.stdout());
}

/// What `logs -f` prints of a conversation that continues and ends.
fn followed(daemon: bool, killed: bool) -> Vec<String> {
    let house = House::furnished();
    let mut serving = daemon.then(|| house.daemon(&[]));
    let mut agent = StandIn::start(&house.home);
    let before = if daemon { house.requests() + 1 } else { 0 };
    let mut reading = begin(&house, &["logs", "-f", &agent.id, "--json"], daemon);
    let lines = |reading: &Background, count: usize| {
        until_seen(SOON, "the entries", || {
            let lines: Vec<String> = reading.stdout().lines().map(str::to_owned).collect();
            if lines.len() == count { Ok(lines) } else { Err(format!("{lines:?} {}", reading.stderr())) }
        })
    };
    lines(&reading, 1);
    if let Some(serving) = &mut serving {
        // It finds the session and then listens; each of our own requests is counted too.
        let mut looks = 0;
        until(SOON, "the reader to listen", || {
            let theirs = house.requests() - before - looks;
            looks += 1;
            (theirs >= 2).then_some(())
        });
        if killed {
            serving.signal(Signal::KILL);
            serving.wait(SOON);
        }
    }
    agent.finish();
    lines(&reading, 2);
    agent.kill();
    assert_eq!(reading.wait(SOON).code(), Some(0), "{}", reading.stderr());
    let text = |line: &String| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned()
    };
    lines(&reading, 2).iter().map(text).collect()
}

#[test]
fn a_conversation_is_followed_the_same_with_without_and_behind_a_daemon() {
    let alone = followed(false, false);
    assert_eq!(alone, ["do it", "done"]);
    assert_eq!(followed(true, false), alone);
    assert_eq!(followed(true, true), alone, "the daemon went away in the middle");
}
