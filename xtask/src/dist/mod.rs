//! `cargo xtask dist`: a static agentctl as an archive, a `.deb` and an `.rpm`, with their checksums.
//!
//! The same commit gives the same bytes wherever it is built: every time is the time of the commit, entries are sorted and
//! owned by root, and no path of this machine is in the program.

mod archive;
mod contents;
mod deb;
mod licences;
mod program;
mod rpm;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use self::contents::Contents;
use crate::workspace;

pub(crate) struct Options {
    pub(crate) target: Option<String>,
    pub(crate) out: Option<PathBuf>,
    /// Packed instead of a fresh build.
    pub(crate) program: Option<PathBuf>,
}

/// What all packages say about themselves.
struct Release {
    version: &'static str,
    /// What is built is of this target.
    target: String,
    /// Seconds since 1970 of the commit.
    time: u64,
}

const SUMMARY: &str = "see and steer the coding-agent sessions of this machine";
const DESCRIPTION: [&str; 3] = [
    "agentctl shows which coding agent works, which one waits for a person and",
    "which one died, whoever started it, and gives each status its evidence.",
    "It launches, steers and stops them, and keeps no registry of its own.",
];
/// There is no address to write to.
const MAINTAINER: &str = "The agentctl authors <authors@agentctl.invalid>";
const LICENSE: &str = "MIT OR Apache-2.0";

impl Release {
    /// The first part of the target, which is the machine's architecture.
    fn arch(&self) -> &str {
        self.target.split('-').next().unwrap_or_default()
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let target = options.target.clone().map_or_else(program::usual_target, Ok)?;
    let release = Release { version: env!("CARGO_PKG_VERSION"), target, time: commit_time()? };
    let built = match &options.program {
        Some(program) => program.clone(),
        None => program::build(&release)?,
    };
    let program = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    if program::asks_for_a_loader(&program) {
        anyhow::ensure!(
            options.program.is_some(),
            "{} is linked dynamically, so it would not run everywhere",
            built.display()
        );
        println!(
            "warning: {} is linked dynamically; these packages are for this system alone",
            built.display()
        );
    }
    let contents = Contents::of(&built, program, &release)?;
    let out = options.out.clone().unwrap_or_else(|| workspace::target_dir().join("dist"));
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;

    let packages = [
        archive::package(&contents, &release)?,
        deb::package(&contents, &release)?,
        rpm::package(&contents, &release)?,
    ];
    let mut sums = String::new();
    for (name, bytes) in &packages {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(sums, "{}  {name}", hex(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref()))?;
        println!("{}", path.display());
    }
    let path = out.join("SHA256SUMS");
    fs::write(&path, sums).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// `SOURCE_DATE_EPOCH`, or when the commit that is checked out was made.
fn commit_time() -> anyhow::Result<u64> {
    const NAME: &str = "SOURCE_DATE_EPOCH";
    if let Some(said) = std::env::var_os(NAME) {
        let seconds = said.to_str().and_then(|said| said.parse().ok());
        return seconds.with_context(|| format!("{NAME} is no number of seconds"));
    }
    let asked = std::process::Command::new("git")
        .current_dir(workspace::root())
        .args(["log", "-1", "--format=%ct"])
        .output();
    let seconds = asked.ok().and_then(|asked| String::from_utf8(asked.stdout).ok()?.trim().parse().ok());
    seconds.with_context(|| format!("git does not say when the commit was made; set {NAME}"))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
