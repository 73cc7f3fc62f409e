//! The API: query strings.

#![no_main]

agentctl_fuzz::target!(
    |bytes: &[u8]| agentctl_fuzz::text(bytes, agentctl_daemon::fuzzing::query_string),
    agentctl_fuzz::written::queries()
);
