//! Pi, held: its RPC.

#![no_main]

use agentctl_adapters::agents::pi::protocol::Rpc;
use agentctl_fuzz::machines::{check, seeds};

agentctl_fuzz::target!(|bytes: &[u8]| check(Rpc::new, bytes), seeds(&["holding/pi"]));
