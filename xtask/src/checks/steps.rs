//! The steps of `cargo xtask test`, in the order in which they run: the fast ones come first.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;

use super::minutes::Minutes;
use super::tally::Tally;
use super::unused;
use crate::workspace;

/// The variable that tells `testkit::skip` where to record skipped tests.
pub(crate) const SKIP_LOG: &str = "AGENTCTL_SKIP_LOG";

/// Set by `.ci/run`.
const IN_CI: &str = "AGENTCTL_CI";

/// The profile of `.config/nextest.toml` that records how long each test took.
const NEXTEST_PROFILE: &str = "timed";

/// The program that checks our dependencies, and its version.
const DENY: (&str, &str) = ("cargo-deny", "0.20.2");

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// cargo fmt --check
    Fmt,
    /// dependencies that no source names
    Unused,
    /// clippy, warnings are errors
    Clippy,
    /// the release build of agentctl
    Release,
    /// unit and integration tests
    Tests,
    /// examples in the documentation
    Doctests,
    /// the documentation itself, warnings are errors
    Docs,
    /// what is read from the recorded homes of real agents
    Fixtures,
    /// licences, duplicates and sources of dependencies
    Deny,
}

/// The settings of a run.
pub(crate) struct Setting<'a> {
    pub(crate) long: bool,
    pub(crate) skip_log: &'a Path,
    /// What tests start instead of the agentctl that was built with them.
    pub(crate) program: Option<&'a Path>,
}

/// The result of a step. A step without tests reports a failure as an error.
pub(crate) enum Done {
    Passed,
    Counted(Tally),
    Failed(Tally, String),
    Skipped(String),
}

impl Step {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(crate) fn run(self, setting: &Setting<'_>, minutes: &mut Minutes) -> anyhow::Result<Done> {
        match self {
            Self::Fmt => cargo(&["fmt", "--all", "--check"]),
            Self::Unused => unused_dependencies(),
            Self::Clippy => cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ]),
            Self::Release => workspace::build_release(&["agentctl"]).map(|_| Done::Passed),
            Self::Tests => tests(setting, minutes),
            Self::Doctests => {
                counted(for_tests(setting).args(["test", "--doc", "--workspace", "--locked", "--quiet"]))
            }
            Self::Docs => {
                let mut command = workspace::cargo();
                command.args(["doc", "--no-deps", "--workspace", "--locked", "--quiet"]);
                passed(command.env("RUSTDOCFLAGS", "-D warnings"))
            }
            Self::Fixtures => fixtures(),
            Self::Deny => deny(),
        }
    }
}

fn cargo(args: &[&str]) -> anyhow::Result<Done> {
    passed(workspace::cargo().args(args))
}

fn for_tests(setting: &Setting<'_>) -> Command {
    let mut command = workspace::cargo();
    command.env(SKIP_LOG, setting.skip_log);
    if setting.long {
        command.env("AGENTCTL_LONG", "1");
    }
    if let Some(program) = setting.program {
        command.env("AGENTCTL_TEST_PROGRAM", program);
    }
    command
}

/// Builds the tests, then runs them, so that the two times are measured separately.
fn tests(setting: &Setting<'_>, minutes: &mut Minutes) -> anyhow::Result<Done> {
    // Without nextest the tests of a file share a process, and all tests work that way too.
    let (runner, scope) = if installed("nextest") {
        (&["nextest", "run", "--profile", NEXTEST_PROFILE][..], &["--workspace", "--locked"][..])
    } else {
        (&["test"][..], &["--workspace", "--all-targets", "--locked"][..])
    };
    let build = Instant::now();
    passed(for_tests(setting).args(runner).args(scope).arg("--no-run"))?;
    minutes.add("test build", build.elapsed());

    // Nextest writes its reports into the clone, wherever the build directory is.
    let report = workspace::root().join("target/nextest").join(NEXTEST_PROFILE).join("junit.xml");
    // The report of an earlier run must not be taken for this one's.
    let _ = std::fs::remove_file(&report);
    let mut command = for_tests(setting);
    command.args(runner).args(scope);
    if runner.len() > 1 {
        command.args(["--status-level", "slow", "--final-status-level", "fail"]);
    } else {
        command.arg("--no-fail-fast");
    }
    let start = Instant::now();
    let done = counted(&mut command);
    minutes.add_tests(&std::fs::read_to_string(&report).unwrap_or_default(), start.elapsed());
    done
}

fn unused_dependencies() -> anyhow::Result<Done> {
    let unused = unused::dependencies(&workspace::root())?;
    for line in &unused {
        println!("{line}");
    }
    if unused.is_empty() { Ok(Done::Passed) } else { bail!("{} dependencies are not used", unused.len()) }
}

/// Checks the licences, versions and sources of our dependencies. If cargo-deny cannot be installed, the reason is printed;
/// in CI that is a failure, because nobody reads the output of a run that passed.
fn deny() -> anyhow::Result<Done> {
    let (name, version) = DENY;
    println!("{name} {version}: from the cache, or built once, which takes some minutes");
    match agentctl_testkit::tools::cargo_program(name, version) {
        Ok(program) => passed(Command::new(program).current_dir(workspace::root()).args([
            "--log-level",
            "error",
            "check",
            "licenses",
            "bans",
            "sources",
        ])),
        Err(reason) if std::env::var_os(IN_CI).is_some() => bail!("{reason}"),
        Err(reason) => Ok(Done::Skipped(reason.to_string())),
    }
}

fn fixtures() -> anyhow::Result<Done> {
    let program = workspace::target_dir().join("release/agentctl");
    if !program.exists() {
        bail!("{} is missing; run the step `release` first", program.display());
    }
    counted(Command::new(workspace::root().join("tests/tools/check-recorded")).arg(program))
}

/// Whether cargo has the subcommand.
fn installed(subcommand: &str) -> bool {
    let quiet = workspace::cargo()
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

fn passed(command: &mut Command) -> anyhow::Result<Done> {
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("cannot start {}", shown(command)))?;
    if status.success() { Ok(Done::Passed) } else { bail!("`{}` ended with {status}", shown(command)) }
}

/// Runs a test runner, shows its output and counts the tests in it.
fn counted(command: &mut Command) -> anyhow::Result<Done> {
    let start = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = start.with_context(|| format!("cannot start {}", shown(command)))?;
    let seen = Mutex::new(String::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        if let Some(stdout) = stdout {
            scope.spawn(|| tee(stdout, std::io::stdout(), &seen));
        }
        if let Some(stderr) = stderr {
            scope.spawn(|| tee(stderr, std::io::stderr(), &seen));
        }
    });
    let status = child.wait()?;
    let tally = Tally::parse(&seen.into_inner().unwrap_or_default());
    if !status.success() {
        return Ok(Done::Failed(tally, format!("`{}` ended with {status}", shown(command))));
    }
    Ok(Done::Counted(tally))
}

/// Copies lines to the terminal and stores them. Invalid UTF-8 in a test's output must not stop the run.
fn tee(from: impl Read, mut to: impl Write, seen: &Mutex<String>) {
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while matches!(reader.read_until(b'\n', &mut line), Ok(1..)) {
        // Counting goes on even if the terminal is closed.
        let _ = to.write_all(&line);
        if let Ok(mut seen) = seen.lock() {
            seen.push_str(&String::from_utf8_lossy(&line));
        }
        line.clear();
    }
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
