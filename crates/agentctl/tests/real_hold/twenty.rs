//! Twenty machines with a live agent each, and faults at random. Only with --long.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, skip, until, until_seen};
use rustix::process::Signal;
use serde_json::Value;

use crate::claude::CLAUDE_CODE;
use crate::rounds;
use crate::ssh::Near;
use crate::steer::Scene;

const MACHINES: usize = 20;
const FAULTS: usize = 200;
const PATIENCE: Duration = Duration::from_mins(5);

/// One of the machines. While `still` is there nothing answers on it, and while `garbage` is, nonsense does.
struct Machine {
    name: String,
    scene: Scene,
    program: PathBuf,
    still: PathBuf,
    garbage: PathBuf,
    session: String,
}

impl Machine {
    fn serving(&self) -> Vec<u32> {
        let all = self.scene.processes().into_iter().filter(|(_, line)| line.contains("__serve-stdio"));
        all.map(|(pid, _)| pid).collect()
    }
}

/// Numbers that look random and are the same in every run with the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// One that is known to be still is not waited for long.
fn config(machines: &[Machine], still: Option<&Machine>) -> String {
    let section = |machine: &Machine| {
        let Machine { name, program, .. } = machine;
        let timeout = if still.is_some_and(|still| still.name == *name) { "3s" } else { "30s" };
        let program = program.display();
        format!("[hosts.{name}]\nssh = \"{name}\"\nprogram = \"{program}\"\ntimeout = \"{timeout}\"\n")
    };
    machines.iter().map(section).collect()
}

fn machines(near: &Near) -> Option<Vec<Machine>> {
    let mut machines = Vec::new();
    for number in 0..MACHINES {
        let scene = Scene::with_model(rounds::model(), CLAUDE_CODE.name, CLAUDE_CODE.settle)?;
        let name = format!("m{number:02}");
        let folder = scene.home.work_dir("machine");
        let (still, garbage) = (folder.join("still"), folder.join("garbage"));
        let first = format!(
            "while [ -e '{}' ]; do sleep 0.05; done\n[ -e '{}' ] && exec head -c 100000 /dev/urandom",
            still.display(),
            garbage.display()
        );
        let program = near.program_with(&scene.home, &name, &first);
        machines.push(Machine { name, scene, program, still, garbage, session: String::new() });
    }
    near.configure(&config(&machines, None));
    for machine in &mut machines {
        let cwd = machine.scene.cwd.to_str().unwrap().to_owned();
        let prompt = "[[text:one]] first";
        let launch = [
            "launch",
            "claude-code",
            "-p",
            prompt,
            "--hold",
            "--host",
            &machine.name,
            "--cwd",
            &cwd,
            "--json",
        ];
        let launched = near.home.agentctl(&launch).ok().json();
        assert_eq!(launched["host"], machine.name.as_str());
        launched["id"].as_str().unwrap().clone_into(&mut machine.session);
    }
    Some(machines)
}

#[test]
fn twenty_machines_are_one_list_whatever_happens_to_some() {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        skip("twenty machines are asked with --long");
        return;
    }
    let Some(near) = Near::set() else { return };
    let run = |arguments: &[&str]| near.home.agentctl(arguments);
    let Some(machines) = machines(&near) else { return };
    let others: Vec<String> = machines.iter().map(|machine| machine.name.clone()).collect();
    let all: Vec<&str> = others.iter().flat_map(|name| ["--host", name]).collect();
    let ids: Vec<String> = machines.iter().map(|one| format!("{}/{}", one.name, one.session)).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();

    let mut events =
        Background::spawn(&near.home, near.home.agentctl_command(&[&["events"][..], &all].concat()));
    until(PATIENCE, "every machine to be listened to", || {
        machines.iter().all(|machine| !machine.serving().is_empty()).then_some(())
    });
    let _ = run(&[&["wait"][..], &ids].concat()).ok();
    let list = |what: &str| {
        let began = Instant::now();
        let list = run(&[&["list", "--json"][..], &all].concat()).ok().json();
        eprintln!("{what} list of {MACHINES} machines: {:?}", began.elapsed());
        list
    };
    list("first");
    let warm = list("second");
    let slowest = warm["hosts"].as_array().unwrap().iter().map(|row| row["tookMs"].as_u64().unwrap()).max();
    eprintln!("the slowest machine took {slowest:?} ms of it");
    assert_eq!(warm["sessions"].as_array().unwrap().len(), MACHINES, "{warm:#}");

    // Every agent asks, and every one is answered.
    for id in &ids {
        let _ = run(&["send", id, "[[bash:touch allowed]] [[text:two]]"]).ok();
    }
    until_seen(PATIENCE, "every request", || {
        let inbox = run(&[&["inbox", "--json"][..], &all].concat()).ok().json();
        let waiting: BTreeSet<String> = inbox["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["session"]["host"].to_string())
            .collect();
        if waiting.len() == MACHINES { Ok(()) } else { Err(format!("{waiting:?}")) }
    });
    for id in &ids {
        let _ = run(&["approve", id]).ok();
    }
    let _ = run(&[&["wait"][..], &ids].concat()).ok();
    assert!(machines.iter().all(|machine| machine.scene.cwd.join("allowed").exists()));

    let mut dice = Dice(20);
    let faults = std::env::var("AGENTCTL_HOST_FAULTS").map_or(FAULTS, |number| number.parse().unwrap());
    for round in 0..faults {
        let hit = &machines[dice.roll(MACHINES)];
        let fault = dice.roll(4);
        let serving = hit.serving();
        match fault {
            0 => fs::write(&hit.still, "").unwrap(),
            1 => fs::write(&hit.garbage, "").unwrap(),
            2 => serving.iter().for_each(|pid| hit.scene.home.signal(*pid, Signal::KILL)),
            _ => serving.iter().for_each(|pid| hit.scene.home.signal(*pid, Signal::STOP)),
        }
        // Only a machine that answers nothing new is not heard; the others are complete, and no session is concluded about.
        near.configure(&config(&machines, (fault == 0).then_some(hit)));
        let seen = run(&[&["list", "--json"][..], &all].concat()).ok().json();
        for row in seen["hosts"].as_array().unwrap() {
            let expected = if row["name"] == hit.name.as_str() && fault < 2 { "failed" } else { "complete" };
            assert_eq!(row["coverage"], expected, "round {round}, fault {fault} of {}: {row:#}", hit.name);
        }
        let live: Vec<&Value> =
            seen["sessions"].as_array().unwrap().iter().filter(|one| one["status"] == "idle").collect();
        assert_eq!(live.len(), if fault < 2 { MACHINES - 1 } else { MACHINES }, "round {round}: {seen:#}");
        let _ = fs::remove_file(&hit.still);
        let _ = fs::remove_file(&hit.garbage);
        for pid in serving {
            hit.scene.home.signal(pid, Signal::CONT);
        }
    }
    let stopped = run(&[&["stop", "--json"][..], &ids].concat()).ok().json();
    assert!(stopped["sessions"].as_array().unwrap().iter().all(|one| one["stopped"] == true), "{stopped:#}");
    // After all that, the end of every session is told, or that something was missed there.
    until_seen(PATIENCE, "every end", || {
        let told = events.stdout();
        let missing: Vec<&String> = others
            .iter()
            .filter(|name| {
                let of_it = |line: &&str| line.contains(&format!("\"host\":\"{name}\""));
                !told
                    .lines()
                    .filter(of_it)
                    .any(|line| line.contains("session.stopped") || line.contains("\"reset\""))
            })
            .collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} {}", events.stderr())) }
    });
    events.signal(Signal::INT);
    events.wait(PATIENCE);
}
