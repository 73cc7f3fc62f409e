//! Pi: sessions with branches.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "pi", case: "two-writers-branch", only: &[] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
