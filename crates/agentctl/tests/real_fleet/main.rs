//! A fleet in networks of its own: two machines over ssh, two over a cluster of three nats-servers, each with its daemon and
//! a live agent that begins and ends turns, and one fault after the other at random. Whatever happens to one machine, the others are heard on time, nothing is
//! concluded of its sessions, its row says why, and afterwards everything is told again: no event is lost or told twice
//! unless a `reset` says that something was missed.
//!
//! A short run has a few faults with a fixed seed. With `AGENTCTL_LONG` there are 200 with a new one, which is printed;
//! `AGENTCTL_FLEET_FAULTS` says another number, and `AGENTCTL_FLEET_SEED` repeats a run.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "tests start processes, tell what they did, and stop at surprises"
)]

#[path = "../real_sequences/dice.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod dice;
mod faults;
mod host;
#[path = "../daemon/house.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod house;
mod ledger;
mod network;
#[path = "../daemon/stand_in.rs"]
#[allow(dead_code, reason = "another test's room, of which a part is used")]
mod stand_in;
mod world;

use std::process::Command;

use agentctl_testkit::{new_uuid, skip, tools};
use dice::Dice;
use world::World;

/// How many faults a short run and a long one have.
const FEW: usize = 9;
const MANY: usize = 200;

/// Set inside the network that the test made.
const INSIDE: &str = "AGENTCTL_FLEET_INSIDE";

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn a_fleet_is_told_whatever_happens_to_some_of_it() {
    if std::env::var_os(INSIDE).is_none() {
        return outside();
    }
    let is_long = std::env::var_os("AGENTCTL_LONG").is_some();
    let new = || u64::from_str_radix(&new_uuid()[..8], 16).unwrap();
    let seed: u64 = variable("AGENTCTL_FLEET_SEED").unwrap_or_else(|| if is_long { new() } else { 7 });
    let count = variable("AGENTCTL_FLEET_FAULTS").unwrap_or(if is_long { MANY } else { FEW });
    eprintln!("AGENTCTL_FLEET_SEED={seed} AGENTCTL_FLEET_FAULTS={count}");
    let Some(mut world) = World::set() else { return };
    let mut dice = Dice::of(seed);
    // A short run has one of each kind that differs most, in an order by the seed; then anything may come.
    for round in 0..count {
        let fault = world.choose(round, is_long, &mut dice);
        eprintln!("round {round} of {count}: {fault:?}");
        world.round(round, &fault);
    }
    world.told.check_all(&world.hosts);
    eprintln!("{count} faults, {}", world.told.summary(&world.hosts));
}

/// Starts this test again in a network of its own, where links can be cut.
fn outside() {
    if !rustix::process::geteuid().is_root() {
        return skip("a network of the test's own needs root");
    }
    // What is installed on demand comes over the network that is left here.
    if let Err(reason) = tools::nats_server() {
        return skip(reason);
    }
    if let Err(reason) = tools::faketime() {
        eprintln!("no machine gets another clock: {reason}");
    }
    let tried = Command::new("unshare").args(["--net", "--mount", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        return skip("no network of the test's own can be made here");
    }
    let own = std::env::current_exe().unwrap();
    let mut again = Command::new("unshare");
    again.args(["--net", "--mount"]).arg(own).args([
        "--exact",
        "a_fleet_is_told_whatever_happens_to_some_of_it",
        "--nocapture",
    ]);
    let ended = again.env(INSIDE, "1").status().unwrap();
    assert!(ended.success(), "see above");
}
