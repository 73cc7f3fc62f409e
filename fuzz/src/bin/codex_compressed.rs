//! Codex: rollouts that were put away with zstd.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::compressed::rollout, agentctl_fuzz::compressed::rollout_seeds());
