//! Endurance: agents come, work, wait, rest and die while everything around them fails at random. A ledger that was written by
//! whoever did the deeds knows the truth, and after every fault each answer and the stream of events are compared with it.
//!
//! A short run has a few hundred faults with a fixed seed. `cargo xtask chaos` has 10,000 with a new seed, which is printed;
//! `AGENTCTL_CHAOS_FAULTS` says another number, and `AGENTCTL_CHAOS_SEED` repeats a run.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests start processes, tell what they did, and stop at surprises"
)]

mod cast;
mod deeds;
#[path = "../real_sequences/dice.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod dice;
mod disks;
mod faults;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
mod oracle;
#[path = "../daemon/stand_in.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod stand_in;
mod stream;
mod world;
mod writes;

use std::process::Command;

use agentctl_testkit::{new_uuid, skip};
use dice::Dice;
use world::World;

/// How many faults a short run and a long one have.
const FEW: usize = 250;
const MANY: usize = 10_000;

/// Set where this test may mount disks of its own.
const INSIDE: &str = "AGENTCTL_CHAOS_INSIDE";

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn every_answer_is_true_whatever_fails() {
    if !agentctl_testkit::has_fault_points() {
        return skip("only debug builds have fault points");
    }
    if std::env::var_os(INSIDE).is_none() && outside() {
        return;
    }
    let is_long = std::env::var_os("AGENTCTL_LONG").is_some();
    let new = || u64::from_str_radix(&new_uuid()[..8], 16).unwrap();
    let seed: u64 = variable("AGENTCTL_CHAOS_SEED").unwrap_or_else(|| if is_long { new() } else { 18 });
    let count = variable("AGENTCTL_CHAOS_FAULTS").unwrap_or(if is_long { MANY } else { FEW });
    eprintln!("AGENTCTL_CHAOS_SEED={seed} AGENTCTL_CHAOS_FAULTS={count}");
    let mut world = World::set(std::env::var_os(INSIDE).is_some());
    let mut dice = Dice::of(seed);
    for round in 0..count {
        world.round(round, &mut dice);
    }
    world.end();
}

/// Starts this test again where it can mount disks of its own, and says whether it did.
fn outside() -> bool {
    let tried = Command::new("unshare").args(["--mount", "true"]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        skip("disks of the test's own need root; everything else is played");
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.arg("--mount").arg(own).args(["--exact", "every_answer_is_true_whatever_fails", "--nocapture"]);
    let ended = again.env(INSIDE, "1").status().unwrap();
    assert!(ended.success(), "see above");
    true
}
