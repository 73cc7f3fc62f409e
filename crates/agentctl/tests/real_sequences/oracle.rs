//! What is true, from the fake model's log, the files that commands made, and the processes of the home. It asks
//! nothing of agentctl.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use agentctl_testkit::model::choose;
use agentctl_testkit::{Act, FakeModel, Reply};

use crate::ledger::{Deed, Ledger, Told, What, mark, marks, words};
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
    let at_rest = match log.replies.last().map(command) {
        // The first turn may be interrupted before the model hears of it.
        None if ledger.is_interrupted() => Truth::Idle,
        None => Truth::Unclear,
        Some(None) => Truth::Idle,
        Some(Some(command)) => decision(ledger, log, command),
    };
    if at_rest == Truth::Idle && is_awaited(ledger, log) { Truth::Unclear } else { at_rest }
}

/// What becomes of a command that the model wanted last.
fn decision(ledger: &Ledger, log: &ModelLog, command: &str) -> Truth {
    let number = marks(command)[0];
    let asked_at = log.replies.len() - 1;
    // What was done before it was asked is about something else.
    let later: Vec<&Deed> =
        ledger.deeds.iter().filter(|deed| deed.told.is_none() || deed.replies.1 > asked_at).collect();
    for deed in later.iter().filter(|deed| matches!(deed.what, What::Interrupt)) {
        match &deed.told {
            Some(Told::Accepted(receipt)) if receipt["interrupted"] == false => {}
            // It was asked before, or while somebody interrupted.
            Some(Told::Accepted(_)) if deed.replies.0 > asked_at => return Truth::Idle,
            Some(Told::Refused(_) | Told::Withdrawn(_)) => {}
            _ => return Truth::Either,
        }
    }
    for deed in later {
        let What::Answer { allows, .. } = deed.what else { continue };
        match &deed.told {
            None if deed.replies.0 <= asked_at => return Truth::Either,
            Some(Told::Unknown(_)) if deed.request().is_none() => return Truth::Either,
            _ if !is_about(ledger, deed, number) => {}
            Some(Told::Accepted(_)) if allows => return Truth::Unclear,
            Some(Told::Accepted(_)) => return Truth::Idle,
            None | Some(Told::Unknown(_)) => return Truth::Either,
            Some(_) if deed.is_half_done() => return Truth::Idle,
            Some(_) => {}
        }
    }
    if ledger.granted.as_deref() == Some(command) { Truth::Unclear } else { Truth::Waiting(number) }
}

fn is_about(ledger: &Ledger, deed: &Deed, number: u32) -> bool {
    deed.request().is_some_and(|request| ledger.asked.get(request) == Some(&number))
}

/// Whether a message that was accepted must still reach the model.
fn is_awaited(ledger: &Ledger, log: &ModelLog) -> bool {
    ledger.deeds.iter().any(|deed| {
        let (What::Say(number) | What::Answer { reason: Some(number), .. }) = &deed.what else {
            return false;
        };
        let may_come = matches!(deed.told, None | Some(Told::Accepted(_)));
        may_come && !ledger.is_cut(deed) && !log.heard.contains_key(number)
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
            What::Say(number) | What::Answer { reason: Some(number), .. } => (*number, told.is_accepted()),
            _ => (0, false),
        };
        let is_heard = log.heard.contains_key(&number);
        assert!(
            is_heard || !is_sent || ledger.is_cut(deed),
            "accepted and not heard: {:?} {told:?}",
            deed.what
        );
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
        let is_allowed = |deed: &Deed| {
            matches!(deed.what, What::Answer { allows: true, .. })
                && matches!(deed.told, Some(Told::Accepted(_) | Told::Unknown(_)))
        };
        assert!(
            ledger.deeds.iter().any(|deed| is_about(ledger, deed, number) && is_allowed(deed))
                || ledger.ever_granted.contains(&number),
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
