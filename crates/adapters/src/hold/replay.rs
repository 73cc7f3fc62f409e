//! Replays recorded lines of held sessions into a machine.
#![allow(clippy::disallowed_methods, reason = "tests read their own recordings")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Protocol, Said, Step, Ticket, Verb};

/// One line of a recording: `<` from the agent, `>` to it.
pub(crate) struct Recorded {
    pub(crate) dir: String,
    pub(crate) line: Value,
}

/// A recording under `tests/recorded/holding`.
pub(crate) fn recording(name: &str) -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/recorded/holding");
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let recorded = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        Recorded { dir: line["dir"].as_str().unwrap().to_owned(), line: line["line"].take() }
    };
    text.lines().map(recorded).collect()
}

/// A machine that is replayed to, and all that it said and wrote.
pub(crate) struct Replay<P> {
    pub(crate) machine: P,
    /// How many bytes it hears at once, in turn. Empty: whole lines.
    pub(crate) cuts: Vec<usize>,
    /// Names in the recording, and those that the machine uses instead.
    pub(crate) names: HashMap<String, String>,
    pub(crate) told: String,
    next_cut: usize,
    tickets: u64,
}

impl<P: Protocol> Replay<P> {
    pub(crate) fn new(machine: P, cuts: &[usize]) -> Self {
        let (cuts, names) = (cuts.to_vec(), HashMap::new());
        let mut replay = Self { machine, cuts, names, told: String::new(), next_cut: 0, tickets: 0 };
        let step = replay.machine.open();
        replay.note(&step);
        replay
    }

    /// Lets the machine hear a line of the agent.
    pub(crate) fn hear(&mut self, line: &Value) {
        let mut line = line.to_string();
        for (recorded, ours) in &self.names {
            line = line.replace(recorded, ours);
        }
        line.push('\n');
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            let size = match self.cuts.get(self.next_cut % self.cuts.len().max(1)) {
                Some(size) => (*size).clamp(1, rest.len()),
                None => rest.len(),
            };
            self.next_cut += 1;
            let step = self.machine.hear(&rest[..size]);
            self.note(&step);
            rest = &rest[size..];
        }
    }

    /// Gives a verb, and returns what the machine wrote for it.
    pub(crate) fn tell(&mut self, verb: Verb) -> Vec<Value> {
        self.tickets += 1;
        let _ = writeln!(self.told, "tell {} {verb:?}", self.tickets);
        let step = self.machine.tell(Ticket(self.tickets), verb);
        self.note(&step);
        frames(&step)
    }

    /// The id of the pending request that contains these words.
    pub(crate) fn pending(&self, words: &str) -> Option<String> {
        self.machine.state().pending.iter().map(|one| one.id.clone()).find(|id| id.contains(words))
    }

    fn note(&mut self, step: &Step) {
        for said in &step.said {
            let _ = match said {
                Said::Asked(request) => writeln!(
                    self.told,
                    "  asked {:?} {:?} {:?} {:?}",
                    request.id,
                    request.kind,
                    request.summary,
                    request.options.iter().map(|one| (&one.label, one.kind)).collect::<Vec<_>>()
                ),
                other => writeln!(self.told, "  {other:?}"),
            };
        }
        for frame in frames(step) {
            let _ = writeln!(self.told, "  > {frame}");
        }
    }
}

/// The frames of a step: every line must be one JSON object.
pub(crate) fn frames(step: &Step) -> Vec<Value> {
    let text = std::str::from_utf8(&step.write).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let frames: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(frames.iter().all(Value::is_object), "{text}");
    frames
}

/// Whether a frame has all the members that the recorded one has, with values of the same types.
pub(crate) fn covers(ours: &Value, recorded: &Value) -> bool {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            recorded.iter().all(|(key, value)| ours.get(key).is_some_and(|own| covers(own, value)))
        }
        (Value::Array(ours), Value::Array(recorded)) => {
            ours.len() == recorded.len() && ours.iter().zip(recorded).all(|(own, value)| covers(own, value))
        }
        _ => std::mem::discriminant(ours) == std::mem::discriminant(recorded),
    }
}
