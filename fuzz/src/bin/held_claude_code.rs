//! Claude Code, held: its stream of JSON.

#![no_main]

use agentctl_adapters::agents::claude_code::protocol::StreamJson;
use agentctl_fuzz::machines::{check, seeds};

agentctl_fuzz::target!(|bytes: &[u8]| check(|| StreamJson::new("s", "n"), bytes), seeds(&["holding/claude"]));
