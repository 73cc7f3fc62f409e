//! `cargo xtask`: the project's own tasks (what CI runs, corpora, measurements).
//!
//! Users never install this, and agentctl must not need it at run time.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore's only reader sits at the terminal")]
#![allow(clippy::disallowed_methods, reason = "chores start cargo, read the environment and the clock")]

mod bench;
mod checks;
mod corpus;
mod dist;
mod fuzz;
mod replay;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything that must hold before a change goes in; CI runs exactly this
    Test(TestArgs),
    /// Measure `agentctl list` against the physical limit
    Bench(BenchArgs),
    /// Measure how soon the daemon sends an event, and what it costs while idle
    BenchEvents(BenchEventsArgs),
    /// Measure how soon held sessions are ready and seen to wait, and what holding one costs
    BenchHold(BenchHoldArgs),
    /// Measure `agentctl list` against a gateway with many sessions
    BenchGateway(BenchGatewayArgs),
    /// Build Pi Rust for its tests, which are skipped without it (about an hour)
    PiRust,
    /// Measure `agentctl list` of many machines over a NATS server, and of some over ssh
    BenchHosts(BenchHostsArgs),
    /// Let everything around the agents fail at random, and compare every answer with the truth
    Chaos(ChaosArgs),
    /// Write a HOME with generated sessions and a manifest of what a list should show
    Corpus(CorpusArgs),
    /// Make a static agentctl as an archive, a .deb and an .rpm, with checksums
    Dist(DistArgs),
    /// Feed every parser with inputs that a fuzzer makes up, beginning with what real agents wrote
    Fuzz(FuzzArgs),
    /// Make the pictures of the README again, from real agents in a demo home
    Pictures,
    /// Make a test case of a snapshot
    Replay(ReplayArgs),
}

#[derive(Args)]
struct ChaosArgs {
    /// How many faults
    #[arg(long, default_value_t = 10_000)]
    faults: usize,
    /// Repeat the run that printed this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print each fault as it comes
    #[arg(long)]
    trace: bool,
}

#[derive(Args)]
struct FuzzArgs {
    /// How long, for all targets together
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Only this target; may be repeated
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<String>,
    /// Name the targets and what each reads
    #[arg(long)]
    list: bool,
    /// How many targets run side by side
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run one target with this input once, such as the file of a finding
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

#[derive(Args)]
struct DistArgs {
    /// For which system [default: the static one of this architecture, with musl if that is installed]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// The folder of the packages [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Pack this program instead of a fresh build
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

#[derive(Args)]
struct ReplayArgs {
    /// What `agentctl snapshot` wrote
    file: PathBuf,
    /// The name of the case [default: that of the file]
    #[arg(long)]
    name: Option<String>,
    /// Ask this program instead of a fresh build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
}

#[derive(Args)]
struct TestArgs {
    /// Full counts in tests that otherwise take a small sample
    #[arg(long)]
    long: bool,
    /// Only these steps
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<checks::Step>,
    /// Have the tests that start agentctl in a home of its own start this program, such as a static build
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
}

#[derive(Args)]
struct BenchArgs {
    /// Sizes of the corpora
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    sessions: Vec<usize>,
    /// Whose sessions, or `all`
    #[arg(long, value_delimiter = ',', default_value = "claude")]
    agents: Vec<String>,
    /// Keep the corpora here [default: target/bench]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Timed runs of each command
    #[arg(long, default_value_t = 9)]
    repeats: usize,
    /// Measure this program instead of a fresh release build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct BenchEventsArgs {
    /// Sessions on disk, of all agents
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// How many of them are live
    #[arg(long, default_value_t = 50)]
    live: usize,
    /// How often a session ends its turn and is killed
    #[arg(long, default_value_t = 200)]
    rounds: usize,
    /// Keep the corpora here [default: target/bench]
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Measure this program instead of a fresh release build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct BenchHoldArgs {
    /// How often the agent asks
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Measure with the real Claude Code too
    #[arg(long)]
    real: bool,
    /// Measure this program instead of a fresh release build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct BenchHostsArgs {
    /// How many machines answer
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    hosts: Vec<usize>,
    /// How many of 1,000 machines say nothing, in a run of its own
    #[arg(long, default_value_t = 100)]
    silent: usize,
    /// How many machines are asked over ssh, in a run of its own
    #[arg(long, default_value_t = 20)]
    ssh: usize,
    /// Timed runs of each list
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Measure this program instead of a fresh release build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct BenchGatewayArgs {
    /// How many sessions the gateway keeps
    #[arg(long, value_delimiter = ',', default_value = "100,1000,10000")]
    sessions: Vec<usize>,
    /// Timed runs of each command
    #[arg(long, default_value_t = 9)]
    repeats: usize,
    /// Measure this program instead of a fresh release build
    #[arg(long, value_name = "PROGRAM")]
    agentctl: Option<PathBuf>,
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct CorpusArgs {
    /// How many sessions
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// The directory to fill
    #[arg(long, default_value = "target/corpus")]
    home: PathBuf,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A factor on the natural sizes, or `auto` for a mean of 300 KB
    #[arg(long, default_value = "auto")]
    mean_scale: corpus::sizes::MeanScale,
    /// The moment taken as the present, in seconds since 1970 [default: the clock]
    #[arg(long)]
    now: Option<i64>,
    /// Whose sessions, or `all`
    #[arg(long, value_delimiter = ',', default_value = "claude")]
    agents: Vec<String>,
}

fn main() -> ExitCode {
    if std::env::var_os(bench::stand_in::MARK).is_some() {
        bench::stand_in::run_as_agent();
        return ExitCode::SUCCESS;
    }
    run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    // The measured parts use no command-line parser, because their start is part of the measured time.
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((chore, rest)) if chore == "__limit" => {
            return bench::limit::main(rest).map(|()| ExitCode::SUCCESS);
        }
        Some((chore, rest)) if chore == "__measure" => {
            return bench::measure::main(rest).map(|()| ExitCode::SUCCESS);
        }
        _ => {}
    }
    match Cli::parse().chore {
        Chore::Test(args) => checks::run(&args.only, args.long, args.program.as_deref()),
        Chore::Bench(args) => run_bench(args),
        Chore::BenchHold(args) => {
            let agentctl = released(args.agentctl)?;
            let options =
                bench::held::Options { rounds: args.rounds, real: args.real, agentctl, json: args.json };
            bench::held::run(&options).map(|()| ExitCode::SUCCESS)
        }
        Chore::BenchEvents(args) => {
            let options = bench::events::Options {
                sessions: args.sessions,
                live: args.live,
                rounds: args.rounds,
                keep: args.keep,
                agentctl: released(args.agentctl)?,
                json: args.json,
            };
            bench::events::run(&options).map(|()| ExitCode::SUCCESS)
        }
        Chore::BenchGateway(args) => run_bench_gateway(args),
        Chore::PiRust => {
            println!("{}", agentctl_testkit::agents::pi_rust::build()?.display());
            Ok(ExitCode::SUCCESS)
        }
        Chore::Dist(args) => {
            let options = dist::Options { target: args.target, out: args.out, program: args.program };
            dist::run(&options).map(|()| ExitCode::SUCCESS)
        }
        Chore::Fuzz(FuzzArgs { minutes, targets, list, jobs, input }) => {
            fuzz::run(&fuzz::Options { minutes, targets, list, jobs, input })
        }
        Chore::Pictures => pictures(),
        Chore::Chaos(args) => chaos(&args),
        Chore::BenchHosts(args) => run_bench_hosts(args),
        Chore::Replay(args) => {
            replay::add_case(&args.file, args.name.as_deref(), args.agentctl).map(|()| ExitCode::SUCCESS)
        }
        Chore::Corpus(args) => {
            let options = corpus::Options {
                home: args.home,
                sessions: args.sessions,
                seed: args.seed,
                scale: args.mean_scale,
                now_ms: args.now.map_or_else(now_ms, |seconds| seconds * 1000),
                agents: corpus::expand(&args.agents),
            };
            corpus::run(&options).map(|()| ExitCode::SUCCESS)
        }
    }
}

fn run_bench(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let Some(agentctl) = measured_program(args.agentctl)? else { return again_optimised() };
    let options = bench::Options {
        sessions: args.sessions,
        agents: corpus::expand(&args.agents),
        keep: args.keep,
        repeats: args.repeats,
        agentctl,
        json: args.json,
    };
    bench::run(&options).map(|()| ExitCode::SUCCESS)
}

fn run_bench_gateway(args: BenchGatewayArgs) -> anyhow::Result<ExitCode> {
    let Some(agentctl) = measured_program(args.agentctl)? else { return again_optimised() };
    let options =
        bench::gateway::Options { sessions: args.sessions, repeats: args.repeats, agentctl, json: args.json };
    bench::gateway::run(&options).map(|()| ExitCode::SUCCESS)
}

fn run_bench_hosts(args: BenchHostsArgs) -> anyhow::Result<ExitCode> {
    // What is measured is another process, so this one may be of any build if the other is named.
    let agentctl = match args.agentctl.clone() {
        Some(named) => named,
        None => match measured_program(None)? {
            Some(agentctl) => agentctl,
            None => return again_optimised(),
        },
    };
    let BenchHostsArgs { hosts, silent, ssh, repeats, json, .. } = args;
    let options = bench::hosts::Options { hosts, silent, ssh, repeats, agentctl, json };
    bench::hosts::run(&options).map(|()| ExitCode::SUCCESS)
}

/// The program to measure. `None` if this is not an optimised build, which could not measure the limit.
fn measured_program(named: Option<PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if cfg!(debug_assertions) {
        return Ok(None);
    }
    released(named).map(Some)
}

/// This program, or else a fresh release build.
fn released(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let program = match named {
        Some(program) => program,
        None => workspace::build_release(&["agentctl"])?.join("agentctl"),
    };
    program.canonicalize().with_context(|| format!("cannot find {}", program.display()))
}

/// Runs the same task again with the optimised build of this program.
fn again_optimised() -> anyhow::Result<ExitCode> {
    let binaries = workspace::build_release(&["xtask"])?;
    let mut again = Command::new(binaries.join("xtask"));
    let status =
        again.args(std::env::args_os().skip(1)).status().context("cannot start the optimised xtask")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The current time, rounded down to a whole second.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_second() * 1000
}

/// The test that CI runs in short, with as many faults as asked for.
fn chaos(args: &ChaosArgs) -> anyhow::Result<ExitCode> {
    let mut cargo = Command::new("cargo");
    cargo.args([
        "test",
        "--package",
        "agentctl",
        "--test",
        "chaos",
        "--",
        "--nocapture",
        "every_answer_is_true",
    ]);
    cargo.env("AGENTCTL_LONG", "1").env("AGENTCTL_CHAOS_FAULTS", args.faults.to_string());
    if let Some(seed) = args.seed {
        cargo.env("AGENTCTL_CHAOS_SEED", seed.to_string());
    }
    if args.trace {
        cargo.env("AGENTCTL_CHAOS_TRACE", "1");
    }
    let done = cargo.status().context("start cargo test")?;
    Ok(if done.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The scene that takes them is one of the tests of the page.
fn pictures() -> anyhow::Result<ExitCode> {
    let folder = workspace::root().join("docs/pictures");
    let done = taking_pictures(&folder).status().context("start cargo nextest")?;
    anyhow::ensure!(done.success(), "the pictures were not taken");
    println!("{}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// A scene that cannot be set here, without a browser for example, is a failure: it leaves the pictures as they were.
fn taking_pictures(folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args([
        "nextest",
        "run",
        "--workspace",
        "--test",
        "web_page",
        "--no-capture",
        "pictures_for_people",
    ]);
    cargo.env("AGENTCTL_PICTURES", folder).env("AGENTCTL_TEST_NO_SKIP", "1");
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_cannot_be_taken_are_a_failure() {
        let command = taking_pictures(Path::new("/p"));
        assert!(command.get_envs().any(|(name, value)| name == "AGENTCTL_TEST_NO_SKIP" && value.is_some()));
    }
}
