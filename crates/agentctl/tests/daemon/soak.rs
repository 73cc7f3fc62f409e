//! Sessions come and go while their source fails at random: what is told stays true, and nothing is left behind.

use std::collections::BTreeSet;

use agentctl_testkit::until_seen;
use serde_json::Value;

use crate::dice::Dice;
use crate::events::Listener;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;

fn descriptors(pid: &Value) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

#[test]
fn nothing_that_lives_is_called_stopped_and_nothing_grows() {
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 2000 } else { 100 };
    let house = House::new();
    let warm_up = StandIn::start(&house.home);
    let _daemon = house.daemon(&[]);
    house.settled();
    let status = || house.get("/v1/daemon").json();
    let before = (descriptors(&status()["pid"]), status()["watchedFolders"].clone());
    let mut events = Listener::open(&house, "", None);
    let (root, away) = (house.home.path().join(".claude"), house.home.path().join("away"));
    std::os::unix::fs::symlink(&root, &away).unwrap();
    // The root and a link that goes in circles change places, and the daemon has seen it.
    let exchange = |failing: bool| {
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, &root, rustix::fs::CWD, &away, swap).unwrap();
        let expected = if failing { "failed" } else { "complete" };
        until_seen(SOON, "the daemon to see it", || {
            warm_up.say("busy");
            let coverage = status()["sources"][0]["coverage"].clone();
            if coverage == expected { Ok(()) } else { Err(coverage) }
        });
    };
    let mut dice = Dice(7);
    let mut alive: Vec<StandIn> = Vec::new();
    let (mut killed, mut failing) = (BTreeSet::new(), false);
    for _ in 0..rounds {
        match dice.roll(6) {
            0 | 1 if !failing && alive.len() < 10 => alive.push(StandIn::start(&house.home)),
            2 if !alive.is_empty() => {
                let index = usize::try_from(dice.roll(alive.len() as u64)).unwrap();
                let mut agent = alive.swap_remove(index);
                agent.kill();
                killed.insert(agent.id.clone());
            }
            3 if !alive.is_empty() && !failing => {
                alive[0].say(["busy", "idle"][usize::try_from(dice.roll(2)).unwrap()]);
            }
            4 => {
                failing = !failing;
                exchange(failing);
            }
            _ => {}
        }
    }
    if failing {
        exchange(false);
    }
    warm_up.say("idle");
    until_seen(SOON, "the view to be the truth", || {
        let live = status()["liveSessions"].clone();
        if live == alive.len() + 1 { Ok(()) } else { Err(format!("{live} of {}", alive.len() + 1)) }
    });
    for agent in &mut alive {
        agent.kill();
        killed.insert(agent.id.clone());
    }
    until_seen(SOON, "the end of all but one", || {
        let live = status()["liveSessions"].clone();
        if live == 1 { Ok(()) } else { Err(live) }
    });
    warm_up.finish();
    // Everything up to the last word of the one that lives.
    let mut ended = BTreeSet::new();
    let mut last = StandIn::start(&house.home);
    loop {
        let event = events.next();
        let id = event["sessionId"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "session.stopped" => {
                assert!(killed.contains(&id), "{id} lives: {event}");
                assert!(ended.insert(id), "told twice: {event}");
            }
            "session.gone" => panic!("its records are there: {event}"),
            "session.started" if id == last.id => break,
            _ => {}
        }
    }
    last.kill();
    until_seen(SOON, "the daemon to let go", || {
        let now = (descriptors(&status()["pid"]), status()["watchedFolders"].clone());
        // The stream that is open here, and the connection that asks.
        if now.0 <= before.0 + 3 && now.1 == before.1 {
            Ok(())
        } else {
            Err(format!("{now:?} after {before:?}"))
        }
    });
}
