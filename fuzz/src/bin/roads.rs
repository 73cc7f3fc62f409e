//! Other machines: the greeting over ssh, and messages of the bus.

#![no_main]

use agentctl_hosts::nats::message::{PartHead, RequestHead, RosterEntry, decode, decode_answer};

/// A greeting is found at the same place however much has arrived behind it, and never in less than all of it.
fn check(bytes: &[u8]) {
    let found = agentctl_hosts::fuzz_greeting(bytes);
    if let Some(end) = found {
        assert_eq!(agentctl_hosts::fuzz_greeting(&bytes[..end]), Some(end));
        assert_eq!(agentctl_hosts::fuzz_greeting(&bytes[..end - 1]), None);
    }
    let _ = (decode::<RequestHead>(bytes), decode::<PartHead>(bytes), decode::<RosterEntry>(bytes));
    if let Ok((head, body)) = decode_answer(bytes) {
        assert_eq!(head.bytes, body.len());
    }
}

agentctl_fuzz::target!(check, agentctl_fuzz::written::roads());
