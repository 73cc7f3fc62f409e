//! Slate: sessions, messages and traces.

#![no_main]

use agentctl_fuzz::homes::{Recorded, check, seeds};

const HOME: Recorded =
    Recorded { agent: "slate", case: "errored-no-connection", only: &["ses_e21ec0d3affe7iTPgJLanWtB1x"] };

agentctl_fuzz::target!(|bytes: &[u8]| check(HOME, bytes), seeds(HOME));
