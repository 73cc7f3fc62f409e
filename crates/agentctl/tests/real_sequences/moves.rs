//! One random sequence: what is done next depends on what is true now and on the dice.

use std::fs;

use agentctl_testkit::{Signal, until, until_seen};

use crate::faults;
use crate::ledger::{Told, What, mark, word};
use crate::oracle::{Truth, check, truth};
use crate::steer::ENDLESS;
use crate::world::{PATIENCE, World, always_command};

/// Something to do with a session that rests.
#[derive(Debug, Clone, Copy)]
enum AtRest {
    Say,
    Stream,
    Ask,
    AskTwo,
    Work,
    Always,
    Interrupt,
    AnswerNothing,
    AnswerOld,
    SteerItself,
    Fault,
    Stop,
}

/// Something to do with a session at work.
#[derive(Debug, Clone, Copy)]
enum AtWork {
    Say,
    SayBriefly,
    Interrupt,
    GoOn,
    AnswerNothing,
    AnswerOld,
    Fault,
    Stop,
}

/// Something to do with a session that waits for a decision.
#[derive(Debug, Clone, Copy)]
enum AtRequest {
    Approve,
    Deny,
    DenyBecause,
    Always,
    AnswerWords,
    AnswerOld,
    Twice,
    Contrary,
    ApproveAndInterrupt,
    Interrupt,
    Say,
    SayBriefly,
    Fault,
    Stop,
}

/// Plays one sequence and compares everything that was told with everything that is true.
pub(crate) fn play(world: &mut World) {
    if world.id.is_empty() {
        let number = world.ledger.number();
        world.start(&format!("[[text:first]] {}", word(number)), number);
    }
    for _ in 0..3 + world.dice.below(4) {
        if world.dice.percent(15) {
            in_a_hurry(world);
            continue;
        }
        let (now, shown) = world.agrees();
        match now {
            Truth::Gone => gone(world),
            Truth::Idle => at_rest(world),
            Truth::Running => at_work(world),
            Truth::Waiting(number) => {
                let request = shown["pending"][0]["id"].as_str().unwrap().to_owned();
                at_request(world, number, &request);
            }
            Truth::Either | Truth::Unclear => in_a_hurry(world),
        }
    }
    comes_to_rest(world);
    check(world);
}

/// Whatever is going on is brought to its end.
pub(crate) fn comes_to_rest(world: &mut World) {
    for _ in 0..20 {
        let (now, shown) = world.agrees();
        match now {
            Truth::Gone | Truth::Idle if world.ledger.unfinished().is_empty() => {
                if now == Truth::Gone {
                    world.stop();
                }
                return;
            }
            Truth::Gone | Truth::Idle => {
                for at in world.ledger.unfinished() {
                    world.finish(at);
                }
            }
            Truth::Running => goes_on(world),
            _ if shown["status"] == "waiting" => {
                let request = shown["pending"][0]["id"].as_str().unwrap().to_owned();
                let verb = world.dice.pick(&["approve", "deny"]);
                let at = world.begin_answer(verb, Some(&request), &[]);
                world.finish(at);
            }
            // A further turn makes it clear.
            _ if shown["status"] == "idle" => drop(world.say("[[text:at rest]]")),
            _ => drop(world.interrupt()),
        }
    }
    panic!("it does not come to rest");
}

/// Nobody looks first: whatever is told must be true all the same.
fn in_a_hurry(world: &mut World) {
    if truth(world) == Truth::Gone {
        return gone(world);
    }
    match world.dice.below(5) {
        0 => {
            let at = world.begin_say("[[text:hurried]]", &["--timeout", "5s"]);
            if world.dice.percent(50) {
                world.finish(at);
            }
        }
        1 => drop(world.interrupt()),
        2 => {
            let verb = world.dice.pick(&["approve", "deny"]);
            let at = world.begin_answer(verb, None, &[]);
            world.finish(at);
        }
        3 => answers_old(world),
        _ => {
            let number = world.ledger.number();
            let ask = (world.agent.asks)(&format!("touch {}", mark(number)));
            let at = world.begin_say(&format!("{ask} [[text:done]]"), &["--timeout", "5s"]);
            if world.dice.percent(50) {
                world.finish(at);
            }
        }
    }
}

/// Nobody runs it: everything is refused, until it is taken up again.
fn gone(world: &mut World) {
    match world.dice.below(4) {
        0 => {
            let told = world.say("[[text:nobody]]");
            assert!(!told.is_accepted(), "nobody is there: {told:?}");
        }
        1 => {
            let at = world.begin_answer("approve", None, &[]);
            assert!(!world.finish(at).is_accepted(), "nobody waits");
        }
        _ => {
            // What the last one left must not disturb the next one.
            world.stop();
            let number = world.ledger.number();
            if world.dice.percent(40) {
                let asked = world.ledger.number();
                let ask = (world.agent.asks)(&format!("touch {}", mark(asked)));
                world.start(&format!("{ask} [[text:resumed]] {}", word(number)), number);
                let (now, _) = world.agrees();
                // An agent may put a message that it never answered before the next one, so the model may want another
                // command, or none.
                assert!(matches!(now, Truth::Waiting(_) | Truth::Idle), "{now:?}");
                answers_old(world);
            } else {
                world.start(&format!("[[text:resumed]] {}", word(number)), number);
            }
        }
    }
}

#[track_caller]
fn accepted(told: &Told) {
    assert!(told.is_accepted(), "it would have been taken: {told:?}");
}

fn at_rest(world: &mut World) {
    let choice = world.dice.weighted(&[
        (4, AtRest::Say),
        (5, AtRest::Stream),
        (8, AtRest::Ask),
        (3, AtRest::AskTwo),
        (3, AtRest::Work),
        (2, AtRest::Always),
        (1, AtRest::Interrupt),
        (1, AtRest::AnswerNothing),
        (1, AtRest::AnswerOld),
        (1, AtRest::SteerItself),
        (1, AtRest::Fault),
        (1, AtRest::Stop),
    ]);
    world.note(format!("at rest: {choice:?}"));
    match choice {
        AtRest::Say => accepted(&world.say("[[text:said]]")),
        AtRest::Stream => {
            let gate = world.ledger.number();
            accepted(&world.say(&format!("[[hang:{gate}]]")));
        }
        AtRest::Ask => {
            let number = world.ledger.number();
            let ask = (world.agent.asks)(&format!("touch {}", mark(number)));
            accepted(&world.say(&format!("{ask} [[text:done]]")));
        }
        AtRest::AskTwo => {
            let (one, other) = (world.ledger.number(), world.ledger.number());
            let ask = |number| (world.agent.asks)(&format!("touch {}", mark(number)));
            let script = format!("{} {} [[text:done]]", ask(one), ask(other));
            accepted(&world.say(&script));
        }
        AtRest::Work => {
            let number = world.ledger.number();
            let ask = (world.agent.asks)(&format!("touch {}; {ENDLESS}", mark(number)));
            accepted(&world.say(&format!("{ask} [[text:done]]")));
        }
        AtRest::Always => {
            let again = world.ledger.granted.clone();
            let command = again.unwrap_or_else(|| always_command(world.ledger.number()));
            accepted(&world.say(&format!("{} [[text:done]]", (world.agent.asks)(&command))));
        }
        AtRest::Interrupt => {
            let told = world.interrupt();
            accepted(&told);
            assert_eq!(told.receipt().unwrap()["interrupted"], false, "no turn was open");
        }
        AtRest::AnswerNothing => answers_nothing(world),
        AtRest::AnswerOld => answers_old(world),
        AtRest::SteerItself => steers_itself(world),
        AtRest::Fault => faults::strike(world),
        AtRest::Stop => world.stop(),
    }
}

fn at_work(world: &mut World) {
    let choice = world.dice.weighted(&[
        (3, AtWork::Say),
        (3, AtWork::SayBriefly),
        (6, AtWork::Interrupt),
        (4, AtWork::GoOn),
        (1, AtWork::AnswerNothing),
        (1, AtWork::AnswerOld),
        (2, AtWork::Fault),
        (1, AtWork::Stop),
    ]);
    world.note(format!("at work: {choice:?}"));
    match choice {
        AtWork::Say => speaks_in_mid_turn(world),
        AtWork::SayBriefly => speaks_briefly(world),
        AtWork::Interrupt => {
            let told = world.interrupt();
            accepted(&told);
            assert_eq!(told.receipt().unwrap()["interrupted"], true, "a turn was open");
        }
        AtWork::GoOn => goes_on(world),
        AtWork::AnswerNothing => answers_nothing(world),
        AtWork::AnswerOld => answers_old(world),
        AtWork::Fault => faults::strike(world),
        AtWork::Stop => world.stop(),
    }
}

/// The turn reaches its end, or is ended.
fn goes_on(world: &mut World) {
    let held = world.scene.model.held_streams();
    for gate in &held {
        world.note(format!("open {gate}"));
        world.scene.model.open(gate);
    }
    if held.is_empty() {
        world.interrupt();
    }
}

fn at_request(world: &mut World, number: u32, request: &str) {
    let choice = world.dice.weighted(&[
        (6, AtRequest::Approve),
        (3, AtRequest::Deny),
        (3, AtRequest::DenyBecause),
        (3, AtRequest::Always),
        (1, AtRequest::AnswerWords),
        (4, AtRequest::AnswerOld),
        (2, AtRequest::Twice),
        (2, AtRequest::Contrary),
        (2, AtRequest::ApproveAndInterrupt),
        (3, AtRequest::Interrupt),
        (2, AtRequest::Say),
        (2, AtRequest::SayBriefly),
        (3, AtRequest::Fault),
        (1, AtRequest::Stop),
    ]);
    world.note(format!("at request {number}: {choice:?}"));
    let named = Some(request).filter(|_| world.dice.percent(60));
    match choice {
        AtRequest::Approve => {
            let at = world.begin_answer("approve", named, &[]);
            approved(world, at, number);
        }
        AtRequest::Deny => {
            let at = world.begin_answer("deny", named, &[]);
            accepted(&world.finish(at));
        }
        AtRequest::DenyBecause => {
            let reason = world.ledger.number();
            let words = format!("not now {}", word(reason));
            let what = What::Answer {
                named: Some(request.to_owned()),
                allows: false,
                always: false,
                reason: Some(reason),
            };
            // Where the reason is the next message, it may have to wait for the end of the turn.
            world.begin(what, "deny", &["--message", &words, "--request", request]);
            until_seen(PATIENCE, "the end of the request", || {
                let shown = world.shown();
                let is_there = shown["pending"].as_array().unwrap().iter().any(|one| one["id"] == request);
                if is_there { Err(format!("{shown:#}")) } else { Ok(()) }
            });
        }
        // Only a command that may be repeated is allowed for ever.
        AtRequest::Always => {
            let is_ours = world.log.replies.last().is_some_and(|act| format!("{act:?}").contains("mkdir"));
            let at = world.begin_answer("approve", named, if is_ours { &["--always"] } else { &[] });
            if is_ours && !world.agent.has_always {
                assert!(
                    world.finish(at).is_refused(),
                    "it reaches further than the session, or is not offered"
                );
            } else {
                approved(world, at, number);
            }
        }
        AtRequest::AnswerWords => {
            let told = world.run(
                What::Answer { named: named.map(str::to_owned), allows: false, always: false, reason: None },
                "answer",
                &["some words"],
            );
            assert!(told.is_refused(), "it asked for a decision: {told:?}");
        }
        AtRequest::AnswerOld => answers_old(world),
        AtRequest::Twice | AtRequest::Contrary => {
            let other = if matches!(choice, AtRequest::Twice) { "approve" } else { "deny" };
            let mut both = [world.begin_answer("approve", named, &[]), world.begin_answer(other, named, &[])];
            if world.dice.percent(50) {
                both.reverse();
            }
            let told = both.map(|at| world.finish(at));
            let count = told.iter().filter(|told| told.is_accepted()).count();
            assert_eq!(count, 1, "one of two is taken: {told:#?}");
        }
        AtRequest::ApproveAndInterrupt => {
            let first = world.begin_answer("approve", named, &[]);
            let second = world.begin_interrupt(&[]);
            world.finish(first);
            world.finish(second);
        }
        AtRequest::Interrupt => {
            let told = world.interrupt();
            accepted(&told);
            assert_eq!(told.receipt().unwrap()["interrupted"], true, "a turn was open");
            let at = world.begin_answer("approve", Some(request), &[]);
            assert!(world.finish(at).is_refused(), "it is gone");
        }
        AtRequest::Say => speaks_in_mid_turn(world),
        AtRequest::SayBriefly => speaks_briefly(world),
        AtRequest::Fault => faults::strike(world),
        AtRequest::Stop => world.stop(),
    }
}

/// The approval is taken, and the command is run.
fn approved(world: &mut World, at: usize, number: u32) {
    accepted(&world.finish(at));
    if world.dice.percent(70) {
        let file = world.scene.cwd.join(mark(number));
        until(PATIENCE, "the command that was approved", || file.exists().then_some(()));
    }
}

/// A message that the agent queues, or whose sender waits.
fn speaks_in_mid_turn(world: &mut World) {
    let at = world.begin_say("[[text:in between]]", &[]);
    if world.agent.queues {
        accepted(&world.finish(at));
    }
}

/// A message whose sender does not wait for long.
fn speaks_briefly(world: &mut World) {
    let at = world.begin_say("[[text:brief]]", &["--timeout", "500ms"]);
    world.finish(at);
}

/// Nothing waits, so nothing is answered.
fn answers_nothing(world: &mut World) {
    let verb = world.dice.pick(&["approve", "deny"]);
    let at = world.begin_answer(verb, None, &[]);
    assert!(world.finish(at).is_refused(), "nothing waits");
}

/// An answer to a request of before, or to one that never was, reaches nobody.
pub(crate) fn answers_old(world: &mut World) {
    let shown = world.shown();
    let waits = |id: &str| shown["pending"].as_array().unwrap().iter().any(|one| one["id"] == id);
    let old: Vec<_> = world.ledger.asked.keys().filter(|id| !waits(id)).cloned().collect();
    let id = if old.is_empty() { "another".to_owned() } else { old[world.dice.below(old.len())].clone() };
    let verb = world.dice.pick(&["approve", "deny"]);
    let at = world.begin_answer(verb, Some(&id), &[]);
    let told = world.finish(at);
    // One that has just been asked for the first time in a hurry is not old.
    assert!(!told.is_accepted(), "{id} was not there: {told:?}");
}

/// A command of the agent waits for a request of its own session and tries to decide it.
fn steers_itself(world: &mut World) {
    let (number, other) = (world.ledger.number(), world.ledger.number());
    let program = env!("CARGO_BIN_EXE_agentctl");
    let verb = world.dice.pick(&["approve", "deny", "interrupt", "stop"]);
    let tries = format!("{program} {verb} {} > said{number} 2>&1; echo $? > self{number}", world.id);
    world.ledger.selfish.push(number);
    let is_detached = world.dice.percent(50);
    let command = if is_detached {
        let waits = format!("until [ -e go{number} ]; do sleep 0.1; done; {tries}");
        format!("touch {}; setsid sh -c '{waits}' > /dev/null 2>&1 < /dev/null &", mark(number))
    } else {
        format!("touch {}; {tries}", mark(number))
    };
    let ask = world.agent.asks;
    let second = ask(&format!("touch {}", mark(other)));
    accepted(&world.say(&format!("{} {second} [[text:done]]", ask(&command))));
    if world.agrees().0 != Truth::Waiting(number) {
        return;
    }
    let at = world.begin_answer("approve", None, &[]);
    approved(world, at, number);
    if world.agrees().0 != Truth::Waiting(other) {
        return;
    }
    world.release_waiters();
    let file = world.scene.cwd.join(format!("self{number}"));
    let is_there = |world: &World| {
        world.scene.processes().iter().any(|(_, line)| line.contains(&format!("self{number}")))
    };
    until(PATIENCE, "the end of the attempt", || (file.exists() || !is_there(world)).then_some(()));
    let code = fs::read_to_string(&file).unwrap_or_default();
    world.note(format!("the attempt to {verb} ended with {code:?}"));
    assert!(is_detached || code == "7\n", "{code}");
    assert_eq!(world.agrees().0, Truth::Waiting(other), "it still waits");
}

/// Stops a process for a moment in which somebody speaks.
pub(crate) fn freezes(world: &mut World, pids: &[u32]) {
    for pid in pids {
        world.signal(*pid, Signal::STOP);
    }
    let at = match world.dice.below(3) {
        0 => world.begin_say("[[text:to the frozen]]", &["--timeout", "1s"]),
        1 => world.begin_answer("approve", None, &["--timeout", "1s"]),
        _ => world.begin_interrupt(&["--timeout", "1s"]),
    };
    world.finish(at);
    for pid in pids {
        world.signal(*pid, Signal::CONT);
    }
}
