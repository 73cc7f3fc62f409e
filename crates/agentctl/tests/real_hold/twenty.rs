//! Twenty machines with a live agent each, over ssh and over a nats-server: launched, listed, spoken to, approved, followed,
//! waited for and stopped from one place; over ssh with faults at random. A short run has two machines.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentctl_testkit::{Background, Near, Output, TestHome, until_seen};
use rustix::process::Signal;
use serde_json::Value;

use crate::claude::CLAUDE_CODE;
use crate::over_nats::Desk;
use crate::steer::Scene;
use crate::{road, rounds};

/// How many machines and faults a short run and a long one have.
const MACHINES: [usize; 2] = [2, 20];
const FAULTS: [usize; 2] = [2, 200];
const PATIENCE: Duration = Duration::from_mins(5);

/// One of the machines. While `still` is there nothing answers on it, and while `garbage` is, nonsense does.
struct Machine {
    name: String,
    scene: Scene,
    program: PathBuf,
    still: PathBuf,
    garbage: PathBuf,
    session: String,
    // Ends the daemon, where one serves.
    _daemon: Option<Background>,
}

/// The number of a short run, or that of a long one.
fn count([few, many]: [usize; 2]) -> usize {
    if std::env::var_os("AGENTCTL_LONG").is_some() { many } else { few }
}

impl Machine {
    fn new(number: usize) -> Option<Self> {
        let scene = Scene::with_model(rounds::model(), CLAUDE_CODE.name, CLAUDE_CODE.settle)?;
        let folder = scene.home.work_dir("machine");
        let (still, garbage) = (folder.join("still"), folder.join("garbage"));
        let (name, program) = (format!("m{number:02}"), PathBuf::new());
        Some(Self { name, scene, program, still, garbage, session: String::new(), _daemon: None })
    }

    fn id(&self) -> String {
        format!("{}/{}", self.name, self.session)
    }

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

/// Somebody who asks all these machines, and what he hears of them.
struct Asked<'a> {
    home: &'a TestHome,
    machines: Vec<Machine>,
    events: Background,
    logs: Vec<Background>,
}

impl<'a> Asked<'a> {
    /// Launches an agent on each machine that the home can reach, and listens to all.
    fn begin(home: &'a TestHome, mut machines: Vec<Machine>) -> Self {
        let all = all(&machines);
        let mut events = home.agentctl_command(&["events", "--snapshot"]);
        events.args(&all);
        let events = Background::spawn(home, events);
        for machine in &mut machines {
            let cwd = machine.scene.cwd.to_str().unwrap();
            let launch = ["launch", "claude-code", "-p", "[[text:one]] first", "--hold", "--json"];
            let there = ["--host", &machine.name, "--cwd", cwd];
            let launched = home.agentctl(&[&launch[..], &there].concat()).ok().json();
            assert_eq!(launched["host"], machine.name.as_str());
            launched["id"].as_str().unwrap().clone_into(&mut machine.session);
        }
        let follow = |machine: &Machine| {
            Background::spawn(home, home.agentctl_command(&["logs", "-f", &machine.id(), "--json"]))
        };
        let logs = machines.iter().map(follow).collect();
        let asked = Self { home, machines, events, logs };
        asked.until_told("every machine to be listened to", |line| line.contains("\"snapshot\""));
        asked
    }

    /// A command over all machines.
    fn over_all(&self, words: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(words);
        command.args(all(&self.machines));
        self.home.run(command)
    }

    /// A command about all sessions.
    fn about_all(&self, words: &[&str]) -> Output {
        let mut command = self.home.agentctl_command(words);
        command.args(self.machines.iter().map(Machine::id));
        self.home.run(command)
    }

    /// Waits until the stream has said this of every machine.
    fn until_told(&self, what: &str, fits: impl Fn(&str) -> bool) {
        until_seen(PATIENCE, what, || {
            let told = self.events.stdout();
            let is_told = |machine: &&Machine| {
                let name = format!("\"host\":\"{}\"", machine.name);
                !told.lines().any(|line| line.contains(&name) && fits(line))
            };
            let missing: Vec<&str> =
                self.machines.iter().filter(is_told).map(|machine| machine.name.as_str()).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} {}", self.events.stderr())) }
        });
    }

    fn list(&self) -> Value {
        self.over_all(&["list", "--json"]).ok().json()
    }

    /// Every agent asks, and every one is answered.
    #[expect(clippy::print_stderr, reason = "how long a list takes, for whoever runs this by hand")]
    fn works(&self) {
        let _ = self.about_all(&["wait"]).ok();
        for which in ["first", "second"] {
            let began = Instant::now();
            let list = self.list();
            let took = list["hosts"].as_array().unwrap().iter().map(|row| row["tookMs"].as_u64().unwrap());
            let (slowest, whole) = (took.max().unwrap(), began.elapsed());
            eprintln!(
                "{which} list of {} machines: {whole:?}, the slowest {slowest} ms",
                self.machines.len()
            );
            assert_eq!(list["sessions"].as_array().unwrap().len(), self.machines.len(), "{list:#}");
        }
        for machine in &self.machines {
            let words = "[[bash:touch allowed]] [[text:two]]";
            let _ = self.home.agentctl(&["send", &machine.id(), words]).ok();
        }
        until_seen(PATIENCE, "every request", || {
            let inbox = self.over_all(&["inbox", "--json"]).ok().json();
            let items = inbox["items"].as_array().unwrap().iter();
            let waiting: BTreeSet<String> = items.map(|item| item["session"]["host"].to_string()).collect();
            if waiting.len() == self.machines.len() { Ok(()) } else { Err(format!("{waiting:?}")) }
        });
        for machine in &self.machines {
            let _ = self.home.agentctl(&["approve", &machine.id()]).ok();
        }
        let _ = self.about_all(&["wait"]).ok();
        for (machine, logs) in self.machines.iter().zip(&self.logs) {
            assert!(machine.scene.cwd.join("allowed").exists(), "{}", machine.name);
            until_seen(PATIENCE, "the conversation", || {
                let told = |word: &str| logs.stdout().contains(&format!("\"text\":\"{word}\""));
                if told("one") && told("two") { Ok(()) } else { Err(logs.stdout() + &logs.stderr()) }
            });
        }
        self.until_told("every request in the events", |line| line.contains("\"session.waiting\""));
    }

    /// Every session is stopped, and told to be: in the conversation that is followed, and in the events.
    fn ends(mut self, fits: impl Fn(&str) -> bool) {
        let stopped = self.about_all(&["stop", "--json"]).ok().json();
        let sessions = stopped["sessions"].as_array().unwrap();
        assert!(sessions.iter().all(|one| one["stopped"] == true), "{stopped:#}");
        self.until_told("every end", fits);
        for logs in &mut self.logs {
            assert!(logs.wait(PATIENCE).success(), "{}", logs.stderr());
        }
        self.events.signal(Signal::INT);
        self.events.wait(PATIENCE);
    }
}

/// The flags that name all machines.
fn all(machines: &[Machine]) -> Vec<String> {
    machines.iter().flat_map(|machine| ["--host".to_owned(), machine.name.clone()]).collect()
}

#[test]
fn twenty_machines_are_one_list_over_nats() {
    let Some(desk) = Desk::set() else { return };
    let mut machines = Vec::new();
    for number in 0..count(MACHINES) {
        let Some(machine) = Machine::new(number) else { return };
        desk.serve(&machine.scene.home, &machine.name);
        machines.push(Machine { _daemon: Some(road::open(&machine.scene)), ..machine });
    }
    desk.hears(&machines.iter().map(|machine| machine.name.clone()).collect::<Vec<_>>());
    let asked = Asked::begin(&desk.home, machines);
    asked.works();
    assert!(!asked.events.stdout().contains("\"reset\""), "{}", asked.events.stdout());
    asked.ends(|line| line.contains("\"session.stopped\""));
}

#[test]
fn twenty_machines_are_one_list_over_ssh_whatever_happens_to_some() {
    let Some(near) = Near::set(env!("CARGO_BIN_EXE_agentctl")) else { return };
    let mut machines = Vec::new();
    for number in 0..count(MACHINES) {
        let Some(mut machine) = Machine::new(number) else { return };
        let first = format!(
            "while [ -e '{}' ]; do sleep 0.05; done\n[ -e '{}' ] && exec head -c 100000 /dev/urandom",
            machine.still.display(),
            machine.garbage.display()
        );
        machine.program = near.program_with(&machine.scene.home, &machine.name, &first);
        machines.push(machine);
    }
    near.configure(&config(&machines, None));
    let asked = Asked::begin(&near.home, machines);
    asked.works();
    let machines = &asked.machines;
    let mut dice = Dice(20);
    let given = std::env::var("AGENTCTL_HOST_FAULTS").ok();
    let faults = given.map_or(count(FAULTS), |number| number.parse().unwrap());
    for round in 0..faults {
        let hit = &machines[dice.roll(machines.len())];
        let fault = dice.roll(4);
        let serving = hit.serving();
        match fault {
            0 => fs::write(&hit.still, "").unwrap(),
            1 => fs::write(&hit.garbage, "").unwrap(),
            2 => serving.iter().for_each(|pid| hit.scene.home.signal(*pid, Signal::KILL)),
            _ => serving.iter().for_each(|pid| hit.scene.home.signal(*pid, Signal::STOP)),
        }
        // Only a machine that answers nothing new is not heard; the others are complete, and no session is concluded about.
        near.configure(&config(machines, (fault == 0).then_some(hit)));
        let seen = asked.list();
        for row in seen["hosts"].as_array().unwrap() {
            let expected = if row["name"] == hit.name.as_str() && fault < 2 { "failed" } else { "complete" };
            assert_eq!(row["coverage"], expected, "round {round}, fault {fault} of {}: {row:#}", hit.name);
        }
        let live: Vec<&Value> =
            seen["sessions"].as_array().unwrap().iter().filter(|one| one["status"] == "idle").collect();
        let heard = if fault < 2 { machines.len() - 1 } else { machines.len() };
        assert_eq!(live.len(), heard, "round {round}: {seen:#}");
        let _ = fs::remove_file(&hit.still);
        let _ = fs::remove_file(&hit.garbage);
        for pid in serving {
            hit.scene.home.signal(pid, Signal::CONT);
        }
    }
    // After all that, the end of every session is told, or that something was missed there.
    asked.ends(|line| line.contains("session.stopped") || line.contains("\"reset\""));
}
