//! OpenClaw: the answers of a gateway.

#![no_main]

agentctl_fuzz::target!(
    agentctl_adapters::agents::openclaw::fuzzing::answer,
    agentctl_fuzz::seeds::payloads("openclaw")
);
