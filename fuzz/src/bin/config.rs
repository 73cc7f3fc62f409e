//! agentctl: config.toml.

#![no_main]

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, agentctl_program::fuzzing::config),
    agentctl_fuzz::written::config()
);
