//! Pi Rust: sessions.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "pi-rust", case: "written-by-hand", only: &[] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
