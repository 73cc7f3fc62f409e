//! Claude Code: transcripts, sub-agents and their notes.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded = Recorded { agent: "claude-code", case: "subagent", only: &[] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
