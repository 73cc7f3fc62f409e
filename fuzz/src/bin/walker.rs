//! The quick walk over one line of JSON.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::lines::walker, agentctl_fuzz::lines::walker_seeds());
