//! Agents on a line, whose runner or who themselves are killed while they wait for a decision. (Claude Code goes on
//! without its runner, and the servers of Codex and OpenCode stay: `real_hold` and `real_hold_servers`.)

use agentctl_testkit::{Signal, skip};

use crate::agents::{self, Agent};
use crate::ledger::{mark, word};
use crate::moves::comes_to_rest;
use crate::oracle::{Truth, check};
use crate::world::World;

/// Who is killed.
#[derive(Clone, Copy)]
enum Victim {
    Runner,
    Agent,
}

/// Starts the session, or takes it up again, with a request for a decision; kills; and looks at what is told then.
fn dies_while_it_waits(world: &mut World, victim: Victim) {
    let (number, asked) = (world.ledger.number(), world.ledger.number());
    let ask = (world.agent.asks)(&format!("touch {}", mark(asked)));
    world.start(&format!("{ask} [[text:went on]] {}", word(number)), number);
    let (now, shown) = world.agrees();
    assert!(matches!(now, Truth::Waiting(_)), "{now:?}");
    let request = shown["pending"][0]["id"].as_str().unwrap().to_owned();
    world.ledger.cut();
    match victim {
        Victim::Runner => world.signal(world.runner.unwrap(), Signal::KILL),
        Victim::Agent => {
            for pid in world.own.clone() {
                world.signal(pid, Signal::KILL);
            }
        }
    }
    // What waited is gone, and nobody can be answered.
    let (now, shown) = world.agrees();
    assert_eq!(now, Truth::Gone, "{shown:#}");
    assert_ne!(shown["outcome"], "completed", "nobody answered: {shown:#}");
    let at = world.begin_answer("approve", Some(&request), &[]);
    let late = world.finish(at);
    assert!(late.is_refused(), "{late:?}");
    world.is_silent();
    check(world);
}

fn survives_kills(agent: Agent) {
    let Some(mut world) = World::new(agent, false) else { return };
    let world = &mut world;
    dies_while_it_waits(world, Victim::Runner);
    dies_while_it_waits(world, Victim::Agent);
    let number = world.ledger.number();
    world.start(&format!("[[text:taken up]] {}", word(number)), number);
    // An agent may put the messages that it never answered before this one, and ask once more.
    comes_to_rest(world);
    world.stop();
    check(world);
}

/// Those whose start takes long.
fn survives_kills_if_long(agent: Agent) {
    if std::env::var_os("AGENTCTL_LONG").is_none() {
        return skip(format!("kills of {} are for long runs", agent.adapter));
    }
    survives_kills(agent);
}

#[test]
fn pi_is_killed_while_it_waits() {
    survives_kills(agents::PI);
}

#[test]
fn kimi_is_killed_while_it_waits() {
    survives_kills(agents::KIMI);
}

#[test]
fn gemini_is_killed_while_it_waits() {
    survives_kills_if_long(agents::GEMINI);
}

#[test]
fn qwen_is_killed_while_it_waits() {
    survives_kills_if_long(agents::QWEN);
}

#[test]
fn copilot_is_killed_while_it_waits() {
    survives_kills_if_long(agents::COPILOT);
}
