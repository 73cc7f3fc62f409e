//! OpenCode before its database: sessions, messages and parts as files.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "opencode", case: "v1.18-over-json", only: &["storage/"] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
