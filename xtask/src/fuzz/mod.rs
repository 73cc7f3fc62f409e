//! `cargo xtask fuzz`: builds the targets of `fuzz/` with a fuzzer, makes seeds of what was recorded, and runs each target
//! for its share of the time. What was learned stays in the cache outside the clone, so the next run goes on from there.

mod report;
mod targets;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, bail};

use self::report::Report;
use self::targets::{Target, Toolchain};

/// How long one input may take. The slowest honest one takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much memory a target may have, in MB, and how much it may ask for at once. The address sanitizer keeps what was
/// freed for a while, so this is more than the product may take.
const MEMORY: u32 = 2048;
const ALLOCATION: u32 = 600;
/// How long an input may be.
const LONGEST: usize = 16 << 10;

pub(crate) struct Options {
    /// For all targets together.
    pub(crate) minutes: u64,
    /// Only these; all of them if empty.
    pub(crate) targets: Vec<String>,
    pub(crate) list: bool,
    /// How many run side by side.
    pub(crate) jobs: usize,
    /// Only this input, once.
    pub(crate) input: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut targets = targets::all()?;
    if options.list {
        for Target { name, words } in &targets {
            println!("{name:18} {words}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = options.targets.iter().find(|name| targets.iter().all(|one| one.name != **name)) {
        bail!("there is no target {unknown}; `cargo xtask fuzz --list` names them");
    }
    targets.retain(|target| options.targets.is_empty() || options.targets.contains(&target.name));
    let toolchain = Toolchain::find();
    let binaries = targets::build(&targets, &toolchain)?;
    let place = Place::new(binaries)?;
    if let Some(input) = &options.input {
        let [target] = targets.as_slice() else { bail!("--input needs one --target") };
        let done = place.command(target).arg(input).status().context("start the target")?;
        return Ok(if done.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let count = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    let share = Duration::from_secs(options.minutes * 60) / count;
    let share = share.max(Duration::from_secs(1));
    println!("{} targets, {} seconds each, {toolchain}", targets.len(), share.as_secs());
    println!("{}", report::HEADING);
    let reports = place.run_all(&targets, share, options.jobs.max(1))?;
    let mut found = 0;
    for (target, report) in &reports {
        for file in &report.findings {
            found += 1;
            println!("\n{}: {}", target.name, report.words.as_deref().unwrap_or("it ended"));
            println!("  {}", file.display());
            println!("  cargo xtask fuzz --target {} --input {}", target.name, file.display());
        }
    }
    let executions: u64 = reports.iter().map(|(_, report)| report.executions).sum();
    println!("\n{executions} executions, {found} findings");
    let failed = reports.iter().any(|(_, report)| !report.is_clean);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Where everything lies.
struct Place {
    binaries: PathBuf,
    /// What was learned, a folder for each target.
    corpus: PathBuf,
    findings: PathBuf,
    /// What targets write while they run, in memory where the system has such a folder.
    scratch: tempfile::TempDir,
}

impl Place {
    fn new(binaries: PathBuf) -> anyhow::Result<Self> {
        let cache = agentctl_testkit::cache_folder()?.join("fuzz");
        let memory = Path::new("/dev/shm");
        let mut scratch = tempfile::Builder::new();
        scratch.prefix("agentctl-fuzz-");
        let scratch = if memory.is_dir() { scratch.tempdir_in(memory) } else { scratch.tempdir() };
        Ok(Self {
            binaries,
            corpus: cache.join("corpus"),
            findings: cache.join("findings"),
            scratch: scratch.context("make a folder for what targets write")?,
        })
    }

    fn command(&self, target: &Target) -> Command {
        let mut command = Command::new(self.binaries.join(&target.name));
        command.env("TMPDIR", self.scratch.path());
        // SQLite is linked in a way that the sanitizer takes for two copies of it.
        command.env("ASAN_OPTIONS", "detect_odr_violation=0");
        let limits = [
            format!("-timeout={}", TIMEOUT.as_secs()),
            format!("-rss_limit_mb={MEMORY}"),
            format!("-malloc_limit_mb={ALLOCATION}"),
        ];
        // Leaks are looked for at the end of the program, which has statics.
        command.args(limits).args(["-detect_leaks=0", "-print_funcs=0"]).stdin(Stdio::null());
        command
    }

    /// Runs targets side by side, and prints the line of each as it ends.
    fn run_all<'t>(
        &self,
        targets: &'t [Target],
        share: Duration,
        jobs: usize,
    ) -> anyhow::Result<Vec<(&'t Target, Report)>> {
        let (left, reports) = (Mutex::new(targets.iter()), Mutex::new(Vec::new()));
        let next = || left.lock().ok()?.next();
        let work = || -> anyhow::Result<()> {
            while let Some(target) = next() {
                let report = self.run(target, share)?;
                println!("{}", report.line(&target.name));
                if let Ok(mut reports) = reports.lock() {
                    reports.push((target, report));
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(done) => done,
                Err(_) => bail!("a thread ended"),
            })
        })?;
        Ok(reports.into_inner().unwrap_or_default())
    }

    fn run(&self, target: &Target, share: Duration) -> anyhow::Result<Report> {
        let (corpus, findings) = (self.corpus.join(&target.name), self.findings.join(&target.name));
        fs::create_dir_all(&corpus).with_context(|| format!("create {}", corpus.display()))?;
        fs::create_dir_all(&findings).with_context(|| format!("create {}", findings.display()))?;
        let mut seeds = self.command(target);
        let seeded = seeds.env("AGENTCTL_FUZZ_SEEDS", &corpus).stderr(Stdio::inherit()).status();
        if !seeded.with_context(|| format!("start {}", target.name))?.success() {
            bail!("{} wrote no seeds", target.name);
        }
        let before = files(&findings)?;
        let mut prefix = OsString::from("-artifact_prefix=");
        prefix.push(findings.join(""));
        let mut command = self.command(target);
        command.arg(&corpus).arg(prefix);
        command.arg(format!("-max_total_time={}", share.as_secs())).arg(format!("-max_len={LONGEST}"));
        let ended = command.arg("-print_final_stats=1").output().context("start the target")?;
        let mut report = Report::parse(&String::from_utf8_lossy(&ended.stderr), ended.status.success());
        report.findings = files(&findings)?.into_iter().filter(|file| !before.contains(file)).collect();
        report.inputs = files(&corpus)?.len();
        Ok(report)
    }
}

fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    Ok(files)
}
