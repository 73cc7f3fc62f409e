//! Snapshots from anybody: a tar archive in zstd, and its list.

#![no_main]

agentctl_fuzz::target!(agentctl_fuzz::snapshots::check, agentctl_fuzz::snapshots::seeds());
