//! agentctl: cursors of events, of one machine and of several.

#![no_main]

fn check(text: &str) {
    agentctl_daemon::fuzzing::cursor(text);
    agentctl_program::fuzzing::cursors(text);
}

agentctl_fuzz::target!(|bytes: &[u8]| agentctl_fuzz::text(bytes, check), agentctl_fuzz::written::cursor());
