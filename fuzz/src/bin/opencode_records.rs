//! OpenCode: what the columns of its database hold.

#![no_main]

agentctl_fuzz::target!(
    agentctl_adapters::fuzzing::opencode_record,
    agentctl_fuzz::seeds::files("opencode", "json")
);
