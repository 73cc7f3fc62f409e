//! The outcome of a launched session is what its runner recorded: it is unknown before, and announced with
//! who ended it.

use std::fs;

use agentctl_testkit::{Background, Signal, until, until_seen};
use serde_json::Value;

use crate::events::Listener;
use crate::house::{House, SOON};
use crate::launched::Scene;
use crate::stand_in::StandIn;

fn status(house: &House, id: &str) -> Value {
    house.run(&["status", id, "--json"]).ok().json()
}

/// The process state as the kernel reports it: `T` is stopped.
fn state_of(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned()
}

/// No process owns it, and no verdict is given that the exit could change.
fn is_open(seen: &Value) -> bool {
    let evidence = seen["evidence"].as_array().unwrap();
    seen["status"] == "stopped"
        && seen["outcome"].is_null()
        && seen["statusDetail"].as_str().is_some_and(|words| words.contains("its runner has yet to write"))
        && evidence.iter().any(|one| one["source"] == "launch")
}

#[test]
fn there_is_no_outcome_and_no_event_before_the_runner_wrote_the_exit() {
    for (signal, outcome) in [(Signal::TERM, "interrupted"), (Signal::KILL, "died")] {
        let scene = Scene::set();
        let house = &scene.house;
        let _daemon = house.daemon(&[]);
        house.settled();
        let (id, launch) = scene.launch("a", &[]);
        let agent = u32::try_from(status(house, &id)["pid"].as_u64().unwrap()).unwrap();
        let processes = house.home.processes();
        let runner = processes.iter().find(|(_, line)| line.contains("__run")).expect("the runner").0;
        let mut events = Listener::open(house, "", None);
        house.home.signal(runner, Signal::STOP);
        until(SOON, "a runner that stands still", || (state_of(runner) == "T").then_some(()));
        house.home.signal(agent, signal);
        until_seen(SOON, "a session without an outcome", || {
            let seen = status(house, &id);
            if is_open(&seen) { Ok(()) } else { Err(format!("{seen:#}")) }
        });
        let mut waiting = Background::spawn(&house.home, house.home.agentctl_command(&["wait", &id]));
        // Two further sessions are announced, so the daemon has surveyed twice since the agent ended.
        for _ in 0..2 {
            let other = StandIn::start(&house.home);
            loop {
                let event = events.next();
                assert!(event["type"] != "session.stopped" || event["sessionId"] != id.as_str(), "{event:#}");
                if event["sessionId"] == other.id.as_str() {
                    break;
                }
            }
        }
        assert!(is_open(&status(house, &id)), "time decides nothing");
        assert!(waiting.try_wait().is_none(), "{}", waiting.stdout());
        assert!(!scene.record(&launch, "exit.json").exists());
        house.home.signal(runner, Signal::CONT);
        let told = events.until("session.stopped", &id);
        assert_eq!(told["session"]["outcome"], outcome, "{told:#}");
        assert_eq!(waiting.wait(SOON).code(), Some(1), "{}", waiting.stdout());
        assert_eq!(status(house, &id)["outcome"], outcome);
    }
}

/// The end of a launched session, and the webhook of it.
fn ended(scene: &Scene, id: &str) -> (Value, Value) {
    let seen = until_seen(SOON, "its outcome", || {
        let seen = status(&scene.house, id);
        if seen["outcome"].is_null() { Err(format!("{seen:#}")) } else { Ok(seen) }
    });
    (seen, scene.told_of(id))
}

#[test]
fn who_ended_it_is_told_apart() {
    let scene = Scene::set();
    let house = &scene.house;
    let _daemon = house.daemon(&[]);
    house.settled();
    let (stopped, _) = scene.launch("a", &[]);
    let said = house.run(&["stop", &stopped]).ok().stdout;
    assert!(said.contains("stopped, interrupted"), "{said}");
    let (late, _) = scene.launch_with("b", &["--timeout", "20s"], &[]);
    let (fused, _) = scene.launch("c", &[]);
    let _ = house.run(&["fuse", "set", "--session", &fused, "--max-time", "1s"]).ok();
    for (id, by, words) in [
        (&stopped, "stop", "stopped with `agentctl stop`"),
        (&late, "timeout", "stopped by agentctl: its time was up (--timeout 20s)"),
        (&fused, "fuse", "stopped by agentctl: its fuse was spent (--max-time 1s)"),
    ] {
        let (seen, told) = ended(&scene, id);
        assert_eq!(
            (&seen["outcome"], &seen["statusDetail"]),
            (&"interrupted".into(), &words.into()),
            "{seen:#}"
        );
        assert_eq!(seen["launch"]["endedBy"]["by"], by, "{seen:#}");
        let explained = house.run(&["explain", id]).ok().stdout;
        let flat = explained.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(words), "{explained}");
        assert_eq!(told["session"]["statusDetail"], words, "{told:#}");
        assert_eq!(told["session"]["launch"]["endedBy"]["by"], by, "{told:#}");
    }
}
