//! `cargo xtask fuzz`: the targets of `fuzz/` in turn, each for its share of the time.
//!
//! They are built with the ordinary toolchain: libFuzzer needs the counters that the compiler can put into every branch, and no
//! sanitizer, because nearly all of what is read is read by safe code. What a target finds lies in `target/fuzz/found`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::workspace;

pub(crate) struct Options {
    pub(crate) minutes: f64,
    /// Only these; all if empty.
    pub(crate) only: Vec<String>,
}

/// A target, and where its seeds lie below `tests/recorded`: the files with this end.
const TARGETS: [(&str, &str); 5] = [
    ("jsonl", ".jsonl"),
    ("walk", ".jsonl"),
    ("http", ".http"),
    ("lines", ".jsonl"),
    ("snapshot", ".snapshot"),
];

/// The agents whose records lie in files; each is a target of its own.
const AGENTS: [&str; 9] =
    ["claude-code", "codex", "copilot", "gemini", "kimi", "opencode", "pi", "qwen", "slate"];

/// What libFuzzer needs to see which branches an input takes.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=16",
];

/// Seeds of one target that are taken.
const MOST_SEEDS: usize = 300;
const LARGEST_SEED: usize = 16 << 10;

/// What an input may cost.
const LIMITS: [&str; 4] = ["-timeout=60", "-rss_limit_mb=1024", "-max_len=65536", "-print_final_stats=1"];

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let binaries = build()?;
    let plain = TARGETS.iter().map(|(target, _)| ((*target).to_owned(), None));
    let agents = AGENTS.iter().map(|agent| (format!("records-{agent}"), Some(*agent)));
    let chosen: Vec<(String, Option<&str>)> = plain
        .chain(agents)
        .filter(|(name, _)| options.only.is_empty() || options.only.iter().any(|only| only == name))
        .collect();
    ensure!(!chosen.is_empty(), "no target has this name");
    #[expect(clippy::cast_precision_loss, reason = "a handful of targets")]
    let seconds = options.minutes * 60.0 / chosen.len() as f64;
    let mut found = Vec::new();
    for (name, agent) in &chosen {
        println!("==> {name}");
        let (corpus, crashes) = (folder("corpus", name)?, folder("found", name)?);
        let mut fuzz = Command::new(binaries.join(agent.map_or(name.as_str(), |_| "records")));
        if let Some(agent) = agent {
            fuzz.env("AGENTCTL_FUZZ_AGENT", agent).env("AGENTCTL_FUZZ_SEEDS", &corpus);
        } else {
            seed(name, &corpus)?;
        }
        fuzz.arg(&corpus).args(LIMITS).arg(format!("-max_total_time={seconds:.0}"));
        fuzz.arg(format!("-artifact_prefix={}/", crashes.display()));
        let ended = fuzz.status().with_context(|| format!("cannot start the target {name}"))?;
        if !ended.success() {
            found.push(format!("{name}: see {}", crashes.display()));
        }
    }
    ensure!(found.is_empty(), "found something:\n{}", found.join("\n"));
    println!("{} targets, nothing found", chosen.len());
    Ok(())
}

/// Built apart from everything else, because the counters are in every crate.
fn build() -> anyhow::Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let built = workspace::target_dir().join("fuzz/build");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--bins", "--target", &target]);
    cargo
        .env("CARGO_TARGET_DIR", &built)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "the targets of fuzz/ cannot be built");
    Ok(built.join(target).join("release"))
}

fn folder(kind: &str, target: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_dir().join("fuzz").join(kind).join(target);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Fills the corpus with recorded files, and with answers that this page writes down itself where nothing is recorded.
fn seed(target: &str, corpus: &Path) -> anyhow::Result<()> {
    let end = TARGETS.iter().find(|(name, _)| *name == target).map_or("", |(_, end)| end);
    let answers: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\nevent: a\ndata: {}\n\n: x\n\ndata: b\r\n\r\n",
    ];
    if target == "http" {
        for (number, answer) in answers.iter().enumerate() {
            std::fs::write(corpus.join(format!("answer-{number}")), answer)?;
        }
    }
    let mut files = Vec::new();
    below(&workspace::root().join("tests/recorded"), &mut files)?;
    files.retain(|path| path.to_string_lossy().ends_with(end));
    for (number, path) in files.iter().take(MOST_SEEDS).enumerate() {
        let mut bytes = std::fs::read(path)?;
        match target {
            // One line is what the walk is given.
            "walk" => bytes.truncate(bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())),
            // A snapshot that is cut off is none.
            "snapshot" => {}
            _ => bytes.truncate(LARGEST_SEED),
        }
        std::fs::write(corpus.join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() { below(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
