//! `cargo xtask bench-hold`: how soon `launch --hold` returns, how soon a request of the agent is seen, and what a held
//! session costs while nobody talks to it.
//!
//! The agent is a stand-in that speaks the protocol of Claude Code and says when it did what; with `--real` it is Claude
//! Code itself, whose own records say when.

mod agents;
mod scripted;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use self::agents::{Agent, FIRST_WORDS};
pub(crate) use self::scripted::play;
use super::events::{Daemon, LONGEST, Spread, Stream, memory_mb};
use super::launch::clock;

/// How often a launch is timed.
const LAUNCHES: usize = 20;
/// The time over which the processor time of the idle runner is measured.
const IDLE: Duration = Duration::from_secs(20);

pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) real: bool,
    pub(crate) agentctl: PathBuf,
    pub(crate) json: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut all = vec![measure(options, Agent::scripted()?)?];
    if options.real {
        all.push(measure(options, Agent::claude_code(&options.agentctl)?)?);
    }
    if options.json {
        println!("{:#}", Value::from(all.iter().map(Measured::json).collect::<Vec<_>>()));
    } else {
        all.iter().for_each(Measured::print);
    }
    Ok(())
}

struct Measured {
    agent: &'static str,
    rounds: usize,
    ready: Spread,
    alone: Spread,
    daemon: Spread,
    events: Spread,
    cost: Cost,
}

impl Measured {
    fn json(&self) -> Value {
        let cost = &self.cost;
        json!({"agent": self.agent, "rounds": self.rounds, "readyToReturn": self.ready.json(),
            "requestToList": self.alone.json(), "requestToListByDaemon": self.daemon.json(),
            "requestToEvent": self.events.json(), "runnerRssKib": cost.rss_kib, "runnerPrivateKib": cost.private_kib,
            "runnerAnonymousKib": cost.anonymous_kib, "runnerThreads": cost.threads, "runnerIdleCpu": cost.cpu})
    }

    fn print(&self) {
        let cost = &self.cost;
        println!("{}: {LAUNCHES} launches, {} requests", self.agent, self.rounds);
        println!("ready to the return of launch   {}", self.ready.describe());
        println!("request to list, no daemon      {}", self.alone.describe());
        println!("request to list, by the daemon  {}", self.daemon.describe());
        println!("request to session.waiting      {}", self.events.describe());
        println!(
            "the runner at rest              {:.1} MB resident, {:.1} MB of it private, {:.1} MB anonymous; \
             {} threads; {:.3} % of a core",
            memory_mb(cost.rss_kib),
            memory_mb(cost.private_kib),
            memory_mb(cost.anonymous_kib),
            cost.threads,
            cost.cpu * 100.0
        );
    }
}

fn measure(options: &Options, mut agent: Agent) -> anyhow::Result<Measured> {
    let scene = Scene { program: &options.agentctl };
    let mut ready = Vec::new();
    for _ in 1..LAUNCHES {
        let (id, took) = scene.launch(&mut agent)?;
        ready.push(took);
        scene.stop(&mut agent, &id)?;
    }
    let (id, took) = scene.launch(&mut agent)?;
    ready.push(took);
    let daemon = Daemon::run(scene.command(&agent, &["daemon", "run"], true), &agent.agentctl_home())?;
    let stream = Stream::open(&agent.agentctl_home().join("agentctl.sock"))?;
    let (mut alone, mut by_daemon, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let with_daemon = round % 2 == 1;
        let (listed, told) = scene.request(&mut agent, &id, &stream, with_daemon)?;
        let lists = if with_daemon { &mut by_daemon } else { &mut alone };
        lists.push(listed);
        events.push(told);
    }
    // The daemon runs the same program, so that what all its processes share counts as shared.
    let cost = Cost::of(agent.runner()?)?;
    drop(daemon);
    scene.stop(&mut agent, &id)?;
    Ok(Measured {
        agent: agent.name(),
        rounds: options.rounds,
        ready: Spread::of(ready)?,
        alone: Spread::of(alone)?,
        daemon: Spread::of(by_daemon)?,
        events: Spread::of(events)?,
        cost,
    })
}

struct Scene<'a> {
    program: &'a Path,
}

impl Scene<'_> {
    fn command(&self, agent: &Agent, args: &[&str], with_daemon: bool) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).env_clear().envs(agent.environ()).current_dir(agent.cwd());
        if !with_daemon {
            command.env("AGENTCTL_NO_DAEMON", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    fn spawn(&self, agent: &Agent, args: &[&str]) -> anyhow::Result<Child> {
        self.command(agent, args, false).spawn().context("cannot start agentctl")
    }

    fn json(&self, agent: &Agent, args: &[&str], with_daemon: bool) -> anyhow::Result<Value> {
        let output = self.command(agent, args, with_daemon).stdout(Stdio::piped()).output()?;
        if !output.status.success() {
            bail!("`agentctl {}` failed: {}", args.join(" "), output.status);
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`{}` printed no JSON", args.join(" ")))
    }

    /// From the agent's turn to the return of the command.
    fn launch(&self, agent: &mut Agent) -> anyhow::Result<(String, Duration)> {
        let launch = ["launch", "claude-code", "-p", FIRST_WORDS, "--hold", "--force", "--json"];
        let launched = self.json(agent, &launch, false)?;
        let returned = clock();
        let id = launched["id"].as_str().context("no id")?.to_owned();
        Ok((id.clone(), returned.saturating_sub(agent.began(&id)?)))
    }

    /// Makes the agent ask for something. Returns how soon a list shows it, and how soon an event tells it.
    fn request(
        &self,
        agent: &mut Agent,
        id: &str,
        stream: &Stream,
        with_daemon: bool,
    ) -> anyhow::Result<(Duration, Duration)> {
        let mut send = self.spawn(agent, &["send", id, agent.asking_words()])?;
        let began = Instant::now();
        let listed = loop {
            let list = self.json(agent, &["list", "--json"], with_daemon)?;
            let now = clock();
            let sessions = list["sessions"].as_array().into_iter().flatten();
            if sessions.into_iter().any(|session| session["id"] == id && session["status"] == "waiting") {
                break now;
            }
            if began.elapsed() > LONGEST {
                bail!("no list shows the request");
            }
        };
        let told = stream.wait_for("session.waiting", id)?;
        // The two clocks are compared at one moment.
        let told = clock().saturating_sub(told.elapsed());
        let asked = agent.asked(id)?;
        if !send.wait()?.success() {
            bail!("the message was not taken");
        }
        let approved = self.command(agent, &["approve", id], false).stderr(Stdio::null()).status()?;
        if !approved.success() {
            bail!("the answer was not taken");
        }
        stream.wait_for("session.idle", id)?;
        Ok((listed.saturating_sub(asked), told.saturating_sub(asked)))
    }

    fn stop(&self, agent: &mut Agent, id: &str) -> anyhow::Result<()> {
        self.json(agent, &["stop", id, "--json"], false)?;
        super::launch::await_exit(&agent.agentctl_home().join("launches"))
    }
}

/// What a runner costs at rest.
struct Cost {
    rss_kib: u64,
    /// What no other process shares.
    private_kib: u64,
    /// What is no file: heaps and stacks.
    anonymous_kib: u64,
    threads: usize,
    /// Of one core.
    cpu: f64,
}

impl Cost {
    fn of(runner: u32) -> anyhow::Result<Self> {
        let before = processor_time(runner)?;
        std::thread::sleep(IDLE);
        let cpu = processor_time(runner)?.saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64();
        let rollup = std::fs::read_to_string(format!("/proc/{runner}/smaps_rollup"))?;
        let kib = |name: &str| -> anyhow::Result<u64> {
            let line = rollup.lines().find_map(|line| line.strip_prefix(name));
            let words = line.with_context(|| format!("no {name}"))?.split_whitespace().next();
            Ok(words.context("no number")?.parse()?)
        };
        Ok(Self {
            rss_kib: kib("Rss:")?,
            private_kib: kib("Private_Clean:")? + kib("Private_Dirty:")?,
            anonymous_kib: kib("Anonymous:")?,
            threads: std::fs::read_dir(format!("/proc/{runner}/task"))?.count(),
            cpu,
        })
    }
}

/// The time on a processor of all threads.
fn processor_time(pid: u32) -> anyhow::Result<Duration> {
    let mut total = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let stat = std::fs::read_to_string(task.path().join("schedstat"))?;
        total += stat.split_whitespace().next().context("an odd schedstat")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}
