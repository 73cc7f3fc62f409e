//! Qwen: chats.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "qwen", case: "tool-call", only: &[] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
