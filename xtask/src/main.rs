//! `cargo xtask`: the project's own chores (what CI runs, corpora, measurements).
//!
//! Never part of what users install; nothing here may be needed at run time by agentctl.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore's only reader sits at the terminal")]
#![allow(clippy::disallowed_methods, reason = "chores start cargo, read the environment and the clock")]

mod corpus;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Write a HOME with made-up sessions and a manifest of what each should show
    Corpus(CorpusArgs),
}

#[derive(Args)]
struct CorpusArgs {
    /// How many sessions
    #[arg(long, default_value_t = 1000)]
    sessions: usize,
    /// The folder to fill
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
    #[arg(long, value_delimiter = ',', default_value = "claude")]
    agents: Vec<String>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Corpus(args) => corpus::run(&corpus::Options {
            home: args.home,
            sessions: args.sessions,
            seed: args.seed,
            scale: args.mean_scale,
            now_ms: args.now.map_or_else(now_ms, |seconds| seconds * 1000),
            agents: args.agents,
        })
        .map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond() / 1000 * 1000
}
