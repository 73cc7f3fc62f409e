//! What the test did and what it was told: one side of the oracle. The other is what the fake model heard.

use std::collections::BTreeMap;
use std::fmt;

use agentctl_testkit::Background;
use serde_json::Value;

/// What a command asked for.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A message with this number in it.
    Say(u32),
    Answer {
        named: Option<String>,
        allows: bool,
        /// For the rest of the session.
        always: bool,
        /// The number in the reason of a denial.
        reason: Option<u32>,
    },
    Interrupt,
    Stop,
}

/// What a command said.
#[derive(Clone)]
pub(crate) enum Told {
    Accepted(Value),
    /// It said no.
    Refused(String),
    /// It was taken back in time.
    Withdrawn(String),
    /// It does not know.
    Unknown(String),
}

impl Told {
    pub(crate) fn read(code: Option<i32>, stdout: &str, stderr: &str) -> Self {
        match code {
            Some(0) => Self::Accepted(serde_json::from_str(stdout).expect("a receipt as JSON")),
            // Several wait, and none was named: nothing was done.
            Some(4 | 7) => Self::Refused(stderr.to_owned()),
            Some(124) => Self::Withdrawn(stderr.to_owned()),
            Some(1) => Self::Unknown(stderr.to_owned()),
            other => panic!("a surprising end {other:?}: {stdout} {stderr}"),
        }
    }

    pub(crate) fn receipt(&self) -> Option<&Value> {
        match self {
            Self::Accepted(receipt) => Some(receipt),
            _ => None,
        }
    }

    pub(crate) fn is_accepted(&self) -> bool {
        self.receipt().is_some()
    }

    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// Whether the agent certainly never gets it.
    pub(crate) fn is_no(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Withdrawn(_))
    }
}

/// Without the session that a receipt shows.
impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, words) = match self {
            Self::Accepted(receipt) => {
                let mut receipt = receipt.clone();
                if let Some(receipt) = receipt.as_object_mut() {
                    let left_out = ["id", "adapter", "answered", "session", "sessions"];
                    receipt.retain(|name, _| !left_out.contains(&name.as_str()));
                }
                return write!(f, "Accepted({receipt})");
            }
            Self::Refused(words) => ("Refused", words),
            Self::Withdrawn(words) => ("Withdrawn", words),
            Self::Unknown(words) => ("Unknown", words),
        };
        f.debug_tuple(name).field(words).finish()
    }
}

/// One command, from its start to its end.
pub(crate) struct Deed {
    pub(crate) what: What,
    pub(crate) began: u64,
    pub(crate) command: Option<Background>,
    pub(crate) told: Option<Told>,
    /// The request that was shown when it began, where only one was.
    pub(crate) shown: Option<String>,
    /// How many requests the model had answered when it began, and when it ended.
    pub(crate) replies: (usize, usize),
}

impl Deed {
    /// The request that was answered, as far as it is known: the one of the receipt, the one that was named, or the only
    /// one there was.
    pub(crate) fn request(&self) -> Option<&str> {
        let What::Answer { named, .. } = &self.what else { return None };
        let receipt = self.told.as_ref().and_then(Told::receipt);
        receipt.and_then(|receipt| receipt["request"].as_str()).or(named.as_deref()).or(self.shown.as_deref())
    }

    /// The reason failed, but the denial itself was taken.
    pub(crate) fn is_half_done(&self) -> bool {
        let Some(Told::Refused(words) | Told::Withdrawn(words) | Told::Unknown(words)) = &self.told else {
            return false;
        };
        words.contains("the denial was accepted")
    }
}

/// Everything that happened in one home.
#[derive(Default)]
pub(crate) struct Ledger {
    clock: u64,
    numbers: u32,
    pub(crate) deeds: Vec<Deed>,
    /// The requests that were shown, by their id, with the number of the command that they were about.
    pub(crate) asked: BTreeMap<String, u32>,
    /// What waited when it was last looked at.
    pub(crate) shown: Vec<String>,
    /// Since when something may have cut short whatever was going on.
    pub(crate) last_cut: u64,
    /// The command that is allowed for as long as the agent lives.
    pub(crate) granted: Option<String>,
    /// The numbers of all commands that were ever allowed always.
    pub(crate) ever_granted: Vec<u32>,
    /// The numbers of commands with which the agent tried to steer itself.
    pub(crate) selfish: Vec<u32>,
}

impl Ledger {
    pub(crate) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A number that was never used before.
    pub(crate) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    /// Whatever was begun before this moment may have been cut short.
    pub(crate) fn cut(&mut self) {
        self.last_cut = self.tick();
    }

    pub(crate) fn is_cut(&self, deed: &Deed) -> bool {
        self.last_cut >= deed.began
    }

    /// Notes what a request is about. An id never names two.
    pub(crate) fn note_request(&mut self, id: &str, summary: &str) {
        let numbers = marks(summary);
        let number = *numbers.first().unwrap_or_else(|| panic!("a request about nothing of ours: {summary}"));
        let before = *self.asked.entry(id.to_owned()).or_insert(number);
        assert_eq!(before, number, "the id {id} named two requests");
    }

    /// Whether an interrupt was told to have ended a turn.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.deeds.iter().any(|deed| {
            let receipt = deed.told.as_ref().and_then(Told::receipt);
            matches!(deed.what, What::Interrupt)
                && receipt.is_some_and(|receipt| receipt["interrupted"] == true)
        })
    }

    pub(crate) fn unfinished(&self) -> Vec<usize> {
        (0..self.deeds.len()).filter(|at| self.deeds[*at].told.is_none()).collect()
    }
}

/// How a message is recognised wherever it turns up.
pub(crate) fn word(number: u32) -> String {
    format!("zq{number}q")
}

/// The file that a command makes.
pub(crate) fn mark(number: u32) -> String {
    format!("mk{number}k")
}

pub(crate) fn words(text: &str) -> Vec<u32> {
    numbers(text, "zq", 'q')
}

pub(crate) fn marks(text: &str) -> Vec<u32> {
    numbers(text, "mk", 'k')
}

fn numbers(text: &str, before: &str, after: char) -> Vec<u32> {
    let number = |rest: &str| rest.split_once(after)?.0.parse().ok();
    text.split(before).skip(1).filter_map(number).collect()
}
