//! The two-way protocols of held agents: every cut of the same bytes gives the same words.
//!
//! A line of the input that begins with `!` is something that a caller wants; the others are what the agent writes.

use agentctl_adapters::hold::{Decision, Preference, Protocol, Step, Ticket, Verb};

use crate::{seeds, sizes};

/// What a caller wants, by the letter behind the mark.
fn verb(line: &[u8], machine: &dyn Protocol) -> Option<Verb> {
    let words = || String::from_utf8_lossy(line.get(2..).unwrap_or_default()).into_owned();
    let request = || machine.state().pending.first().map_or_else(words, |request| request.id.clone());
    Some(match line.get(1)? {
        b's' => Verb::Send { words: words(), as_command: false },
        b'c' => Verb::Send { words: words(), as_command: true },
        b'i' => Verb::Interrupt,
        b'a' => Verb::Answer { request: request(), decision: Decision::AllowOnce },
        b'A' => Verb::Answer { request: request(), decision: Decision::AllowAlways },
        b'd' => Verb::Answer { request: request(), decision: Decision::Deny { reason: Some(words()) } },
        b't' => Verb::Answer { request: request(), decision: Decision::Text(words()) },
        b'm' => Verb::Choose { what: Preference::Mode, id: words() },
        b'M' => Verb::Choose { what: Preference::Model, id: words() },
        _ => return None,
    })
}

/// Everything that the machine said and wrote, and its last state.
fn played(machine: &mut dyn Protocol, script: &[u8], sizes: &[u8]) -> (Step, String) {
    let mut all = machine.open();
    let mut add = |step: Step| {
        all.write.extend(step.write);
        all.said.extend(step.said);
    };
    let (mut tickets, mut next) = (0, 0);
    for line in script.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"!") {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if line == b"!w" {
                machine.withdraw(Ticket(tickets));
            } else if let Some(verb) = verb(line, machine) {
                tickets += 1;
                add(machine.tell(Ticket(tickets), verb));
            }
            continue;
        }
        let mut rest = line;
        while !rest.is_empty() {
            let size = sizes.get(next % sizes.len().max(1)).map_or(usize::MAX, |size| usize::from(*size) + 1);
            next += 1;
            let (piece, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            add(machine.hear(piece));
        }
    }
    all.write.extend(machine.close());
    let state = machine.state();
    assert!(state.pending.len() <= 5000, "{} requests wait", state.pending.len());
    (all, format!("{state:?} {:?}", machine.about()))
}

pub fn check<P: Protocol>(new: impl Fn() -> P, bytes: &[u8]) {
    let (sizes, script) = sizes(bytes);
    assert_eq!(played(&mut new(), script, &[]), played(&mut new(), script, sizes));
}

/// What was recorded of these agents, with what a caller might want in between.
pub fn seeds(agents: &[&str]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let verbs = ["!ssay it", "!a", "!d no", "!i", "!c/help", "!ttext", "!mplan", "!w", "!A"];
    for path in agents.iter().flat_map(|agent| seeds::below(&seeds::recorded().join(agent))) {
        let said = seeds::shortened(&seeds::conversation(&path, "<"));
        all.push([&[0][..], &said].concat());
        let mut mixed = vec![2, 3, 100];
        for (number, line) in said.split_inclusive(|byte| *byte == b'\n').enumerate() {
            mixed.extend_from_slice(line);
            mixed.extend_from_slice(verbs[number % verbs.len()].as_bytes());
            mixed.push(b'\n');
        }
        all.push(mixed);
    }
    all
}
