//! Launches that are killed at random moments: the command, the runner or the agent, each with -9. Whatever
//! is left is listed, and can be ended by its name.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use agentctl_testkit::{Background, Signal, until_seen};
use serde_json::Value;

use crate::steer::{Scene, TIMEOUT, folders};
use crate::{count, scene};

/// Repeatable, and different for every round.
fn dice(round: usize, sides: u64) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::try_from(round).unwrap() + 1);
    state ^= state >> 29;
    state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (state ^ (state >> 32)) % sides
}

#[derive(Debug, Clone, Copy)]
enum Victim {
    Command,
    Runner,
    Agent,
}

#[test]
fn launches_killed_at_random_moments_leave_nothing_without_a_name() {
    let Some(scene) = scene() else { return };
    let rounds: Vec<usize> = (0..count(6, 100)).collect();
    for batch in rounds.chunks(3) {
        std::thread::scope(|scope| {
            for round in batch {
                scope.spawn(|| kill_one(&scene, *round));
            }
        });
    }
    until_seen(TIMEOUT, "a name for everything that is left", || match unnamed(&scene) {
        unnamed if unnamed.is_empty() => Ok(()),
        unnamed => Err(format!("{unnamed:#?}")),
    });
    // A runner whose command was killed early may start its agent when all others are there.
    until_seen(TIMEOUT, "nothing left after every stop and doctor --reap", || {
        let listed = scene.agentctl(&["list", "--json"]).ok().json();
        for row in listed["sessions"].as_array().unwrap() {
            let stopped = scene.agentctl(&["stop", row["id"].as_str().unwrap()]);
            if stopped.code != Some(0) {
                return Err(format!("{stopped:#?}"));
            }
        }
        let reaped = scene.agentctl(&["doctor", "--reap", "--yes"]);
        match scene.processes() {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:#?}\n{}", reaped.stdout)),
        }
    });
    let locks = scene.agentctl(&["locks", "--json"]).ok().json();
    assert_eq!(locks["locks"].as_array().or_else(|| locks.as_array()).unwrap().len(), 0, "{locks:#}");
    each_stored_session_is_listed_once(&scene);
}

/// Starts a launch in a directory of its own and kills a part of it after a random time.
fn kill_one(scene: &Scene, round: usize) {
    let cwd = scene.home.git_repo(&format!("round-{round}"));
    let prompt = format!("[[hang]] round {round}");
    let mut command = scene.home.agentctl_command(&[
        "launch",
        "claude-code",
        "-p",
        &prompt,
        "--permission-mode",
        "bypass",
        "--json",
    ]);
    command.current_dir(&cwd);
    let mut launch = Background::spawn(&scene.home, command);
    let victim = [Victim::Command, Victim::Runner, Victim::Agent][round % 3];
    // A random moment of the launch, which takes one to three seconds; nothing is concluded from the time.
    std::thread::sleep(Duration::from_millis(dice(round, 2500)));
    match victim {
        Victim::Command => launch.signal(Signal::KILL),
        Victim::Runner | Victim::Agent => {
            for pid in victims(scene, victim, &cwd) {
                scene.home.signal(pid, Signal::KILL);
            }
        }
    }
    launch.wait(TIMEOUT);
}

/// The runner or the agent of the launch in this directory, if it exists yet.
fn victims(scene: &Scene, victim: Victim, cwd: &PathBuf) -> Vec<u32> {
    let is_of_this = |pid: u32| match victim {
        Victim::Runner => {
            // A runner works in its launch's folder, whose record names the directory.
            let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let record = std::fs::read_to_string(folder.join("launch.json")).unwrap_or_default();
            record.contains(&*cwd.to_string_lossy())
        }
        _ => std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == *cwd),
    };
    let wanted = |line: &str| match victim {
        Victim::Runner => line.contains(" __run "),
        _ => line.contains("stream-json"),
    };
    let processes = scene.processes();
    processes.iter().filter(|(pid, line)| wanted(line) && is_of_this(*pid)).map(|(pid, _)| *pid).collect()
}

/// The processes that neither `list` nor `doctor` names, nor a runner with one of those.
fn unnamed(scene: &Scene) -> Vec<(u32, String)> {
    let listed = scene.agentctl(&["list", "--json"]).ok().json();
    let doctor = scene.agentctl(&["doctor", "--json"]).json();
    let pids = |value: &Value| {
        value.as_array().into_iter().flatten().filter_map(|one| one["pid"].as_u64()).collect::<Vec<_>>()
    };
    let mut named: BTreeSet<u64> = BTreeSet::new();
    for row in listed["sessions"].as_array().unwrap() {
        assert!(!row["id"].as_str().unwrap().starts_with("pending"), "{row:#}");
        named.extend(pids(&row["processes"]));
    }
    named.extend(pids(&doctor["strays"]));
    named.extend(pids(&doctor["orphans"]));
    let left = scene.processes();
    left.into_iter()
        .filter(|(pid, line)| !named.contains(&u64::from(*pid)) && !line.contains(" __run "))
        .collect()
}

fn each_stored_session_is_listed_once(scene: &Scene) {
    let mut stored: Vec<String> = folders(&scene.home.path().join(".claude/projects"))
        .iter()
        .flat_map(|project| folders(project))
        .filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|file| file.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let all = scene.agentctl(&["list", "--all", "--since", "all", "--json"]).ok().json();
    let mut listed: Vec<String> = Vec::new();
    for row in all["sessions"].as_array().unwrap() {
        assert_eq!(row["status"], "stopped", "{row:#}");
        assert_ne!(row["outcome"], "completed", "none of them ended by itself: {row:#}");
        listed.push(row["id"].as_str().unwrap().to_owned());
    }
    stored.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, stored);
}
