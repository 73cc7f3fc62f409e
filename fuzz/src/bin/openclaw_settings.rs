//! OpenClaw: its settings in JSON5, variables in .env files, addresses.

#![no_main]

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, agentctl_adapters::agents::openclaw::fuzzing::settings),
    agentctl_fuzz::seeds::texts(agentctl_fuzz::seeds::SETTINGS)
);
