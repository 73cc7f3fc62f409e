//! The stage: a home, its daemon, everybody who is alive in it, and what must be true after every round.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentctl_testkit::troupe::CAST;
use agentctl_testkit::{Background, Codex, FakeModel, Signal, skip, until_seen};

use crate::cast::{self, Actor};
use crate::dice::Dice;
use crate::disks::Disks;
use crate::house::{House, SOON};
use crate::oracle::{self, Left, Unheard};
use crate::stream::Stream;
use crate::writes::Book;

/// Ten times what an answer may take, on a machine that is busy.
pub(crate) const PROMPTLY: Duration = Duration::from_mins(1);
/// So often the processes and the memory are looked at, in rounds.
const BETWEEN_COUNTS: usize = 25;
/// More than this of a daemon with a dozen sessions is a leak.
const MOST_DESCRIPTORS: usize = 120;
const MOST_MEMORY: u64 = 160 << 20;

pub(crate) struct World {
    // The listener ends before the daemon.
    pub(crate) stream: Stream,
    pub(crate) daemon: Option<Background>,
    pub(crate) alive: Vec<Actor>,
    pub(crate) dead: BTreeMap<String, (&'static str, Left)>,
    /// The ended sessions whose transcripts are Claude Code's, oldest first.
    pub(crate) order: Vec<String>,
    /// Sessions whose records were deleted.
    pub(crate) forgotten: BTreeSet<String>,
    pub(crate) locks: Book,
    pub(crate) timers: Book,
    pub(crate) agents: Vec<&'static str>,
    pub(crate) launches: usize,
    /// While our own disk is full or read-only.
    pub(crate) writes_may_fail: bool,
    pub(crate) counts: BTreeMap<String, usize>,
    pub(crate) disks: Option<Disks>,
    codex: Option<Codex>,
    reals: usize,
    most: (usize, u64),
    began: Instant,
    pub(crate) house: House,
    // The model outlives the agents that speak with it.
    _model: FakeModel,
}

/// A source that makes no progress for two seconds is not heard, which is true and no answer here. Long runs have a machine on which
/// everything may stand still for longer.
fn be_patient(own: &Path) {
    fs::create_dir_all(own).unwrap();
    fs::set_permissions(own, fs::Permissions::from_mode(0o700)).unwrap();
    let agents = CAST.iter().map(|(name, _)| *name).chain(["claude-code"]);
    let settings = agents.map(|name| format!("[adapters.{name}]\ntimeout = \"5m\"\n"));
    fs::write(own.join("config.toml"), settings.collect::<String>()).unwrap();
}

impl World {
    pub(crate) fn set(with_disks: bool) -> Self {
        let model = FakeModel::start();
        let mut house = House::new();
        let codex = Codex::settle(&mut house.home, &model.url()).map_err(skip).ok();
        let script = house.home.path().join("claude.sh");
        fs::write(&script, include_str!("../daemon/agent.sh")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        house.home.put_on_path("claude", &script);
        fs::create_dir_all(cast::gates(&house.home)).unwrap();
        let disks = with_disks.then(|| Disks::mount(&house.home));
        be_patient(&house.home.agentctl_home());
        fs::create_dir_all(house.home.path().join(".claude/projects")).unwrap();
        // The stand-in of Codex would be in the home of the real one.
        let others = CAST.iter().map(|(name, _)| *name).filter(|name| *name != "codex");
        let agents = others.chain(["claude-code"; 6]).collect();
        let daemon = house.daemon(&[]);
        let stream = Stream::of(house.socket());
        let mut world = Self {
            stream,
            daemon: Some(daemon),
            alive: Vec::new(),
            dead: BTreeMap::new(),
            order: Vec::new(),
            forgotten: BTreeSet::new(),
            locks: Book::default(),
            timers: Book::default(),
            agents,
            launches: 0,
            writes_may_fail: false,
            counts: BTreeMap::new(),
            disks,
            codex,
            reals: 0,
            most: (0, 0),
            began: Instant::now(),
            house,
            _model: model,
        };
        world.begin_real();
        world
    }

    /// A real agent is at work all the time.
    pub(crate) fn begin_real(&mut self) {
        if let Some(codex) = &self.codex
            && !self.alive.iter().any(|actor| actor.adapter == "codex")
        {
            self.reals += 1;
            let actor = Actor::real(&self.house, codex, self.reals);
            // Its turn is recorded a moment after its id is known.
            until_seen(SOON, "the real agent at work", || {
                let list = self.house.home.agentctl(&["list", "--json"]).ok().json();
                let rows = list["sessions"].as_array().unwrap();
                let row = rows.iter().find(|row| row["id"] == actor.id.as_str() && row["prompt"].is_string());
                if row.is_some_and(|row| row["status"] == "running") {
                    Ok(())
                } else {
                    Err(format!("{list:#}"))
                }
            });
            self.welcome(actor);
        }
    }

    pub(crate) fn welcome(&mut self, actor: Actor) {
        self.stream.heard().alive.insert(actor.id.clone());
        self.alive.push(actor);
    }

    /// Takes this one off the stage; it is about to end.
    pub(crate) fn dismiss(&mut self, one: usize) -> Actor {
        let actor = self.alive.swap_remove(one);
        self.stream.heard().alive.remove(&actor.id);
        actor
    }

    /// Notes how the session of this one will have ended.
    pub(crate) fn bury(&mut self, actor: &Actor) {
        self.dead.insert(actor.id.clone(), (actor.adapter, Left::after(actor.turn)));
        if actor.transcript(&self.house.home).is_some() {
            self.order.push(actor.id.clone());
        }
    }

    pub(crate) fn kill(&mut self, one: usize) {
        let actor = self.dismiss(one);
        self.bury(&actor);
        actor.kill(&self.house.home);
        self.over();
    }

    pub(crate) fn over(&mut self) {
        self.begin_real();
    }

    pub(crate) fn transcript_of(&self, id: &str) -> PathBuf {
        self.house.home.path().join(format!(".claude/projects/-work/{id}.jsonl"))
    }

    /// Waits until no command and no runner of a launch that failed is at work any more.
    pub(crate) fn until_settled(&self) {
        until_seen(SOON, "the end of what a failed launch left", || {
            let strays = self.strays(false);
            if strays.is_empty() { Ok(()) } else { Err(format!("{strays:?}")) }
        });
    }

    /// Processes that nobody on the stage accounts for. Agents of launches that nobody has adopted yet count if asked for.
    fn strays(&self, with_agents: bool) -> Vec<(u32, String)> {
        let mut known: BTreeSet<u32> = self.alive.iter().map(Actor::pid).collect();
        known.extend(self.daemon.as_ref().map(Background::pid));
        let launched: Vec<u32> =
            cast::ever_launched(&self.house.home).into_iter().map(|(_, pid)| pid).collect();
        let parents = |pid: &u32| {
            let children = launched.iter().chain(&known);
            children.filter_map(|child| cast::parent(*child)).any(|parent| parent == *pid)
        };
        let is_child_of_known = |pid: u32| {
            let mut at = pid;
            std::iter::from_fn(|| {
                at = cast::parent(at)?;
                Some(at)
            })
            .take(5)
            .any(|above| known.contains(&above) || (!with_agents && launched.contains(&above)))
        };
        let processes = self.house.home.processes().into_iter();
        processes
            .filter(|(pid, _)| {
                let is_known = known.contains(pid) || (!with_agents && launched.contains(pid));
                !is_known && !parents(pid) && !is_child_of_known(*pid)
            })
            .collect()
    }

    pub(crate) fn start_daemon(&mut self) {
        if self.daemon.is_none() {
            self.daemon = Some(self.house.daemon(&[]));
        }
    }

    pub(crate) fn kill_daemon(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.signal(Signal::CONT);
            daemon.signal(Signal::KILL);
            daemon.wait(SOON);
        }
    }

    pub(crate) fn round(&mut self, round: usize, dice: &mut Dice) {
        for _ in 0..=dice.below(2) {
            self.deed(dice);
        }
        let fault = self.choose(dice);
        *self.counts.entry(fault.name()).or_default() += 1;
        if std::env::var_os("AGENTCTL_CHAOS_TRACE").is_some() {
            eprintln!("round {round}: {fault:?}");
        }
        let what = format!("round {round}, {fault:?}");
        self.play(&fault, &what, dice);
        self.start_daemon();
        self.tidy();
        self.check(&what, Unheard::Nothing, true);
        self.check_stream(&what);
        if round % BETWEEN_COUNTS == BETWEEN_COUNTS - 1 {
            self.check_counts(&what);
            eprintln!("{} rounds in {:.0?}", round + 1, self.began.elapsed());
        }
    }

    /// Every answer at this moment, with and without the daemon.
    pub(crate) fn check(&mut self, what: &str, unheard: Unheard, with_daemon: bool) {
        for daemon in [false, true] {
            if daemon && !with_daemon {
                continue;
            }
            let list = self.list(daemon);
            if let Err(why) = oracle::judge(&list, &self.alive, &self.dead, unheard) {
                let with = if daemon { "with the" } else { "without a" };
                panic!("{what}, {with} daemon: {why}\n{:#}", list["sources"]);
            }
        }
        let asked = |world: &Self, arguments: &[&str], daemon: bool| {
            let mut command = world.house.home.agentctl_command(arguments);
            if daemon {
                command.env_remove("AGENTCTL_NO_DAEMON");
            }
            world.house.home.run_within(PROMPTLY, command).ok().json()
        };
        for daemon in [false, true].into_iter().filter(|daemon| with_daemon || !*daemon) {
            let mut locks = asked(self, &["locks", "--json"], daemon)["locks"].take();
            locks.as_array_mut().unwrap().retain(|lock| lock["type"] == "manual");
            self.locks.check("a lock", &locks).unwrap_or_else(|why| panic!("{what}: {why}"));
            let timers = asked(self, &["fuses", "--json"], daemon)["fuses"].take();
            self.timers.check("a timer", &timers).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
    }

    /// Waits until the events have told what is true now. Nothing that they told on the way was false.
    pub(crate) fn check_stream(&mut self, what: &str) {
        let truth: BTreeMap<String, String> =
            self.alive.iter().map(|actor| (actor.id.clone(), oracle::truth(actor).0.to_owned())).collect();
        until_seen(SOON, &format!("the events after {what}"), || {
            let heard = self.stream.heard();
            assert!(heard.wrong.is_empty(), "{what}: {}", heard.wrong.join("\n"));
            if heard.live == truth { Ok(()) } else { Err(format!("{:#?} instead of {truth:#?}", heard.live)) }
        });
    }

    /// No process is left over, and the daemon has not grown.
    fn check_counts(&mut self, what: &str) {
        until_seen(SOON, &format!("no stray process after {what}"), || {
            let strays = self.strays(true);
            if strays.is_empty() { Ok(()) } else { Err(format!("{strays:?}")) }
        });
        let status = self.house.get("/v1/daemon").json();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", status["pid"])).unwrap().count();
        let memory = status["memoryBytes"].as_u64().unwrap();
        assert!(descriptors <= MOST_DESCRIPTORS && memory <= MOST_MEMORY, "{what}: {descriptors} {memory}");
        self.most = (self.most.0.max(descriptors), self.most.1.max(memory));
        let halves = fs::read_dir(self.house.home.agentctl_home()).unwrap();
        let halves: Vec<_> = halves
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "new"))
            .collect();
        assert!(halves.len() <= 3, "{what}: {halves:?}");
    }

    pub(crate) fn end(mut self) {
        while !self.alive.is_empty() {
            self.codex = None;
            self.kill(0);
        }
        self.check("the end", Unheard::Nothing, true);
        self.check_stream("the end");
        self.check_counts("the end");
        let heard = self.stream.heard();
        eprintln!(
            "{:?}\n{} events, {} resets; {} locks and {} timers acknowledged; {} launches, {} real agents; at the most {} \
             descriptors and {} MB; {:.0?}",
            self.counts,
            heard.events,
            heard.resets,
            self.locks.acknowledged,
            self.timers.acknowledged,
            self.launches,
            self.reals,
            self.most.0,
            self.most.1 >> 20,
            self.began.elapsed()
        );
    }
}
