//! agentctl: the file of launch --matrix, in YAML.

#![no_main]

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, agentctl_program::fuzzing::matrix),
    agentctl_fuzz::written::matrix()
);
