//! Codex: rollouts.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "codex", case: "tagged", only: &[".jsonl"] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
