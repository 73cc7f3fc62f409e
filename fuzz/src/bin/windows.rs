//! JSONL windows: from the front, from the back, as a whole.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::lines::windows, agentctl_fuzz::lines::windows_seeds());
