//! `cargo xtask bench`: how close `agentctl list` is to the physical limit, and how much memory it uses.
//!
//! Every run is a fresh process with a warm page cache. The program and its limit take turns, so that noise affects both.
//! Each answer is checked against the manifest before anything is timed.

pub(crate) mod check;
mod company;
pub(crate) mod events;
pub(crate) mod gateway;
pub(crate) mod held;
pub(crate) mod hosts;
pub(crate) mod launch;
pub(crate) mod limit;
pub(crate) mod measure;
mod report;
pub(crate) mod stand_in;
mod through_daemon;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

use self::limit::Depth;
use self::measure::Place;
use self::report::{Measured, Timing};
use self::stand_in::StandIns;
use crate::corpus::sizes::MeanScale;
use crate::corpus::{self, Manifest};
use crate::workspace;

const SEED: u64 = 1;
/// How many sessions are live when the plain list is measured.
const LIVE: [usize; 2] = [5, 50];
/// A start takes so little time that it is measured this many times as often as other commands.
const STARTS: usize = 5;
/// The number of stored sessions when the plain list of live ones is measured.
const LIVE_AMONG: usize = 1000;

pub(crate) struct Options {
    pub(crate) sessions: Vec<usize>,
    /// The agents of the sessions in the corpora.
    pub(crate) agents: Vec<String>,
    pub(crate) keep: Option<PathBuf>,
    pub(crate) repeats: usize,
    pub(crate) agentctl: PathBuf,
    pub(crate) json: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir()?;
    let live_among = if options.sessions.contains(&LIVE_AMONG) {
        Some(LIVE_AMONG)
    } else {
        options.sessions.last().copied()
    };
    let mut all = Vec::new();
    for &count in &options.sessions {
        let (home, manifest) = corpus_of(options.keep.as_deref(), count, &options.agents)?;
        let bench = Bench { options, home: &home, manifest: &manifest, scratch: scratch.path() };
        all.push(bench.stored(&["list", "--all", "--since", "all", "--json"], Depth::Ends)?);
        all.extend(bench.through_the_daemon()?);
        all.push(bench.stored(&["list", "--all", "--since", "all", "--usage", "--json"], Depth::All)?);
        all.push(bench.usage()?);
        all.extend(bench.search()?);
        // The stand-ins imitate Claude Code.
        if live_among == Some(count) && options.agents.iter().any(|agent| agent == "claude") {
            for live in LIVE {
                all.push(bench.live(live)?);
            }
            all.push(bench.launch()?);
            all.push(bench.start()?);
        }
    }
    if options.json {
        println!("{:#}", report::json(&all));
    } else {
        println!("{}", report::table(&all));
    }
    Ok(())
}

/// The corpus of this size, and its path.
pub(crate) fn corpus_of(
    keep: Option<&Path>,
    count: usize,
    agents: &[String],
) -> anyhow::Result<(PathBuf, Manifest)> {
    let base = keep.map_or_else(|| workspace::target_dir().join("bench"), Path::to_owned);
    let home = base.join(format!("corpus-{}-{SEED}-{}-{count}", corpus::GENERATION, agents.join("+")));
    let manifest = ready_corpus(&home, count, agents)?;
    Ok((home, manifest))
}

/// The corpus from an earlier run, or a new one. The manifest is written last, so a corpus that has one is complete.
fn ready_corpus(home: &Path, sessions: usize, agents: &[String]) -> anyhow::Result<Manifest> {
    let manifest = home.join("manifest.json");
    if manifest.exists() {
        return Manifest::load(&manifest);
    }
    if home.exists() {
        std::fs::remove_dir_all(home)
            .with_context(|| format!("cannot remove the half corpus {}", home.display()))?;
    }
    std::fs::create_dir_all(home).with_context(|| format!("cannot make {}", home.display()))?;
    eprintln!("writing {sessions} sessions to {}", home.display());
    corpus::write(&corpus::Options {
        home: home.to_owned(),
        sessions,
        seed: SEED,
        scale: MeanScale::Auto,
        now_ms: crate::now_ms(),
        agents: agents.to_vec(),
    })
}

struct Bench<'a> {
    options: &'a Options,
    home: &'a Path,
    manifest: &'a Manifest,
    scratch: &'a Path,
}

impl Bench<'_> {
    /// Measures a listing of all stored sessions against its physical limit.
    fn stored(&self, args: &[&str], depth: Depth) -> anyhow::Result<Measured> {
        eprintln!("measuring {} sessions: {}", self.manifest.rows.len(), args.join(" "));
        let listing = self.listing(args)?;
        fail_on(&check::differences(self.manifest, &listing, depth == Depth::All))?;
        self.against_the_limit(args, depth)
    }

    /// Measures what was spent by every session, against the time that reading all bytes takes.
    fn usage(&self) -> anyhow::Result<Measured> {
        eprintln!("measuring {} sessions: usage", self.manifest.rows.len());
        let report = self.listing(&["usage", "--by", "session", "--json"])?;
        fail_on(&check::usage_differences(self.manifest, &report))?;
        self.against_the_limit(&["usage", "--json"], Depth::All)
    }

    /// Measures a search for a word that stands nowhere: the whole of it against reading all bytes, and against `rg` over
    /// the same files where that is installed. Both end with 1 when they find nothing.
    fn search(&self) -> anyhow::Result<Vec<Measured>> {
        const NOWHERE: &str = "zyzzyvaquux";
        eprintln!("measuring {} sessions: search", self.manifest.rows.len());
        let program = self.options.agentctl.to_str().context("the path of agentctl is not UTF-8")?;
        let home = self.home.to_str().context("the corpus path is not UTF-8")?;
        let shell = Path::new("/bin/sh");
        let own = ["-c", "\"$0\" search --json \"$1\" 2>/dev/null; test $? -eq 1", program, NOWHERE];
        self.time(shell, &own)?;
        let limit = self.against_the_limit_with(shell, &own, Depth::All)?;
        let mut all = vec![Measured { command: format!("search {NOWHERE}"), ..limit }];
        // A letter that stands in every session: how soon the newest of them is told.
        let first = ["search", "--json", "-n", "1", "e"];
        let mut soon = Vec::new();
        for _ in 0..self.options.repeats {
            soon.push(self.time(&self.options.agentctl, &first)?);
        }
        all.push(self.measured(&["search -n 1 e (the first hit)"], &soon, None)?);
        if Command::new("rg").arg("--version").output().is_ok() {
            let theirs =
                ["-c", "rg --no-config -uuu -a -c -i -F \"$0\" \"$1\"; test $? -eq 1", NOWHERE, home];
            let (mut ours, mut others) = (Vec::new(), Vec::new());
            self.time(shell, &theirs)?;
            for _ in 0..self.options.repeats {
                ours.push(self.time(shell, &own)?);
                others.push(self.time(shell, &theirs)?);
            }
            let others = Timing::of(&others).map(|timing| (timing, 2));
            all.push(self.measured(&["search (the limit is rg)"], &ours, others)?);
        }
        Ok(all)
    }

    fn against_the_limit(&self, args: &[&str], depth: Depth) -> anyhow::Result<Measured> {
        self.against_the_limit_with(&self.options.agentctl, args, depth)
    }

    fn against_the_limit_with(
        &self,
        own_program: &Path,
        args: &[&str],
        depth: Depth,
    ) -> anyhow::Result<Measured> {
        let home = self.home.to_str().context("the corpus path is not UTF-8")?;
        let limit = ["__limit", home, depth.as_str(), "1"];
        let (mut own, mut limits) = (Vec::new(), Vec::new());
        let program = std::env::current_exe()?;
        self.time(&program, &limit)?;
        for _ in 0..self.options.repeats {
            own.push(self.time(own_program, args)?);
            limits.push(self.time(&program, &limit)?);
        }
        self.measured(args, &own, Timing::of(&limits).map(|timing| (timing, 1)))
    }

    /// Measures the plain list, with a few live sessions among the stored ones.
    fn live(&self, count: usize) -> anyhow::Result<Measured> {
        eprintln!("measuring {count} live among {} sessions: list", self.manifest.rows.len());
        let stand_ins = StandIns::start(self.home, self.manifest, count, crate::now_ms())?;
        let live: Vec<_> = stand_ins.all.iter().map(|one| (one.session.clone(), one.pid)).collect();
        fail_on(&check::live_differences(&live, &self.listing(&["list", "--json"])?))?;
        let mut own = Vec::new();
        for _ in 0..self.options.repeats {
            own.push(self.time(&self.options.agentctl, &["list"])?);
        }
        self.measured(&["list", &format!("({count} live)")], &own, None)
    }

    /// Measures how long the program takes to start, against an empty program of the same language.
    fn start(&self) -> anyhow::Result<Measured> {
        let (source, empty) = (self.scratch.join("empty.rs"), self.scratch.join("empty"));
        std::fs::write(&source, "fn main() {}\n")?;
        let built = Command::new("rustc").arg("-O").arg(&source).arg("-o").arg(&empty).status();
        if !built.context("cannot start rustc")?.success() {
            bail!("an empty program cannot be built");
        }
        let (mut own, mut limits) = (Vec::new(), Vec::new());
        for _ in 0..self.options.repeats * STARTS {
            own.push(self.time(&self.options.agentctl, &["--version"])?);
            limits.push(self.time(&empty, &[])?);
        }
        self.measured(
            &["--version", "(against an empty program)"],
            &own,
            Timing::of(&limits).map(|timing| (timing, 1)),
        )
    }

    /// From the turn in the agent's storage to the return of `launch`.
    fn launch(&self) -> anyhow::Result<Measured> {
        eprintln!("measuring among {} sessions: launch", self.manifest.rows.len());
        let (own, floor) = launch::run(&self.options.agentctl, self.home)?;
        let floor = Timing::of(&floor).map(|timing| (timing, 1));
        self.measured(&["launch", "(turn to return)"], &own, floor)
    }

    fn measured(
        &self,
        args: &[&str],
        own: &[measure::Cost],
        limit: Option<(Timing, usize)>,
    ) -> anyhow::Result<Measured> {
        Ok(Measured {
            command: args.join(" "),
            sessions: self.manifest.rows.len(),
            bytes: self.manifest.bytes(),
            agentctl: Timing::of(own).context("no repeats asked for")?,
            limit,
        })
    }

    fn listing(&self, args: &[&str]) -> anyhow::Result<Value> {
        self.time(&self.options.agentctl, args)?;
        self.printed(args)
    }

    /// What the last command printed.
    fn printed(&self, args: &[&str]) -> anyhow::Result<Value> {
        let answer = std::fs::read(self.output())?;
        serde_json::from_slice(&answer).with_context(|| format!("`{}` printed no JSON", args.join(" ")))
    }

    /// Measures one run with an empty agentctl directory, so that no run uses data of an earlier one.
    fn time(&self, program: &Path, args: &[&str]) -> anyhow::Result<measure::Cost> {
        let agentctl_home = tempfile::tempdir_in(self.scratch)?;
        let place = Place { home: self.home, agentctl_home: agentctl_home.path(), daemon: false };
        measure::run(&place, &self.output(), program, args)
    }

    fn output(&self) -> PathBuf {
        self.scratch.join("output")
    }
}

fn fail_on(differences: &[String]) -> anyhow::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    for difference in differences.iter().take(20) {
        eprintln!("WRONG: {difference}");
    }
    bail!("the listing differs from the manifest in {} places; nothing was timed", differences.len());
}
