//! The API: bodies of requests, and the header that names sources.

#![no_main]

agentctl_fuzz::target!(
    agentctl_daemon::fuzzing::body,
    agentctl_fuzz::written::bodies(&agentctl_daemon::openapi())
);
