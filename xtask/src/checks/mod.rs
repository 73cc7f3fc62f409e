//! `cargo xtask test`: everything that must pass before a change is merged. CI runs exactly this.

mod minutes;
mod steps;
mod tally;
mod unused;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum as _;

use self::minutes::Minutes;
pub(crate) use self::steps::Step;
use self::steps::{Done, Setting};
use self::tally::Tally;
use crate::workspace;

/// Runs all steps, or only the named ones, stops at the first failure, and prints a summary.
pub(crate) fn run(only: &[Step], long: bool, program: Option<&Path>) -> anyhow::Result<ExitCode> {
    let program = program.map(Path::canonicalize).transpose().context("cannot find the program to test")?;
    let scratch = tempfile::tempdir()?;
    let skip_log = scratch.path().join("skips");
    let setting = Setting { long, skip_log: &skip_log, program: program.as_deref() };
    let mut sum = Tally::default();
    let mut skipped = Vec::new();
    let mut minutes = Minutes::default();
    let mut failure = None;
    for step in Step::value_variants().iter().filter(|step| only.is_empty() || only.contains(step)) {
        let name = step.name();
        println!("==> {name}");
        let (start, groups) = (Instant::now(), minutes.len());
        let done = step.run(&setting, &mut minutes);
        // A step that consists of groups has added them itself.
        if minutes.len() == groups {
            minutes.add(&name, start.elapsed());
        }
        match done {
            Ok(Done::Passed) => {}
            Ok(Done::Counted(tally)) => sum += tally,
            Ok(Done::Skipped(reason)) => {
                println!("SKIPPED: {name}: {reason}");
                skipped.push(format!("{name}: {reason}"));
            }
            Ok(Done::Failed(tally, reason)) => {
                sum += tally;
                failure = Some((name, reason));
                break;
            }
            Err(error) => {
                failure = Some((name, format!("{error:#}")));
                break;
            }
        }
    }

    let steps_skipped = skipped.len();
    let (tests_skipped, lines) = tally::skips(&std::fs::read_to_string(&skip_log).unwrap_or_default());
    sum.move_skipped(tests_skipped);
    sum.skipped += steps_skipped;
    skipped.extend(lines);
    println!("\n==> summary");
    let contributing = std::fs::read_to_string(workspace::root().join("CONTRIBUTING.md"));
    print!("{}", minutes.report(&contributing.unwrap_or_default(), long));
    for reason in &skipped {
        println!("SKIPPED: {reason}");
    }
    if let Some((name, reason)) = &failure {
        println!("FAILED: step {name}: {reason}");
        println!("        again: cargo xtask test --only {name}");
        // A failed step without tests (formatting, lints) also counts, so that the last line shows a failure.
        sum.failed = sum.failed.max(1);
    }
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    Ok(if failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
