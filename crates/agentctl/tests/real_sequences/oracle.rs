//! What is true, from the fake model's log, the files that commands made, and the processes of the home. It asks
//! nothing of agentctl.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use agentctl_testkit::model::choose;
use agentctl_testkit::{Act, FakeModel, Reply};

use crate::ledger::{Ledger, Told, What, mark, marks, words};
use crate::world::World;

/// What the fake model heard and answered.
#[derive(Default)]
pub(crate) struct ModelLog {
    read: usize,
    /// What it answered to each request of a turn.
    pub(crate) replies: Vec<Act>,
    /// The messages, each with how many requests had been answered when it was first heard.
    pub(crate) heard: BTreeMap<u32, usize>,
}

impl ModelLog {
    pub(crate) fn read(&mut self, model: &FakeModel) {
        model.look(|all| {
            for seen in &all[self.read..] {
                let Some(ask) = seen.ask.as_ref().filter(|ask| !ask.is_side_request()) else { continue };
                for number in words(&seen.body.to_string()) {
                    self.heard.entry(number).or_insert(self.replies.len());
                }
                self.replies.push(choose(ask, &|_| Reply::text("ok")).act);
            }
            self.read = all.len();
        });
    }
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// No process runs it.
    Gone,
    Idle,
    Running,
    /// For a decision about the command with this number.
    Waiting(u32),
    /// Something must still happen before it can be said.
    Unclear,
    /// What is known allows more than one.
    Either,
}

/// The command that the model wanted run.
fn command(act: &Act) -> Option<&str> {
    match act {
        Act::Shell(command) => Some(command),
        Act::Tool { input, .. } => input["cmd"].as_str(),
        _ => None,
    }
}

pub(crate) fn truth(world: &mut World) -> Truth {
    if !world.is_alive() {
        return Truth::Gone;
    }
    if !world.scene.model.held_streams().is_empty() || world.has_tool() {
        return Truth::Running;
    }
    world.log.read(&world.scene.model);
    let (ledger, log) = (&world.ledger, &world.log);
    let Some(last) = log.replies.last() else { return Truth::Unclear };
    let at_rest = match command(last) {
        None => Truth::Idle,
        Some(command) => decision(ledger, log, command),
    };
    if at_rest == Truth::Idle && is_awaited(ledger, log) { Truth::Unclear } else { at_rest }
}

/// What becomes of a command that the model wanted last.
fn decision(ledger: &Ledger, log: &ModelLog, command: &str) -> Truth {
    let number = marks(command)[0];
    let asked_at = log.replies.len() - 1;
    for deed in &ledger.deeds {
        match (&deed.what, &deed.told) {
            (What::Interrupt(before), Some(told)) => match told {
                Told::Accepted(receipt) if receipt["interrupted"] == true && *before > asked_at => {
                    return Truth::Idle;
                }
                // It was asked while somebody interrupted, or nobody knows whether it was interrupted.
                _ if (*before..deed.replies_at_end).contains(&asked_at) && !told.is_no() => {
                    return Truth::Either;
                }
                Told::Unknown(_) if *before > asked_at => return Truth::Either,
                _ => {}
            },
            (What::Interrupt(_), None) => return Truth::Either,
            (What::Answer { named: None, .. }, Some(Told::Unknown(_))) => return Truth::Either,
            _ => {}
        }
    }
    for deed in ledger.answers(number) {
        match (&deed.what, &deed.told) {
            (What::Answer { allows: true, .. }, Some(Told::Accepted(_))) => return Truth::Unclear,
            (What::Answer { .. }, Some(Told::Accepted(_))) => return Truth::Idle,
            (_, None | Some(Told::Unknown(_))) => return Truth::Either,
            (_, Some(_)) if deed.is_half_done() => return Truth::Idle,
            (_, Some(_)) => {}
        }
    }
    if ledger.granted.as_deref() == Some(command) { Truth::Unclear } else { Truth::Waiting(number) }
}

/// Whether a message that was accepted must still reach the model.
fn is_awaited(ledger: &Ledger, log: &ModelLog) -> bool {
    ledger.deeds.iter().any(|deed| {
        let number = match (&deed.what, &deed.told) {
            (What::Say(number), None | Some(Told::Accepted(_))) => number,
            (What::Answer { reason: Some(number), .. }, None | Some(Told::Accepted(_))) => number,
            _ => return false,
        };
        !ledger.is_cut(deed) && !log.heard.contains_key(number)
    })
}

/// Compares everything that was told with everything that is true. Nothing is going on any more.
pub(crate) fn check(world: &mut World) {
    world.log.read(&world.scene.model);
    let made = made(world);
    let (ledger, log) = (&world.ledger, &world.log);
    let mut answered = BTreeSet::new();
    for deed in &ledger.deeds {
        let told = deed.told.as_ref().expect("every command has ended");
        let (number, is_sent) = match &deed.what {
            What::Say(number) => (*number, told.is_accepted()),
            What::Answer { reason: Some(number), .. } => (*number, told.is_accepted()),
            _ => (0, false),
        };
        let is_heard = log.heard.contains_key(&number);
        assert!(is_heard || !is_sent || ledger.is_cut(deed), "accepted and not heard: {:?} {told:?}", deed.what);
        assert!(!(is_heard && told.is_no()), "refused and heard: {:?} {told:?}", deed.what);
        if let What::Answer { allows, .. } = deed.what
            && told.is_accepted()
        {
            let request = deed.request().expect("a receipt names its request");
            assert!(answered.insert(request), "{request} was answered twice");
            let number = ledger.asked.get(request).copied();
            let is_made = number.is_some_and(|number| made.contains(&number));
            assert!(
                !allows || is_made || number.is_none() || ledger.is_cut(deed),
                "approved and not run: {number:?} {told:?}"
            );
        }
    }
    // Somebody answered before it was seen what waited, and does not know whether it was taken.
    let is_blind = ledger.deeds.iter().any(|deed| {
        matches!((&deed.what, &deed.told), (What::Answer { .. }, Some(Told::Unknown(_))))
            && deed.request().is_none()
    });
    let is_unseen = |number: &u32| !ledger.asked.values().any(|asked| asked == number);
    for number in made.into_iter().filter(|number| !(is_blind && is_unseen(number))) {
        let is_allowed = |deed: &crate::ledger::Deed| {
            matches!(deed.what, What::Answer { allows: true, .. })
                && matches!(deed.told, Some(Told::Accepted(_) | Told::Unknown(_)))
        };
        assert!(
            ledger.answers(number).any(is_allowed) || ledger.ever_granted.contains(&number),
            "{} was run and nobody allowed it",
            mark(number)
        );
    }
    for number in &ledger.selfish {
        let code = fs::read_to_string(world.scene.cwd.join(format!("self{number}"))).unwrap_or_default();
        assert!(code.is_empty() || code == "7\n", "an agent steered itself: {number} {code}");
    }
}

/// The commands that were run.
fn made(world: &World) -> BTreeSet<u32> {
    let names = fs::read_dir(&world.scene.cwd).unwrap();
    names.flat_map(|entry| marks(&entry.unwrap().file_name().to_string_lossy())).collect()
}
