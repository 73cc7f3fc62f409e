//! Sessions of all agents come and go while their sources fail at random: announcements stay true, counts
//! return to the truth, and nothing is left behind or grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use agentctl_testkit::troupe::{CAST, Player};
use agentctl_testkit::{new_uuid, until_seen};
use serde_json::Value;

use crate::dice::Dice;
use crate::events::Listener;
use crate::far::Far;
use crate::house::{House, SOON};
use crate::stand_in::StandIn;

const CLAUDE: &str = "claude-code";
const OPENCLAW: &str = "openclaw";

/// A process or gateway that works on a session.
enum Actor {
    Claude(StandIn),
    Other(Player),
    /// In a gateway, under this key.
    Far(Rc<Far>, String),
}

impl Actor {
    fn start(house: &House, far: &Rc<Far>, agent: &str) -> Self {
        match agent {
            CLAUDE => Self::Claude(StandIn::start(&house.home)),
            OPENCLAW => Self::Far(Rc::clone(far), far.begin()),
            _ => Self::Other(Player::start(&house.home, agent)),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Claude(agent) => &agent.id,
            Self::Other(agent) => &agent.id,
            Self::Far(_, key) => key,
        }
    }

    fn kill(&mut self) {
        match self {
            Self::Claude(agent) => agent.kill(),
            Self::Other(agent) => agent.kill(),
            Self::Far(far, key) => far.end(key),
        }
    }
}

/// What a daemon holds at one moment.
#[derive(Debug)]
struct Holdings {
    descriptors: usize,
    folders: u64,
    processes: u64,
    memory: u64,
}

struct Soak {
    house: House,
    /// Lives through the whole test, and wakes the daemon.
    constant: StandIn,
    far: Rc<Far>,
    alive: Vec<Actor>,
    killed: BTreeSet<String>,
    /// The root of each agent, and a link to it that goes in circles once the two have been exchanged.
    roots: BTreeMap<&'static str, (PathBuf, PathBuf)>,
    failing: BTreeSet<&'static str>,
}

impl Soak {
    fn new() -> Self {
        let house = House::new();
        let constant = StandIn::start(&house.home);
        let mut roots = BTreeMap::new();
        for (agent, root) in CAST.into_iter().chain([(CLAUDE, ".claude")]) {
            let (root, away) =
                (house.home.path().join(root), house.home.path().join(format!("{agent}-away")));
            fs::create_dir_all(&root).unwrap();
            std::os::unix::fs::symlink(&root, &away).unwrap();
            roots.insert(agent, (root, away));
        }
        let far = Rc::new(Far::of(&house));
        let (alive, killed, failing) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        Self { house, constant, far, alive, killed, roots, failing }
    }

    fn status(&self) -> Value {
        self.house.get("/v1/daemon").json()
    }

    fn start(&mut self, agent: &'static str) {
        if !self.failing.contains(agent) && self.alive.len() < 12 {
            self.alive.push(Actor::start(&self.house, &self.far, agent));
        }
    }

    fn kill(&mut self, index: usize) {
        let mut actor = self.alive.swap_remove(index);
        actor.kill();
        self.killed.insert(actor.id().to_owned());
    }

    /// Makes a source fail or recover, and waits until the daemon has seen it.
    fn turn(&mut self, agent: &'static str) {
        match self.roots.get(agent) {
            None => self.far.turn(),
            Some((root, away)) => {
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, root, rustix::fs::CWD, away, swap).unwrap();
            }
        }
        let fails = self.failing.insert(agent) || !self.failing.remove(agent);
        // An agent that has not been started yet is not installed.
        let expected: &[&str] = if fails { &["failed"] } else { &["complete", "not-installed"] };
        until_seen(SOON, &format!("{agent} to be seen {expected:?}"), || {
            self.constant.say("busy");
            let status = self.status();
            let source =
                status["sources"].as_array().unwrap().iter().find(|source| source["adapter"] == agent);
            let coverage = source.map_or(Value::Null, |source| source["coverage"].clone());
            if expected.iter().any(|expected| coverage == *expected) { Ok(()) } else { Err(coverage) }
        });
    }

    /// Checks that the daemon counts as many as there are.
    fn counts(&self, what: &str) {
        until_seen(SOON, what, || {
            self.constant.say("busy");
            let live = self.status()["liveSessions"].clone();
            let expected = self.alive.len() + 1;
            if live == expected {
                return Ok(());
            }
            let list = self.house.run(&["list", "-q"]).stdout;
            let left_out = self.alive.iter().map(Actor::id).filter(|id| !list.contains(*id));
            let why = left_out.map(|id| self.house.run(&["explain", id]).stdout);
            Err(format!("{live} of {expected}; not in the list: {:#?}", why.collect::<Vec<_>>()))
        });
    }

    fn holdings(&self) -> Holdings {
        // The watched items are known once the first survey has finished.
        let status = until_seen(SOON, "something that is watched", || {
            let status = self.status();
            if status["watchedProcesses"] == 0 { Err(status) } else { Ok(status) }
        });
        let number = |key: &str| status[key].as_u64().unwrap();
        // A look and an answer have files open too, and both are over soon.
        let open = (0..50).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            fs::read_dir(format!("/proc/{}/fd", status["pid"])).unwrap().count()
        });
        Holdings {
            descriptors: open.min().unwrap(),
            folders: number("watchedFolders"),
            processes: number("watchedProcesses"),
            memory: number("memoryBytes"),
        }
    }

    fn files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(self.house.home.agentctl_home()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn nothing_that_lives_is_called_stopped_and_nothing_grows() {
    let rounds = if std::env::var_os("AGENTCTL_LONG").is_some() { 2000 } else { 150 };
    let mut soak = Soak::new();
    let daemon = soak.house.daemon(&[]);
    soak.house.settled();
    let files = soak.files();
    // The events are read all the time, up to the start of one whose name is already known.
    let (mut events, last) = (Listener::open(&soak.house, "", None), new_uuid());
    let hearing = std::thread::spawn({
        let last = last.clone();
        move || -> Vec<(String, String)> {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let mut heard = Vec::new();
            while heard.last() != Some(&("session.started".to_owned(), last.clone())) {
                let event = events.next();
                heard.push((text(&event["type"]), text(&event["sessionId"])));
            }
            heard
        }
    });
    let agents: Vec<&'static str> = soak.roots.keys().copied().chain([OPENCLAW]).collect();
    let mut dice = Dice(7);
    for _ in 0..rounds {
        let agent = dice.pick(&agents);
        match dice.roll(6) {
            0 | 1 => soak.start(agent),
            2 if !soak.alive.is_empty() => {
                let index = usize::try_from(dice.roll(soak.alive.len() as u64)).unwrap();
                soak.kill(index);
            }
            3 if !soak.failing.contains(CLAUDE) => soak.constant.say(dice.pick(&["busy", "idle"])),
            4 => soak.turn(agent),
            _ => {}
        }
    }
    for agent in soak.failing.clone() {
        soak.turn(agent);
    }
    soak.counts("the view to be the truth");
    let asked = soak.house.home.agentctl(&["list", "-q"]).ok().stdout;
    let asked: BTreeSet<&str> = asked.lines().collect();
    let alive: BTreeSet<&str> = soak.alive.iter().map(Actor::id).chain([soak.constant.id.as_str()]).collect();
    assert_eq!(asked, alive);
    while !soak.alive.is_empty() {
        soak.kill(0);
    }
    soak.counts("the end of all but one");
    let locks = soak.house.run(&["locks", "--json"]).ok().json();
    assert_eq!(locks["locks"].as_array().unwrap().len(), 1, "only who lives holds a directory: {locks:#}");

    let mut last = StandIn::on(&soak.house.home, last);
    let mut ended = BTreeSet::new();
    for (kind, id) in hearing.join().unwrap() {
        match kind.as_str() {
            "session.stopped" => {
                assert!(soak.killed.contains(&id), "{id} lives");
                assert!(ended.insert(id.clone()), "the end of {id} is told twice");
            }
            "session.gone" => panic!("the records of {id} are there"),
            "reset" => panic!("we have read all the time"),
            _ => {}
        }
    }
    last.kill();
    soak.counts("the end of the last one");
    assert_eq!(soak.files(), files, "nothing is left in our own folder");

    // A daemon that has lived through all of this holds no more than one that begins now.
    let old = soak.holdings();
    drop(daemon);
    let _fresh = soak.house.daemon(&[]);
    soak.house.settled();
    soak.counts("the same truth");
    let new = soak.holdings();
    eprintln!("{} sessions ended; after the soak {old:?}, fresh {new:?}", soak.killed.len());
    assert!(old.descriptors <= new.descriptors + 3, "{old:?} {new:?}");
    // The folder above a root that did not exist at first may stay watched; nothing depends on how much
    // happened.
    assert!(old.folders <= new.folders + agents.len() as u64, "{old:?} {new:?}");
    assert_eq!(old.processes, new.processes);
    assert!(old.memory < new.memory + (48 << 20), "{old:?} {new:?}");
}
