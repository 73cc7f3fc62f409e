//! agentctl: the template of --format.

#![no_main]

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, agentctl_program::fuzzing::template),
    agentctl_fuzz::written::template()
);
