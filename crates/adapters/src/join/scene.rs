//! Processes for tests.

use agentctl_model::{ProcessHead, ProcessRef};

/// The first process of the machine, with this name and these arguments.
pub(crate) fn head(comm: &str, argv: &[&str]) -> ProcessHead {
    ProcessHead {
        process: ProcessRef { pid: 1, start: 1, boot: 1 },
        parent: 0,
        uid: None,
        comm: comm.into(),
        argv: argv.iter().map(ToString::to_string).collect(),
        started_at: None,
        forked: false,
    }
}
