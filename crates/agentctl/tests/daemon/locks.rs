//! Manual locks: written by commands, complete whatever kills them, with and without a daemon.

use std::fs;

use agentctl_testkit::skip;
use serde_json::Value;

use crate::house::House;

#[test]
fn a_lock_that_was_acknowledged_is_there_whatever_happens() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    let house = House::new();
    let locked = || -> Vec<String> {
        let locks: Value = house.run(&["locks", "--json"]).ok().json();
        let held = locks["locks"].as_array().unwrap().iter();
        held.map(|lock| lock["directory"].as_str().unwrap().to_owned()).collect()
    };
    let mut acknowledged = Vec::new();
    for (number, step) in ["begin", "written", "synced", "renamed", "done"].iter().enumerate() {
        let _daemon = (number % 2 == 0).then(|| house.daemon(&[]));
        for change in ["lock", "unlock"] {
            let sure = house.home.work_dir(&format!("sure-{number}")).to_str().unwrap().to_owned();
            let doubtful = house.home.work_dir(&format!("doubtful-{number}")).to_str().unwrap().to_owned();
            if change == "lock" {
                let _ = house.run(&["lock", &sure]).ok();
                acknowledged.push(sure.clone());
            } else if !locked().contains(&doubtful) {
                let _ = house.run(&["lock", &doubtful]).ok();
            }
            let mut command = house.home.agentctl_command(&[change, &doubtful]);
            command.env_remove("AGENTCTL_NO_DAEMON").env("AGENTCTL_FAULT", format!("locks.{step}"));
            let killed = house.home.run(command);
            assert_eq!(killed.code, None, "it dies at locks.{step}: {killed:?}");
            let now = locked();
            for sure in &acknowledged {
                assert!(now.contains(sure), "{change} at {step}: {sure} is lost");
            }
        }
        let doubtful = house.home.work_dir(&format!("doubtful-{number}")).to_str().unwrap().to_owned();
        if locked().contains(&doubtful) {
            let _ = house.run(&["unlock", &doubtful]).ok();
        }
    }
    let _ = house.run(&["unlock", &acknowledged[0]]).ok();
    let left = fs::read_dir(house.home.agentctl_home()).unwrap().flatten();
    let halves = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".new")).count();
    assert_eq!(halves, 0, "the next write took the half over");
    assert_eq!(locked().len(), acknowledged.len() - 1);
}
