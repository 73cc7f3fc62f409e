//! Kimi: the wire of a session and its state.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded =
    Recorded { agent: "kimi", case: "sessions-of-all-kinds", only: &["wd_work5", "workspaces.json"] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
