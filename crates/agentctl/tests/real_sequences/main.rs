//! Random sequences of verbs and faults on held sessions of real agents, against an oracle.
//!
//! A sequence is a handful of commands: messages, answers (in time, late, twice, to an old request), interrupts, and
//! processes that are killed or stopped in between. Afterwards everything that agentctl told is compared with what the
//! fake model heard, with the files that commands made, and with the processes that are left.
//!
//! Short runs have fixed seeds. With `AGENTCTL_LONG`, `AGENTCTL_SEQUENCES` says how many (500), and the seeds are new
//! ones each time. A failure prints its seed; `AGENTCTL_SEQUENCE_SEED` repeats that sequence alone, or several in
//! one home (`1,2,3`), and `AGENTCTL_SEQUENCE_TRACE` prints each step at once.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests start processes, tell what they did, and stop at surprises"
)]

mod agents;
mod dice;
mod faults;
mod killed;
mod ledger;
mod moves;
mod oracle;
#[path = "../steer/mod.rs"]
mod steer;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use agentctl_testkit::new_uuid;
use agents::Agent;
use dice::Dice;
use world::World;

/// Sequences that share one home; later ones then have a longer conversation behind them.
const PER_HOME: usize = 15;

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error}")))
}

/// The seeds of this run, of which a short one has so many.
fn seeds(few: u64) -> Vec<u64> {
    if let Ok(seeds) = std::env::var("AGENTCTL_SEQUENCE_SEED") {
        return seeds.split(',').map(|seed| seed.parse().expect("a seed")).collect();
    }
    let is_long = std::env::var_os("AGENTCTL_LONG").is_some();
    let count = variable("AGENTCTL_SEQUENCES").unwrap_or(if is_long { 500 } else { few });
    let base = if is_long { u64::from_str_radix(&new_uuid()[..8], 16).unwrap() } else { 0 };
    let mut dice = Dice::of(base);
    (0..count).map(|_| dice.roll() >> 16).collect()
}

/// Plays all sequences. One that fails is told with its seed, and the next one begins in a new home.
fn plays(agent: Agent) {
    let seeds = seeds(agent.few);
    let (mut world, mut failed): (Option<World>, Vec<u64>) = (None, Vec::new());
    for (count, seed) in seeds.iter().enumerate() {
        if count % PER_HOME == 0 {
            if let Some(world) = &mut world {
                end(world, &mut failed, *seed);
            }
            world = None;
        }
        if world.is_none() {
            world = World::new(agent, seed % 2 == 0);
        }
        let Some(now) = &mut world else { return };
        now.dice = Dice::of(*seed);
        now.note(format!("sequence {count} with seed {seed}"));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| moves::play(now))) {
            tell(now, &panic, *seed);
            failed.push(*seed);
            world = None;
        }
    }
    if let Some(world) = &mut world {
        end(world, &mut failed, *seeds.last().unwrap());
    }
    println!("{}: {} sequences, {} failed", agent.adapter, seeds.len(), failed.len());
    assert!(failed.is_empty(), "{}: AGENTCTL_SEQUENCE_SEED of those that failed: {failed:?}", agent.adapter);
}

/// The last session of a home ends without a trace.
fn end(world: &mut World, failed: &mut Vec<u64>, seed: u64) {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        world.stop();
        oracle::check(world);
    }));
    if let Err(panic) = ended {
        tell(world, &panic, seed);
        failed.push(seed);
    }
}

fn tell(world: &World, panic: &Box<dyn std::any::Any + Send>, seed: u64) {
    let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    println!("==== {} failed with seed {seed}:\n{}", world.agent.adapter, words.unwrap_or("?"));
    println!("---- what was done:\n{}\n====", world.trace.join("\n"));
}

macro_rules! protocols {
    ($($name:ident: $agent:expr,)*) => {$(
        #[test]
        fn $name() {
            plays($agent);
        }
    )*};
}

protocols! {
    claude_code_tells_the_truth: agents::CLAUDE,
    codex_tells_the_truth: agents::CODEX,
    opencode_tells_the_truth: agents::OPENCODE,
    pi_tells_the_truth: agents::PI,
    gemini_tells_the_truth: agents::GEMINI,
    qwen_tells_the_truth: agents::QWEN,
    copilot_tells_the_truth: agents::COPILOT,
    kimi_tells_the_truth: agents::KIMI,
}
