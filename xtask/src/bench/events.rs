//! `cargo xtask bench-events`: how soon the daemon sends an event after a change, and what it costs while nothing changes.
//!
//! Stand-ins of several agents and some real ones run among stored sessions of all agents. One at a time ends its turn, is
//! killed and is started again; the measured time is from the change to the event on the stream. After that everything is
//! listed once, and the daemon is left alone for a minute.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agentctl_testkit::TestHome;
use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::company::Company;

/// An event that takes longer than this, even on a busy machine, is lost.
pub(super) const LONGEST: Duration = Duration::from_mins(1);
/// The time over which the processor time of the idle daemon is measured, and after which its memory is that at rest.
const IDLE: Duration = Duration::from_mins(1);

pub(crate) struct Options {
    pub(crate) sessions: usize,
    pub(crate) live: usize,
    pub(crate) rounds: usize,
    pub(crate) keep: Option<PathBuf>,
    pub(crate) agentctl: PathBuf,
    pub(crate) json: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let agents = crate::corpus::expand(&["all".to_owned()]);
    let (corpus, manifest) = super::corpus_of(options.keep.as_deref(), options.sessions, &agents)?;
    let home = TestHome::new();
    copy(&corpus, &home.path())?;
    let mut company = Company::start(home, &manifest, options.live)?;
    let own = tempfile::tempdir()?;
    let socket = own.path().join("agentctl.sock");
    let daemon = Daemon::start(&options.agentctl, &company.home(), own.path())?;
    let stream = Stream::open(&socket)?;
    let (mut ended, mut rested) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let which = round % company.len();
        pause(round);
        let began = Instant::now();
        if company.finish_turn(which)? {
            rested.push(stream.wait_for("session.idle", company.session(which))? - began);
        }
        pause(round * 7);
        let began = Instant::now();
        company.kill(which)?;
        ended.push(stream.wait_for("session.stopped", company.session(which))? - began);
        company.replace(which)?;
        stream.wait_for("session.running", company.session(which))?;
    }
    list_all(&socket)?;
    let warm = daemon.memory_kib()?;
    let before = daemon.processor_time()?;
    std::thread::sleep(IDLE);
    let idle = daemon.processor_time()?.saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64();
    let rest = daemon.memory_kib()?;
    let (ended, rested) = (Spread::of(ended)?, Spread::of(rested)?);
    if options.json {
        println!(
            "{:#}",
            json!({"sessions": options.sessions, "live": company.counts(), "rounds": options.rounds, "exitToStopped": ended.json(),
                "recordToIdle": rested.json(), "idleCpu": idle, "warmKib": warm, "restKib": rest})
        );
    } else {
        println!(
            "{} sessions on disk, {} rounds, live: {:?}",
            options.sessions,
            options.rounds,
            company.counts()
        );
        println!("exit to session.stopped    {}", ended.describe());
        println!("record to session.idle     {}", rested.describe());
        println!("after a list of everything {:.1} MB", memory_mb(warm));
        println!("a minute later             {:.1} MB, {:.2} % of a core", memory_mb(rest), idle * 100.0);
    }
    Ok(())
}

/// The live ones write into their home, and other benchmarks compare each session of the corpus with its manifest.
fn copy(corpus: &Path, home: &Path) -> anyhow::Result<()> {
    let copied =
        Command::new("cp").arg("-a").arg(corpus.join(".")).arg(home).status().context("cannot start cp")?;
    ensure!(copied.success(), "cannot copy {}", corpus.display());
    Ok(())
}

/// Has the daemon list every session that there is.
fn list_all(socket: &Path) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(
        b"GET /v1/sessions?all=true&since=all HTTP/1.1\r\nHost: agentctl\r\nConnection: close\r\n\r\n",
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "the daemon lists nothing");
    Ok(())
}

/// Varies the moment of the change relative to the daemon's polling.
fn pause(seed: usize) {
    std::thread::sleep(Duration::from_millis(u64::try_from(seed * 37 % 150).unwrap_or(0)));
}

#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
pub(super) fn memory_mb(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

pub(super) struct Spread {
    median: Duration,
    p99: Duration,
    max: Duration,
}

impl Spread {
    pub(super) fn of(mut all: Vec<Duration>) -> anyhow::Result<Self> {
        all.sort_unstable();
        let max = *all.last().context("no rounds asked for")?;
        Ok(Self { median: all[all.len() / 2], p99: all[(all.len() * 99 / 100).min(all.len() - 1)], max })
    }

    pub(super) fn json(&self) -> Value {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        json!({"medianMs": ms(self.median), "p99Ms": ms(self.p99), "maxMs": ms(self.max)})
    }

    pub(super) fn describe(&self) -> String {
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        format!("median {:>9}  p99 {:>9}  max {:>9}", ms(self.median), ms(self.p99), ms(self.max))
    }
}

/// The measured daemon. It is stopped when this value is dropped.
pub(super) struct Daemon(Child);

impl Daemon {
    pub(super) fn start(program: &Path, home: &Path, own: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["daemon", "run"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home)
            .env("AGENTCTL_HOME", own)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        Self::run(command, own)
    }

    /// Runs this command, and waits until the daemon of this folder answers.
    pub(super) fn run(mut command: Command, own: &Path) -> anyhow::Result<Self> {
        let daemon = Self(command.spawn().context("cannot start the daemon")?);
        let deadline = Instant::now() + LONGEST;
        while UnixStream::connect(own.join("agentctl.sock")).is_err() {
            if Instant::now() > deadline {
                bail!("the daemon does not answer");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("an odd stat")?.1.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        // A tick is a hundredth of a second on every common Linux.
        Ok(Duration::from_millis(ticks * 10))
    }

    pub(super) fn memory_kib(&self) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(line.split_whitespace().next().context("no VmRSS")?.parse()?)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All events, each with the moment of its arrival.
pub(super) struct Stream(Receiver<(Instant, String, String)>);

impl Stream {
    pub(super) fn open(socket: &Path) -> anyhow::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: agentctl\r\n\r\n")?;
        let mut lines = BufReader::new(stream);
        // The daemon answers after its first survey, so every change from here on makes an event.
        lines.read_line(&mut String::new())?;
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let Some(data) = line.strip_prefix("data:") else { continue };
                let now = Instant::now();
                let Ok(event) = serde_json::from_str::<Value>(data) else { continue };
                let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                if sender.send((now, field("type"), field("sessionId"))).is_err() {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }

    pub(super) fn wait_for(&self, kind: &str, session: &str) -> anyhow::Result<Instant> {
        loop {
            let Ok((at, its_kind, its_session)) = self.0.recv_timeout(LONGEST) else {
                bail!("no {kind} of {session} came");
            };
            if its_kind == kind && its_session == session {
                return Ok(at);
            }
        }
    }
}
