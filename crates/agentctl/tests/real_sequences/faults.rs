//! Processes that are killed or stopped in the middle of something.

use std::time::{Duration, Instant};

use agentctl_testkit::Signal;

use crate::moves::freezes;
use crate::oracle::Truth;
use crate::oracle::truth;
use crate::world::{PATIENCE, World};

/// An agent that was asked to end, or has lost its runner, may take so long before it is stopped.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
enum Fault {
    FreezeAgent,
    FreezeRunner,
    KillAgent,
    EndAgent,
    KillRunner,
    KillDaemon,
}

pub(crate) fn strike(world: &mut World) {
    let fault = world.dice.weighted(&[
        (2, Fault::FreezeAgent),
        (1, Fault::FreezeRunner),
        (2, Fault::KillAgent),
        (1, Fault::EndAgent),
        (2, Fault::KillRunner),
        (2, Fault::KillDaemon),
    ]);
    world.note(format!("fault: {fault:?}"));
    let own: Vec<u32> = world.own.iter().copied().collect();
    match fault {
        Fault::FreezeAgent => freezes(world, &own),
        Fault::FreezeRunner => {
            let runner: Vec<u32> = world.runner.into_iter().collect();
            freezes(world, &runner);
        }
        Fault::KillAgent | Fault::EndAgent => {
            let signal = if matches!(fault, Fault::KillAgent) { Signal::KILL } else { Signal::TERM };
            let pid = own[world.dice.below(own.len())];
            world.ledger.cut();
            world.signal(pid, signal);
            ends(world);
        }
        Fault::KillRunner => kills_runner(world),
        Fault::KillDaemon => {
            if let Some(mut daemon) = world.daemon.take() {
                daemon.signal(Signal::KILL);
                daemon.wait(PATIENCE);
                world.ledger.cut();
                if world.dice.percent(70) {
                    world.start_daemon();
                }
            } else {
                world.start_daemon();
            }
        }
    }
}

/// Whether the agent ends or goes on without its runner is its own affair. It never does what nobody allowed.
fn kills_runner(world: &mut World) {
    let Some(runner) = world.runner.take() else { return };
    if world.agent.is_served {
        world.signal(runner, Signal::KILL);
        world.wait_for_end(runner);
        return;
    }
    world.ledger.cut();
    world.signal(runner, Signal::KILL);
    world.wait_for_end(runner);
    let at = world.begin_answer("approve", None, &[]);
    assert!(!world.finish(at).is_accepted(), "nobody holds it");
    ends(world);
}

/// Waits for the end of the agent. What it still works on comes to an end, or is stopped.
fn ends(world: &mut World) {
    for gate in world.scene.model.held_streams() {
        world.scene.model.open(&gate);
    }
    let deadline = Instant::now() + ENDS_WITHIN;
    while truth(world) != Truth::Gone {
        // Codex waits for the end of its turn, and a tool may have none.
        if world.has_tool() || Instant::now() > deadline {
            world.note("it does not end by itself");
            world.stop();
            return;
        }
        std::thread::sleep(PAUSE);
    }
    world.ledger.cut();
}
