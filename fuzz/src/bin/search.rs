//! Search: the sieve over raw bytes.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::searched::check, agentctl_fuzz::searched::seeds());
